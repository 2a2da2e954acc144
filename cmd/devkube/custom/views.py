"""How rules see values: which type a schema has in CEL, and what of a JSON value must change to be of that type.

Rules of apiserver/pkg/cel/common/schemas.go. Most values are seen as they are; numbers become doubles, strings with the
formats byte, date, date-time and duration become what they mean, names that are no identifiers are escaped.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from devkube.custom import formats

Node = Mapping[str, Any]
Kind = Literal["dyn", "int", "double", "bool", "string", "bytes", "timestamp", "duration", "list", "map", "object"]
View = Callable[[Any], Any]

_RESERVED: Final = (
    *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
    *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_STRINGS: Final[Mapping[str, Kind]] = {
    "byte": "bytes",
    "date": "timestamp",
    "date-time": "timestamp",
    "duration": "duration",
}
_SCALARS: Final[Mapping[str, Kind]] = {"boolean": "bool", "integer": "int", "number": "double"}


def escape(name: str) -> str | None:
    """The identifier under which rules reach a field, None where there is none."""
    if name in _RESERVED:
        return f"__{name}__"
    if re.fullmatch(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", name) is None:
        return None
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


@dataclass(frozen=True)
class Type:
    kind: Kind
    of: "Type | None" = None  # what a list's items and a map's values are
    fields: Mapping[str, "Type"] = field(default_factory=dict)  # by escaped name
    names: Mapping[str, str] = field(default_factory=dict)  # JSON name -> escaped name
    parse: View | None = None


def type_of(node: Node, resource: bool = False) -> Type | None:
    """None: rules cannot reach values of this schema."""
    if node.get("x-kubernetes-int-or-string"):
        return Type("dyn")
    if resource:
        node = _with_meta(node)
    kind: str = node.get("type") or ""
    if kind == "array":
        items = node.get("items")
        below = _below(items) if isinstance(items, Mapping) else None
        return Type("list", below) if below else None
    if kind == "object":
        values = node.get("additionalProperties")
        if isinstance(values, Mapping):
            below = _below(values)
            return Type("map", below) if below else None
        return _object(node)
    if kind == "string":
        return _string(node.get("format") or "")
    return Type(_SCALARS[kind]) if kind in _SCALARS else None


def _below(node: Node) -> Type | None:
    return type_of(node, bool(node.get("x-kubernetes-embedded-resource")))


def _object(node: Node) -> Type:
    fields, names = {}, {}
    for name, child in (node.get("properties") or {}).items():
        escaped, below = escape(name), _below(child)
        if escaped is not None and below is not None:
            fields[escaped], names[name] = below, escaped
    return Type("object", fields=fields, names=names)


def _string(form: str) -> Type:
    kind = _STRINGS.get(form, "string")
    parse = {
        "byte": formats.parse_bytes,
        "date": lambda text: timestamp(formats.parse_date(text)),
        "date-time": lambda text: timestamp(formats.parse_datetime(text)),
        "duration": lambda text: duration(formats.parse_duration(text)),
    }.get(form)
    return Type(kind, parse=parse)


def _with_meta(node: Node) -> Node:
    """Of a resource's metadata, rules see name and generateName, whatever its schema says."""
    text = {"type": "string"}
    meta = {"type": "object", "properties": {"name": text, "generateName": text}}
    fields = {**(node.get("properties") or {}), "apiVersion": text, "kind": text, "metadata": meta}
    return {**node, "type": "object", "properties": fields, "additionalProperties": None}


# The library takes times inside dynamic values only as protobuf messages.
def timestamp(value: Any) -> Any:
    from google.protobuf.timestamp_pb2 import Timestamp

    made = Timestamp()
    made.FromDatetime(value)
    return made


def duration(value: Any) -> Any:
    from google.protobuf.duration_pb2 import Duration

    made = Duration()
    made.FromTimedelta(value)
    return made


def viewer(seen: Type) -> View | None:
    """A function that gives a value as rules see it; None where that is the value itself. It raises ValueError where
    a formatted string is malformed (validation has told that already)."""
    if seen.kind == "double":
        return lambda value: float(value) if type(value) is int else value
    if seen.parse is not None:
        parse = seen.parse
        return lambda value: parse(value) if isinstance(value, str) else value
    if seen.of is not None:
        below = viewer(seen.of)
        if below is None:
            return None
        return lambda value: _each(value, below)
    found = {name: viewer(seen.fields[escaped]) for name, escaped in seen.names.items()}
    views = {name: below for name, below in found.items() if below is not None}
    renamed = {name: escaped for name, escaped in seen.names.items() if name != escaped}
    if not views and not renamed:
        return None

    def view(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {renamed.get(k, k): views[k](v) if k in views and v is not None else v for k, v in value.items()}

    return view


def _each(value: Any, view: View) -> Any:
    if isinstance(value, list):
        return [item if item is None else view(item) for item in value]
    if isinstance(value, dict):
        return {name: held if held is None else view(held) for name, held in value.items()}
    return value


# Paths that a CRD may give: `fieldPath` of rules and `selectableFields`, made of fields and map keys that exist.
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")


def resolved(path: str, node: Node, *, brackets: bool = True) -> tuple[str, Node]:
    """The path as errors print it (`.spec.a`, `.labels[x]`) and the schema it leads to. ValueError with the reason."""
    told, end = "", 0
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None:
            raise ValueError(f"expected [ or . but got: {path[end:]}")
        if step[2] is not None and not brackets:
            raise ValueError("array notation is not allowed")
        name = step[1] if step[1] is not None else re.sub(r"\\(.)", r"\1", step[2])
        fields, values = node.get("properties"), node.get("additionalProperties")
        if fields and name in fields:
            node, told = fields[name], f"{told}.{name}"
        elif not fields and isinstance(values, Mapping):
            node, told = values, f"{told}[{name}]"
        else:
            raise ValueError("does not refer to a valid field")
        end = step.end()
    return told, node


def normalized(path: str, node: Node) -> str:
    """As errors print it; "" where it leads nowhere."""
    try:
        return resolved(path, node)[0]
    except ValueError:
        return ""
