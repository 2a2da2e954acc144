"""Is a CRD's schema structural, and is it one that apiextensions accepts?

The rules of `ValidateStructural` and `ValidateCustomResourceDefinitionOpenAPISchema`, with their words. The root may
have the fields every object has; under allOf, anyOf, oneOf and not a schema may only say what values are valid.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube import causes
from devkube.custom import formats
from devkube.errors import Cause

Node = Mapping[str, Any]
TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_PRESERVE, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_INT_OR_STRING, _LIST_TYPE = "x-kubernetes-int-or-string", "x-kubernetes-list-type"
_MAP_TYPE, _LIST_KEYS = "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
# Under a junctor: what must be absent, and how upstream says so.
_NESTED_BANS: Final = {
    "type": "must be empty",
    "additionalProperties": "must be undefined",
    "default": "must be undefined",
    "title": "must be empty",
    "description": "must be empty",
    "nullable": "must be false",
    _PRESERVE: "must be false",
    _EMBEDDED: "must be false",
    _INT_OR_STRING: "must be false",
    _LIST_KEYS: "must be empty",
    _LIST_TYPE: "must be undefined",
    _MAP_TYPE: "must be undefined",
    "x-kubernetes-validations": "must be empty",
}
_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def structural(node: Node, path: str) -> list[Cause]:
    """Why the schema is not structural; sorted, as upstream sorts them."""
    found = [*_invariants(node, "root", path), *_complete(node, node, path, path)]
    return sorted(found, key=lambda cause: f"{cause.field}: {cause.message}")


def _invariants(node: Node, level: str, path: str) -> Iterator[Cause]:
    items, values, kind = node.get("items"), node.get("additionalProperties"), node.get("type") or ""
    embedded, keeps = node.get(_EMBEDDED), node.get(_PRESERVE)
    if kind == "array" and not isinstance(items, Mapping):
        yield causes.required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _invariants(items, "item", f"{path}.items")
    for name, below in (node.get("properties") or {}).items():
        yield from _invariants(below, "field", f"{path}.properties[{name}]")
    if values is not None:
        if level == "root":
            yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(values, Mapping):
            yield from _invariants(values, "field", f"{path}.additionalProperties")
        if embedded:
            detail = f"must not be used if {_EMBEDDED} is set"
            yield causes.forbidden(f"{path}.additionalProperties", detail)
    if node.get(_INT_OR_STRING):
        for other in (_PRESERVE, _EMBEDDED):
            if node.get(other):
                yield causes.invalid(f"{path}.{other}", True, f"must be false if {_INT_OR_STRING} is true")
    yield from _values(node, path, *_exceptions(node))
    if embedded and kind != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        yield causes.invalid(f"{path}.type", kind, detail) if kind else causes.required(f"{path}.type", detail)
    elif not kind and not node.get(_INT_OR_STRING) and not keeps:
        yield causes.required(f"{path}.type", _NO_TYPE[level])
    if level == "root" and kind not in ("", "object"):
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    yield from _meta(node, level, path)
    if embedded and not keeps and not node.get("properties"):
        detail = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        yield causes.required(f"{path}.properties", detail)


def _meta(node: Node, level: str, path: str) -> Iterator[Cause]:
    """The root's metadata is known without being said; only the names in it may be restricted."""
    meta = (node.get("properties") or {}).get("metadata")
    if meta is None or level != "root":
        return
    said = {key for key, value in meta.items() if value} - {"type", "properties", "default"}
    if said or not set(meta.get("properties") or {}) <= {"name", "generateName"}:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield causes.forbidden(f"{path}.properties[metadata]", detail)


def _exceptions(node: Node) -> tuple[bool, bool]:
    """int-or-string may say so: types under anyOf, or under the first allOf's anyOf, are then no fault."""
    first = (node.get("allOf") or [{}])[0]
    return node.get("anyOf") == _EITHER, first.get("anyOf") == _EITHER


def _values(node: Node, path: str, skip_any: bool = False, skip_first: bool = False) -> Iterator[Cause]:
    for junctor in ("anyOf", "allOf", "oneOf"):
        if junctor == "anyOf" and skip_any:
            continue
        for index, below in enumerate(node.get(junctor) or ()):
            skip = skip_first and junctor == "allOf" and index == 0
            yield from _nested(below, f"{path}.{junctor}[{index}]", skip)
    if node.get("not") is not None:
        yield from _nested(node["not"], f"{path}.not")
    if node.get("pattern"):
        try:
            formats.pattern(node["pattern"])
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            yield causes.invalid(f"{path}.pattern", node["pattern"], detail)


def _nested(node: Node, path: str, skip_any: bool = False) -> Iterator[Cause]:
    yield from _values(node, path, skip_any)
    if isinstance(node.get("items"), Mapping):
        yield from _nested(node["items"], f"{path}.items")
    for name, below in (node.get("properties") or {}).items():
        yield from _nested(below, f"{path}.properties[{name}]")
        if name == "metadata":
            yield causes.forbidden(f"{path}.properties[{name}]", "must not be specified in a nested context")
    for key, words in _NESTED_BANS.items():
        if key in node and (node[key] or key in ("additionalProperties", "default")):
            yield causes.forbidden(f"{path}.{key}", f"{words} to be structural")


