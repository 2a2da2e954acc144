"""How rules see values: which type a schema has in CEL, and what of a JSON value must change to be of that type.

Rules of apiserver/pkg/cel/common/schemas.go. Most values are seen as they are; numbers become doubles, strings with the
formats byte, date, date-time and duration become what they mean, names that are no identifiers are escaped. CEL's
checker is told of types as protobuf messages (`Messages`). Protobuf cannot say "list of lists" and the like; there
the inner value is dynamic, and a mistake inside shows when the rule is evaluated.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from devkube.custom import formats
from devkube.custom.structural import EMBEDDED, Node, mapping

Kind = Literal["dyn", "int", "double", "bool", "string", "bytes", "timestamp", "duration", "list", "map", "object"]
View = Callable[[Any], Any]

PACKAGE: Final = "kubernetes"
QUANTITY: Final = f"{PACKAGE}.Quantity"
_RESERVED: Final = (
    *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
    *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ANY: Final = {"dyn": "Value", "list": "ListValue", "map": "Struct"}
_TEXT: Final = {"type": "string"}
_META: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}


def escape(name: str) -> str | None:
    """The identifier under which rules reach a field, None where there is none."""
    if name in _RESERVED:
        return f"__{name}__"
    if re.fullmatch(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", name) is None:
        return None
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


@dataclass(frozen=True, eq=False)
class Type:
    kind: Kind
    of: "Type | None" = None  # what a list's items and a map's values are
    fields: Mapping[str, "Type"] = field(default_factory=dict)  # by escaped name
    view: View = lambda value: value  # a value as rules see it; ValueError where a formatted string is malformed


def type_of(node: Node, resource: bool = False) -> Type | None:
    """None: rules cannot reach values of this schema. Of a resource's metadata they see name and generateName."""
    kind = node.get("type")
    held = mapping(node.get("items" if kind == "array" else "additionalProperties"))
    if node.get("x-kubernetes-int-or-string"):
        return Type("dyn")
    if resource or node.get(EMBEDDED):
        return _object({**(node.get("properties") or {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": _META})
    if held is not None:
        below = type_of(held)
        return below and Type("list" if kind == "array" else "map", below, view=lambda value: _each(value, below.view))
    if kind == "object":
        return _object(node.get("properties") or {})
    special = _STRINGS.get(node.get("format") or "") if kind == "string" else None
    return special or _PLAIN.get(kind or "")


def _object(properties: Mapping[str, Node]) -> Type:
    names = {name: escaped for name in properties if (escaped := escape(name)) is not None}
    known = {name: below for name in names if (below := type_of(properties[name])) is not None}

    def view(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {names[k] if k in known else k: known[k].view(v) if k in known else v for k, v in value.items()}

    return Type("object", fields={names[name]: one for name, one in known.items()}, view=view)


def _each(value: Any, view: View) -> Any:
    if isinstance(value, list):
        return [view(item) for item in value]
    return {name: view(held) for name, held in value.items()} if isinstance(value, dict) else value


def _text(parse: Callable[[str], Any]) -> View:
    """Times are protobuf messages: the library takes no others inside dynamic values."""

    def view(value: Any) -> Any:
        from google.protobuf import duration_pb2, timestamp_pb2

        parsed = parse(value) if isinstance(value, str) else value
        if isinstance(parsed, datetime):
            made = timestamp_pb2.Timestamp()
            made.FromDatetime(parsed)
            return made
        if isinstance(parsed, timedelta):
            made = duration_pb2.Duration()
            made.FromTimedelta(parsed)
            return made
        return parsed

    return view


_PLAIN: Final[Mapping[str, Type]] = {
    "boolean": Type("bool"),
    "integer": Type("int"),
    "number": Type("double", view=lambda value: float(value) if type(value) is int else value),
    "string": Type("string"),
}
_STRINGS: Final[Mapping[str, Type]] = {
    "byte": Type("bytes", view=_text(formats.parse_bytes)),
    "date": Type("timestamp", view=_text(formats.parse_date)),
    "date-time": Type("timestamp", view=_text(formats.parse_datetime)),
    "duration": Type("duration", view=_text(formats.parse_duration)),
}


class Messages:
    """A file of protobuf's with the types that were asked for, for CEL's checker."""

    def __init__(self) -> None:
        from google.protobuf import descriptor_pb2

        self._names: dict[Type, str] = {}
        self._file = descriptor_pb2.FileDescriptorProto(name="crd.proto", package=PACKAGE, syntax="proto3")
        self._file.message_type.add(name=QUANTITY.rpartition(".")[2])

    def pool(self) -> Any:
        from google.protobuf import descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

        pool = descriptor_pool.DescriptorPool()
        for module in (struct_pb2, timestamp_pb2, duration_pb2):
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
            self._file.dependency.append(module.DESCRIPTOR.name)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def cel(self, seen: Type) -> Any:
        from cel_expr_python import cel

        if seen.kind == "object":
            return cel.Type(self._message(seen))
        if seen.of is not None:
            of = self.cel(seen.of)
            return cel.Type.List(of) if seen.kind == "list" else cel.Type.Map(cel.Type.STRING, of)
        return cel.Type(seen.kind)

    def _message(self, seen: Type) -> str:
        if seen not in self._names:
            name = f"Object{len(self._names)}"
            self._names[seen] = f"{PACKAGE}.{name}"
            message = self._file.message_type.add(name=name)
            for number, (called, below) in enumerate(seen.fields.items(), 1):
                # Field names may differ in case or underscores only: JSON names of our own keep protobuf from minding.
                field = message.field.add(name=called, number=number, json_name=f"f{number}")
                field.label = field.LABEL_OPTIONAL if below.of is None else field.LABEL_REPEATED
                held = field
                if below.kind == "map":
                    # The name that protobuf demands of a map's entry: the field's in camel case.
                    entry = "".join(part[:1].upper() + part[1:] for part in called.split("_")) + "Entry"
                    field.type, field.type_name = field.TYPE_MESSAGE, f".{self._names[seen]}.{entry}"
                    pair = message.nested_type.add(name=entry, options={"map_entry": True})
                    pair.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
                    held = pair.field.add(name="value", number=2, label=field.LABEL_OPTIONAL)
                self._describe(held, below.of or below)
        return self._names[seen]

    def _describe(self, field: Any, seen: Type) -> None:
        if seen.kind == "object":
            field.type, field.type_name = field.TYPE_MESSAGE, f".{self._message(seen)}"
        elif seen.kind in (*_ANY, "timestamp", "duration"):
            name = _ANY.get(seen.kind, seen.kind.capitalize())
            field.type, field.type_name = field.TYPE_MESSAGE, f".google.protobuf.{name}"
        else:
            field.type = getattr(field, "TYPE_INT64" if seen.kind == "int" else f"TYPE_{seen.kind.upper()}")
