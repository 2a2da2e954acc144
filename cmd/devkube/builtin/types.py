"""The schemas of built-in types read as Go reads its structs: `decode` an object, `structs` within one.

Decoding collects unknown fields, drops nulls (Go reads them as the zero value) and empty optional lists, writes scalars
canonically and raises `Undecodable` at the first wrong JSON type. What is decoded stays as it is when decoded again.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from devkube.builtin import scalars
from devkube.builtin.document import PREFIX, document
from devkube.errors import StatusError, bad_request
from devkube.kinds import FieldValidation
from devkube.schema import Node, resolved
from devkube.values import go_type

Json = dict[str, Any]
_PYTHON = {"string": str, "boolean": bool, "array": list, "object": dict}
_ZERO: Mapping[str, Callable[[], Any]] = {**_PYTHON, "integer": int, "number": int}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


class Undecodable(Exception):
    """What Go's decoder refuses; the message begins as Go's."""


def refused(kind: str, version: str, why: str) -> StatusError:
    """What the decoder says of a whole object; upstream leaves the group out."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def told(kind: str, version: str, unknown: list[str], validation: FieldValidation) -> list[str]:
    """The warnings of unknown fields, as far as the client wants them. 400 where it is strict."""
    found = [f'unknown field "{path}"' for path in unknown]
    if found and validation == "Strict":
        raise refused(kind, version, f"strict decoding error: {', '.join(found)}")
    return found if validation == "Warn" else []


def _type(node: Node) -> str:
    """Optional fields have a list of types, and null is the second one."""
    kind = node.get("type") or ""
    return kind if isinstance(kind, str) else kind[0]


def _wrong(value: Any, at: str, wanted: str) -> Undecodable:
    what = f"number {value}" if type(value) in (int, float) else go_type(value)
    return Undecodable(f"json: cannot unmarshal {what} into field {at or '(the object)'} of type {wanted}")


def decode(value: Any, node: Node, at: str, unknown: list[str]) -> Any:
    """The value as Go would write it back; objects and lists are changed in place. `at` is its path, `unknown` gains
    the paths of what no type knows."""
    name, node = resolved(node, document())
    if (special := SPECIAL.get(name)) is not None:
        return special(value, at)
    kind, form = _type(node), node.get("format") or ""
    if kind in _PYTHON and type(value) is not _PYTHON[kind]:
        raise _wrong(value, at, kind)
    if kind == "object":
        _decode_fields(value, node, at, unknown)
    elif kind == "array":
        for index, one in enumerate(value):
            value[index] = _item(one, node["items"], f"{at}[{index}]", unknown)
    elif kind == "integer":
        limit = 2 ** (31 if form == "int32" else 63)
        if type(value) is not int or not -limit <= value < limit:
            raise _wrong(value, at, form)
    elif kind == "number" and type(value) not in (int, float):
        raise _wrong(value, at, kind)
    elif form == "byte":
        return _text(scalars.base64)(value, at)
    return value


def _decode_fields(value: Json, node: Node, at: str, unknown: list[str]) -> None:
    fields, values = node.get("properties"), node.get("additionalProperties")
    for key, one in list(value.items()):
        here = f"{at}.{key}" if at else key
        if fields is None:
            if isinstance(values, Mapping):
                value[key] = _item(one, values, here, unknown)
        elif key not in fields:
            unknown.append(here)
            del value[key]
        elif one is None:
            del value[key]
        else:
            value[key] = decode(one, fields[key], here, unknown)
            # An optional list or map that is empty is left out; a struct and any JSON are not, nor what must be there.
            if one in ([], {}) and "$ref" not in fields[key] and key not in (node.get("required") or ()):
                del value[key]


def _item(value: Any, node: Node, at: str, unknown: list[str]) -> Any:
    """In lists and maps null is the zero value."""
    if value is not None:
        return decode(value, node, at, unknown)
    name, node = resolved(node, document())
    return "0" if name == _QUANTITY else _ZERO.get(_type(node), lambda: None)()


def _text(canonical: Callable[[str], str], *, numbers: bool = False) -> Callable[[Any, str], Any]:
    """A scalar with a canonical text; `numbers`: what is no string is read as it is written, a number as its digits."""

    def read(value: Any, at: str) -> str:
        if numbers:
            value = str(value)
        elif type(value) is not str:
            raise _wrong(value, at, "string")
        try:
            return canonical(value)
        except ValueError as error:
            raise Undecodable(f"{at}: {error}") from None

    return read


def _int_or_string(value: Any, at: str) -> Any:
    return value if type(value) is str else decode(value, {"type": "integer", "format": "int32"}, at, [])


def _schema_or(other: type) -> Callable[[Any, str], Any]:
    """A field of a CRD's schema that holds a schema or something else: a bool, or a list, which no CRD may have."""

    def read(value: Any, at: str) -> Any:
        if type(value) is dict:
            return decode(value, {"$ref": PREFIX + _SCHEMA}, at, [])  # upstream reads it apart, and leniently
        if type(value) is not other or (type(value) is list and not all(type(one) in (dict, str) for one in value)):
            raise Undecodable(f"{at}: boolean or JSON schema expected")
        return value

    return read


SPECIAL: Mapping[str, Callable[[Any, str], Any]] = {
    _QUANTITY: _text(scalars.quantity, numbers=True),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    _META + "Time": _text(scalars.time),
    _META + "MicroTime": _text(scalars.micro_time),
    _SCHEMA + "OrArray": _schema_or(list),
    _SCHEMA + "OrBool": _schema_or(bool),
    _SCHEMA + "OrStringArray": _schema_or(list),
}


def structs(value: Any, node: Node, at: str = "") -> Iterator[tuple[str, Node, Json, str]]:
    """Every Go struct of a decoded object, outer ones first, so that what is filled in at one is walked next: its type
    without the version (`core.Container`), its schema, itself, its path."""
    name, node = resolved(node, document())
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from structs(one, node.get("items") or {}, f"{at}[{index}]")
    elif isinstance(value, dict):
        fields, values = node.get("properties"), node.get("additionalProperties")
        if fields:
            yield _go(name), node, value, at
        for key, one in list(value.items()):
            below = fields.get(key) if fields else values
            if isinstance(one, dict | list) and isinstance(below, Mapping):
                yield from structs(one, below, f"{at}.{key}".lstrip(".") if fields else f"{at}[{key}]")


@cache
def _go(name: str) -> str:
    parts = name.split(".")
    return f"{parts[-3]}.{parts[-1]}"
