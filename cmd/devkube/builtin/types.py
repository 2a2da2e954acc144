"""A schema compiled into a decoder that behaves as Go's for Kubernetes types.

A type has two ways over a value. `fits` is the fast one: True says that Go would write back exactly this value, and
that is the end of it for nearly every object. Where it says False, `decode` walks again with paths: it collects unknown
fields, drops nulls (Go reads them as the zero value), writes scalars canonically and raises `Undecodable` at the first
wrong JSON type. Types are compiled on demand, once, and refer to each other by name, so recursion is no matter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from devkube.builtin import scalars
from devkube.builtin.document import PREFIX, document


class Undecodable(Exception):
    """What Go's decoder refuses; the message begins as Go's."""


class Type(Protocol):
    @property
    def go(self) -> str: ...

    @property
    def zero(self) -> Any: ...

    def fits(self, value: Any) -> bool: ...

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        """`at` is the path of the value, `unknown` gains the paths of what no type knows."""
        ...


_JSON = {type(None): "null", str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def _wrong(value: Any, at: str, go: str) -> Undecodable:
    what = f"number {value}" if type(value) in (int, float) else _JSON[type(value)]
    return Undecodable(f"json: cannot unmarshal {what} into field {at or '(the object)'} of type {go}")


@dataclass(frozen=True)
class Plain:
    """string and bool: decided by the Python type alone."""

    go: str
    python: type
    zero: Any

    def fits(self, value: Any) -> bool:
        return type(value) is self.python

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if type(value) is not self.python:
            raise _wrong(value, at, self.go)
        return value


@dataclass(frozen=True)
class Checked:
    """Numbers, int-or-string and values of any kind: taken as they are, or not."""

    go: str
    fits: Callable[[Any], bool]
    zero: Any = 0

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if not self.fits(value):
            raise _wrong(value, at, self.go)
        return value


@dataclass(frozen=True)
class Text:
    """A scalar with a canonical text; `numbers` says whether a JSON number is read as its digits."""

    go: str
    canonical: Callable[[str], str]
    numbers: bool = False
    zero: Any = None

    def fits(self, value: Any) -> bool:
        try:
            return type(value) is str and self.canonical(value) == value
        except ValueError:
            return False

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if self.numbers and type(value) in (int, float):
            value = str(value)
        if type(value) is not str:
            raise _wrong(value, at, self.go)
        try:
            return self.canonical(value)
        except ValueError as error:
            raise Undecodable(f"{at}: {error}") from None


@dataclass(frozen=True)
class SchemaOr:
    """A field of a CRD's schema that holds a schema or something else: a bool, or a list of schemas or names."""

    other: type
    go: str = "v1.JSONSchemaProps"
    zero: None = None

    def fits(self, value: Any) -> bool:
        if type(value) is list and self.other is list:
            return all(type(one) is str or named(_SCHEMA).fits(one) for one in value)
        return type(value) is self.other or (type(value) is dict and named(_SCHEMA).fits(value))

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if type(value) is dict:
            return named(_SCHEMA).decode(value, at, [])  # upstream reads it apart, and leniently
        if type(value) is list and self.other is list:
            return [one if type(one) is str else named(_SCHEMA).decode(one or {}, at, []) for one in value]
        if type(value) is not self.other:
            raise Undecodable(f"{at}: boolean or JSON schema expected")
        return value


@dataclass(frozen=True)
class ListOf:
    items: Type

    @property
    def go(self) -> str:
        return f"[]{self.items.go}"

    @property
    def zero(self) -> list[Any]:
        return []

    def fits(self, value: Any) -> bool:
        return type(value) is list and all(map(self.items.fits, value))

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _wrong(value, at, self.go)
        for index, item in enumerate(value):
            value[index] = self.items.zero if item is None else self.items.decode(item, f"{at}[{index}]", unknown)
        return value


@dataclass(frozen=True)
class MapOf:
    values: Type

    @property
    def go(self) -> str:
        return f"map[string]{self.values.go}"

    @property
    def zero(self) -> dict[str, Any]:
        return {}

    def fits(self, value: Any) -> bool:
        return type(value) is dict and all(map(self.values.fits, value.values()))

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _wrong(value, at, self.go)
        for key, one in value.items():
            value[key] = self.values.zero if one is None else self.values.decode(one, f"{at}.{key}", unknown)
        return value


