"""A schema compiled into a decoder that behaves as Go's for Kubernetes types.

A type has two ways over a value. `fits` is the fast one: True says that Go would write back exactly this value, and
that is the end of it for nearly every object. Where it says False, `decode` walks again with paths: it collects unknown
fields, drops nulls (Go reads them as the zero value), writes scalars canonically and raises `Undecodable` at the first
wrong JSON type. Types are compiled on demand, once, and refer to each other by name, so recursion is no matter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from devkube.builtin import scalars
from devkube.builtin.document import PREFIX, document
from devkube.builtin.leaves import (
    Anything,
    Float,
    Integer,
    IntOrString,
    Key,
    Place,
    Plain,
    Text,
    Type,
    Undecodable,
    Walk,
    wrong,
)


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

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if type(value) is dict:
            return named(_SCHEMA).decode(value, None, Walk())  # upstream reads it apart, and leniently
        if type(value) is list and self.other is list:
            return [one if type(one) is str else named(_SCHEMA).decode(one or {}, None, Walk()) for one in value]
        if type(value) is not self.other:
            raise Undecodable("boolean or JSON schema expected" if self.other is bool else wrong(value, None, self.go))
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
        if type(value) is not list:
            return False
        fits = self.items.fits
        return all(map(fits, value))

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if type(value) is not list:
            raise wrong(value, place, self.go)
        struct = place.struct if place else ""
        for index, item in enumerate(value):
            zero = item is None
            value[index] = self.items.zero if zero else self.items.decode(item, Place(place, index, struct), walk)
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
        if type(value) is not dict:
            return False
        fits = self.values.fits
        return all(map(fits, value.values()))

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if type(value) is not dict:
            raise wrong(value, place, self.go)
        struct = place.struct if place else ""
        for key, one in value.items():
            value[key] = (
                self.values.zero if one is None else self.values.decode(one, Place(place, Key(key), struct), walk)
            )
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

    @property
    def zero(self) -> dict[str, Any]:
        return {}

    def compile(self, node: Mapping[str, Any]) -> None:
        self.fields = {key: compiled(child) for key, child in (node.get("properties") or {}).items()}
        self.required = tuple(node.get("required") or ())
        self._plain = {k: t.python for k, t in self.fields.items() if isinstance(t, Plain)}
        # An optional list or map that is empty is left out by Go; one that must be there is written.
        drops = {k for k, t in self.fields.items() if isinstance(t, ListOf | MapOf) and k not in self.required}
        self._fits = {k: _filled(t.fits) if k in drops else t.fits for k, t in self.fields.items()}
        self._drops = drops

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

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if type(value) is not dict:
            raise wrong(value, place, self.go)
        for key, one in list(value.items()):
            known = self.fields.get(key)
            if known is None:
                walk.unknown.append(Place(place, key, self.short).path())
                del value[key]
            elif one is None or (key in self._drops and not one and type(one) is type(known.zero)):
                del value[key]
            else:
                value[key] = known.decode(one, Place(place, key, self.short), walk)
        return value


def _filled(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: bool(value) and fits(value)


STRING, BOOL = Plain("string", str, ""), Plain("bool", bool, False)
INT32, INT64, FLOAT, ANYTHING = Integer("int32", 2**31), Integer("int64", 2**63), Float(), Anything()
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
SPECIAL: Mapping[str, Type] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Text("resource.Quantity", scalars.quantity, True, "0"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": IntOrString(),
    _META + "Time": Text("string", scalars.time),
    _META + "MicroTime": Text("string", scalars.micro_time),
    _META + "Duration": Text("string", scalars.duration),
    _META + "FieldsV1": ANYTHING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
    _SCHEMA + "OrArray": SchemaOr(list),
    _SCHEMA + "OrBool": SchemaOr(bool),
    _SCHEMA + "OrStringArray": SchemaOr(list),
}
BYTES = Text("[]uint8", scalars.base64, zero="")
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