def _junctors(node: Node) -> list[tuple[str, Node]]:
    below = [(f".{j}[{i}]", n) for j in ("allOf", "anyOf", "oneOf") for i, n in enumerate(node.get(j) or ())]
    return [*below, (".not", node["not"])] if node.get("not") is not None else below


def _complete(node: Node, spine: Node | None, path: str, place: str) -> Iterator[Cause]:
    """Fields and items that the root's junctors speak of must be specified outside of them, too."""
    if spine is None:
        yield causes.required(place, f"because it is defined in {path}")
        return
    for suffix, below in _junctors(node):
        yield from _specified(below, spine, path + suffix, place)


def _specified(node: Node, spine: Node | None, path: str, place: str) -> Iterator[Cause]:
    yield from _complete(node, spine, path, place)
    if spine is None:
        return
    if isinstance(node.get("items"), Mapping):
        items = spine.get("items")
        known = items if isinstance(items, Mapping) else None
        yield from _specified(node["items"], known, f"{path}.items", f"{place}.items")
    for name, below in (node.get("properties") or {}).items():
        step = f".properties[{name}]"
        yield from _specified(below, (spine.get("properties") or {}).get(name), path + step, place + step)


def acceptable(node: Node, path: str, root: bool = True, meta: bool = False, no_default: str = "") -> Iterator[Cause]:
    """What of OpenAPI a CRD's schema may not use, and what its extensions must look like. `meta`: inside metadata or
    type information of a resource; `no_default`: why a default is forbidden here, "" where it is not."""
    kind = node.get("type") or ""
    if kind == "null":
        yield causes.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in TYPES:
        yield causes.unsupported(f"{path}.type", kind, TYPES)
    if node.get("default") is not None and no_default:
        yield causes.forbidden(f"{path}.default", f"must not be set {no_default}")
    for key in UNSUPPORTED:
        if node.get(key):
            yield causes.forbidden(f"{path}.{key}", f"{key} is not supported")
    items, values = node.get("items"), node.get("additionalProperties")
    if isinstance(items, list):
        yield causes.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if meta and node.get(_EMBEDDED):
        yield causes.forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", detail)
    if values is not None and node.get("properties") and values is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", detail)
    yield from _extensions(node, kind, path)
    if isinstance(values, Mapping):
        why = "inside additionalProperties applying to object metadata" if meta else no_default
        yield from acceptable(values, f"{path}.additionalProperties", False, meta, why)
    for name, below in (node.get("properties") or {}).items():
        special = (root or bool(node.get(_EMBEDDED))) and name in ("metadata", "kind", "apiVersion")
        why = f"in top-level {name}" if special and root else no_default
        yield from acceptable(below, f"{path}.properties[{name}]", False, meta or special, why)
    if isinstance(items, Mapping):
        yield from acceptable(items, f"{path}.items", False, meta, no_default)
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(node.get(junctor) or ()):
            yield from acceptable(below, f"{path}.{junctor}[{index}]", False, meta, no_default)
    if node.get("not") is not None:
        yield from acceptable(node["not"], f"{path}.not", False, meta, no_default)


def _extensions(node: Node, kind: str, path: str) -> Iterator[Cause]:
    if node.get(_PRESERVE) is False:
        yield causes.invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    for key, wanted, known in (
        (_MAP_TYPE, "object", ("atomic", "granular")),
        (_LIST_TYPE, "array", ("atomic", "set", "map")),
    ):
        value = node.get(key)
        if value is not None and kind != wanted:
            detail = f"must be {wanted} if {key} is specified"
            yield causes.invalid(f"{path}.type", kind, detail) if kind else causes.required(f"{path}.type", detail)
        if value is not None and value not in known:
            yield causes.unsupported(f"{path}.{key}", value, known)
    list_type, keys = node.get(_LIST_TYPE), node.get(_LIST_KEYS) or []
    if keys and list_type != "map":
        detail = f"must be map if {_LIST_KEYS} is non-empty"
        place = f"{path}.{_LIST_TYPE}"
        yield causes.required(place, detail) if list_type is None else causes.invalid(place, list_type, detail)
    item: Any = node.get("items") or {}
    of_objects = isinstance(item, Mapping) and item.get("type") == "object"
    if list_type == "set" and of_objects and item.get(_MAP_TYPE) != "atomic":
        detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        yield causes.invalid(f"{path}.items.{_MAP_TYPE}", item.get(_MAP_TYPE), detail)
    if list_type == "map":
        yield from _map_items(item, keys, path)


def _map_items(item: Any, keys: list[str], path: str) -> Iterator[Cause]:
    if not keys:
        yield causes.required(f"{path}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if not isinstance(item, Mapping) or item.get("type") != "object":
        yield causes.required(f"{path}.items.type", f"must be object if parent array's {_LIST_TYPE} is map")
        return
    fields = item.get("properties") or {}
    for key in keys:
        if key not in fields:
            yield causes.invalid(f"{path}.{_LIST_KEYS}", keys, "entries must all be names of item properties")
        elif fields[key].get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield causes.invalid(f"{path}.items.properties[{key}].type", fields[key]["type"], detail)
        elif key not in (item.get("required") or ()) and fields[key].get("default") is None:
            detail = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
            yield causes.required(f"{path}.items.properties[{key}].default", detail)