class Struct:
    """An object with known fields. Fields are compiled at the first use, so that types may contain themselves."""

    def __init__(self, name: str) -> None:
        self.name = name
        parts = name.split(".")
        self.short, self.go = parts[-1], ".".join(parts[-2:])
        self.fields: Mapping[str, Type] = {}
        self.required: tuple[str, ...] = ()
        self._plain: dict[str, type] = {}
        self._fits: dict[str, Callable[[Any], bool]] = {}
        self._drops: set[str] = set()

    @property
    def zero(self) -> dict[str, Any]:
        return {}

    def compile(self, node: Mapping[str, Any]) -> None:
        self.fields = {key: compiled(child) for key, child in (node.get("properties") or {}).items()}
        self.required = tuple(node.get("required") or ())
        self._plain = {k: t.python for k, t in self.fields.items() if isinstance(t, Plain)}
        # An optional list or map that is empty is left out by Go; one that must be there is written.
        self._drops = {k for k, t in self.fields.items() if isinstance(t, ListOf | MapOf) and k not in self.required}
        self._fits = {k: _filled(t.fits) if k in self._drops else t.fits for k, t in self.fields.items()}

    def fits(self, value: Any) -> bool:
        if type(value) is not dict:
            return False
        plain, deep = self._plain, self._fits
        for key, one in value.items():
            if plain.get(key) is type(one):
                continue
            check = deep.get(key)
            if check is None or not check(one):
                return False
        return True

    def decode(self, value: Any, at: str, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _wrong(value, at, self.go)
        for key, one in list(value.items()):
            known, here = self.fields.get(key), f"{at}.{key}" if at else key
            if known is None:
                unknown.append(here)
                del value[key]
            elif one is None or (key in self._drops and not one and type(one) is type(known.zero)):
                del value[key]
            else:
                value[key] = known.decode(one, here, unknown)
        return value


def _filled(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: bool(value) and fits(value)


def _integer(bits: int) -> Checked:
    limit = 2 ** (bits - 1)
    return Checked(f"int{bits}", lambda value: type(value) is int and -limit <= value < limit)


STRING, BOOL = Plain("string", str, ""), Plain("bool", bool, False)
INT32, INT64, FLOAT = _integer(32), _integer(64), Checked("float64", lambda value: type(value) in (int, float))
INT_OR_STRING = Checked("intstr.IntOrString", lambda value: type(value) is str or INT32.fits(value))
ANYTHING = Checked("interface {}", lambda value: True, None)
BYTES = Text("[]uint8", scalars.base64, zero="")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
SPECIAL: Mapping[str, Type] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Text("resource.Quantity", scalars.quantity, True, "0"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    _META + "Time": Text("string", scalars.time),
    _META + "MicroTime": Text("string", scalars.micro_time),
    _META + "Duration": Text("string", scalars.duration),
    _META + "FieldsV1": ANYTHING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
    _SCHEMA + "OrArray": SchemaOr(list),
    _SCHEMA + "OrBool": SchemaOr(bool),
    _SCHEMA + "OrStringArray": SchemaOr(list),
}
_structs: dict[str, Type] = {}


def named(name: str) -> Type:
    """The type of a definition, compiled with all it refers to."""
    found = _structs.get(name)
    if found is None:
        node = document()["$defs"][name]
        if name in SPECIAL:
            found = SPECIAL[name]
        elif "properties" in node:
            found = _structs[name] = Struct(name)  # known before its fields are: they may refer to it
            found.compile(node)
        else:
            found = compiled(node)
        _structs[name] = found
    return found


@cache
def _scalar(kind: str, form: str) -> Type:
    if kind == "string":
        return BYTES if form == "byte" else STRING
    if kind == "integer":
        return INT32 if form == "int32" else INT64
    if kind == "boolean":
        return BOOL
    return FLOAT if kind == "number" else ANYTHING


def compiled(node: Mapping[str, Any]) -> Type:
    if "$ref" in node:
        return named(node["$ref"].removeprefix(PREFIX))
    kind = node.get("type")
    kind = kind if isinstance(kind, str) else next((k for k in kind or () if k != "null"), "")
    if kind == "array":
        return ListOf(compiled(node.get("items") or {}))
    if kind == "object":
        values = node.get("additionalProperties")
        return MapOf(compiled(values)) if isinstance(values, Mapping) else ANYTHING
    return _scalar(kind, node.get("format") or "")
