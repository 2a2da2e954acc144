"""One version's schema: structural, acceptable, with defaults that are themselves valid and rules that compile.

The rules of apiextensions' `ValidateStructural` and `ValidateCustomResourceDefinitionOpenAPISchema`. The root may have
the fields every object has; under allOf, anyOf, oneOf and not a schema may only say what values are valid.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube import causes
from devkube.custom import cel, formats, structural, validation
from devkube.custom.places import EMBEDDED, LIST_KEYS, LIST_TYPE, META_FIELDS, PRESERVE, Node, items, mapping, same
from devkube.errors import Cause

INT_OR_STRING: Final = "x-kubernetes-int-or-string"
MAP_TYPE: Final = "x-kubernetes-map-type"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
    "uniqueItems",
)
_CHOICES: Final = {
    "type": ("array", "boolean", "integer", "number", "object", "string"),
    LIST_TYPE: ("atomic", "set", "map"),
    MAP_TYPE: ("atomic", "granular"),
}
_TYPES: Final = {LIST_TYPE: "array", MAP_TYPE: "object", EMBEDDED: "object"}  # extension -> the type that it needs
# What only the structure itself may say, not a junctor.
_STRUCTURE: Final = (
    *("type", "additionalProperties", "default", "title", "description", "nullable", PRESERVE, EMBEDDED, INT_OR_STRING),
    *(LIST_KEYS, LIST_TYPE, MAP_TYPE, cel.RULES),
)


@dataclass(frozen=True)
class Spot:
    """A node of the structure (junctors aside) and where it is."""

    node: Node
    path: str
    root: bool = False
    resource: bool = False  # it has type information and metadata
    meta: bool = False  # inside those
    no_default: str = ""  # why a default is forbidden here
    lost: str = ""  # the outermost list above whose items have no past

    def walk(self) -> Iterator["Spot"]:
        yield self
        for spot in self._below():
            yield from spot.walk()

    def _below(self) -> Iterator["Spot"]:
        for name, node in (self.node.get("properties") or {}).items():
            special = self.resource and name in META_FIELDS
            why = f"in top-level {name}" if special and self.root else self.no_default
            yield self._at(node, f".properties[{name}]", self.meta or special, why, self.lost)
        if (node := items(self.node)) is not None:
            lost = self.lost or ("" if self.node.get(LIST_TYPE) == "map" else self.path)
            yield self._at(node, ".items", self.meta, self.no_default, lost)
        if (node := mapping(self.node.get("additionalProperties"))) is not None:
            why = "inside additionalProperties applying to object metadata" if self.meta else self.no_default
            yield self._at(node, ".additionalProperties", self.meta, why, self.lost)

    def _at(self, node: Node, step: str, meta: bool, no_default: str, lost: str) -> "Spot":
        return Spot(node, self.path + step, False, bool(node.get(EMBEDDED)), meta, no_default, lost)


def of(version: Mapping[str, Any]) -> Node | None:
    return mapping((version.get("schema") or {}).get("openAPIV3Schema"))


def validate(node: Node, path: str, status: bool) -> list[Cause]:
    """Every violation. Rules are compiled only when the schema is right otherwise, as upstream does."""
    spots = list(Spot(node, path, root=True, resource=True).walk())
    found = [*_root(node, path, status), *_specified(node, node, path, path)]
    found += [cause for spot in spots for cause in _structure(spot)]
    for check in (_default, _written, _compiled, _ruled):
        found = found or [cause for spot in spots for cause in check(spot)]
    return found


def unrecognized(node: Node | None) -> list[str]:
    """Formats that constrain nothing."""
    told = [(spot.node.get("format"), spot.node.get("type") or "") for spot in Spot(node or {}, "").walk()]
    return [form for form, kind in told if form and not formats.recognized(form, kind)]


def _root(node: Node, path: str, status: bool) -> Iterator[Cause]:
    kind = node.get("type") or ""
    if kind not in ("", "object"):
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    elif status and not kind:
        yield causes.invalid(f"{path}.type", kind, "must be object if the status subresource is enabled")
    if node.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if node.get("additionalProperties") is not None:
        yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    meta = (node.get("properties") or {}).get("metadata")
    said = {key for key, value in (meta or {}).items() if value} - {"type", "properties", "default"}
    if said or not set((meta or {}).get("properties") or {}) <= {"name", "generateName"}:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield causes.forbidden(f"{path}.properties[metadata]", detail)


def _structure(spot: Spot) -> Iterator[Cause]:
    node, path, kind = spot.node, spot.path, spot.node.get("type") or ""
    yield from _values(_without_either(node), path)
    if not any(node.get(key) for key in ("type", INT_OR_STRING, PRESERVE, EMBEDDED)):
        yield causes.required(f"{path}.type", "must not be empty, neither at the root nor for fields and items")
    for key, wanted in _TYPES.items():
        if node.get(key) and kind != wanted:
            detail = f"must be {wanted} if {key} is specified"
            yield causes.invalid(f"{path}.type", kind, detail) if kind else causes.required(f"{path}.type", detail)
    if node.get(PRESERVE) is False:
        yield causes.invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    for other in (PRESERVE, EMBEDDED):
        if node.get(INT_OR_STRING) and node.get(other):
            yield causes.invalid(f"{path}.{other}", True, f"must be false if {INT_OR_STRING} is true")
    if node.get(EMBEDDED):
        if spot.meta:
            yield causes.forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
        if node.get("additionalProperties") is not None:
            yield causes.forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
        if not node.get(PRESERVE) and not node.get("properties"):
            detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
            yield causes.required(f"{path}.properties", detail)
    if node.get("default") is not None and spot.no_default:
        yield causes.forbidden(f"{path}.default", f"must not be set {spot.no_default}")
    if kind == "array":
        yield from _list(node, path)


def _list(node: Node, path: str) -> Iterator[Cause]:
    item, kind, keys = items(node), node.get(LIST_TYPE), node.get(LIST_KEYS) or []
    if item is None:
        yield causes.required(f"{path}.items", "must be specified, as one schema")
        return
    if kind == "set" and item.get("type") == "object" and item.get(MAP_TYPE) != "atomic":
        detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
        yield causes.invalid(f"{path}.items.{MAP_TYPE}", item.get(MAP_TYPE), detail)
    if keys and kind != "map":
        detail = f"must be map if {LIST_KEYS} is non-empty"
        place = f"{path}.{LIST_TYPE}"
        yield causes.required(place, detail) if kind is None else causes.invalid(place, kind, detail)
    if kind != "map":
        return
    if not keys:
        yield causes.required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    if item.get("type") != "object":
        yield causes.required(f"{path}.items.type", f"must be object if parent array's {LIST_TYPE} is map")
    fields = item.get("properties") or {}
    for key in keys:
        here = f"{path}.items.properties[{key}]"
        if key not in fields:
            yield causes.invalid(f"{path}.{LIST_KEYS}", keys, "entries must all be names of item properties")
        elif fields[key].get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield causes.invalid(f"{here}.type", fields[key]["type"], detail)
        elif key not in (item.get("required") or ()) and fields[key].get("default") is None:
            detail = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield causes.required(f"{here}.default", detail)


def _junctors(node: Node) -> list[tuple[str, Node]]:
    below = [(f".{j}[{i}]", n) for j in ("allOf", "anyOf", "oneOf") for i, n in enumerate(node.get(j) or ())]
    return [*below, (".not", node["not"])] if node.get("not") is not None else below


def _values(node: Node, path: str) -> Iterator[Cause]:
    """What constrains values, in the structure and in junctors."""
    for key in _UNSUPPORTED:
        if node.get(key):
            yield causes.forbidden(f"{path}.{key}", f"{key} is not supported")
    for key, known in _CHOICES.items():
        if node.get(key) and node[key] not in known:
            yield causes.unsupported(f"{path}.{key}", node[key], known)
    if node.get("properties") and node.get("additionalProperties") not in (None, True):
        detail = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", detail)
    if node.get("pattern"):
        try:
            formats.pattern(node["pattern"])
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield causes.invalid(f"{path}.pattern", node["pattern"], detail)
    for step, below in _junctors(node):
        yield from _nested(_without_either(below) if step == ".allOf[0]" else below, path + step)


def _without_either(node: Node) -> Node:
    """int-or-string may be said by anyOf, too, also that of the first allOf: types there are then no fault."""
    return {key: one for key, one in node.items() if key != "anyOf" or one != _EITHER}


def _nested(node: Node, path: str) -> Iterator[Cause]:
    """Under a junctor."""
    yield from _values(node, path)
    for key in _STRUCTURE:
        if node.get(key) or (key in node and key in ("additionalProperties", "default")):
            yield causes.forbidden(f"{path}.{key}", "must be empty to be structural")
    if (item := items(node)) is not None:
        yield from _nested(item, f"{path}.items")
    for name, below in (node.get("properties") or {}).items():
        yield from _nested(below, f"{path}.properties[{name}]")
        if name == "metadata":
            yield causes.forbidden(f"{path}.properties[{name}]", "must not be specified in a nested context")


def _specified(node: Node, spine: Node | None, path: str, place: str) -> Iterator[Cause]:
    """Fields and items that the root's junctors speak of must be specified outside of them, too."""
    if spine is None:
        yield causes.required(place, f"because it is defined in {path}")
        return
    for step, below in _junctors(node):
        yield from _specified(below, spine, path + step, place)
    if node is not spine:
        if (item := items(node)) is not None:
            yield from _specified(item, items(spine), f"{path}.items", f"{place}.items")
        for name, below in (node.get("properties") or {}).items():
            known = (spine.get("properties") or {}).get(name)
            yield from _specified(below, known, f"{path}.properties[{name}]", f"{place}.properties[{name}]")


def _default(spot: Spot) -> Iterator[Cause]:
    """A default must be pruned and valid: it is put into objects unseen."""
    value, path = spot.node.get("default"), f"{spot.path}.default"
    if value is None:
        return
    pruned = copy.deepcopy(value)
    structural.prune(pruned, spot.node, resource=spot.resource)
    if not same(pruned, value):
        yield causes.invalid(path, value, "must not have unknown fields")
    yield from validation.validate(spot.node, value, path=path)


def _written(spot: Spot) -> Iterator[Cause]:
    for index, rule in enumerate(spot.node.get(cel.RULES) or ()):
        yield from cel.written(rule, spot.node, f"{spot.path}.{cel.RULES}[{index}]")


def _compiled(spot: Spot) -> Iterator[Cause]:
    if spot.node.get(cel.RULES):
        yield from cel.compiled(spot.node, spot.path, resource=spot.resource, lost=spot.lost)


def _ruled(spot: Spot) -> Iterator[Cause]:
    """Defaults keep the rules, whether they come or stay."""
    value = spot.node.get("default")
    if value is not None:
        rules, path = cel.Rules(spot.node, resource=spot.resource), f"{spot.path}.default"
        yield from rules.validate(value, path=path) or rules.validate(value, value, path=path)
