"""One version's schema: structural, acceptable, with defaults that fit it and rules that compile.

The rules of apiextensions' `ValidateStructural` and `ValidateCustomResourceDefinitionOpenAPISchema`. The root may have
the fields every object has; under allOf, anyOf, oneOf and not a schema may only say what values are valid.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube import causes
from devkube.custom import cel, formats, structural, validation
from devkube.custom.structural import EMBEDDED, LIST_KEYS, LIST_TYPE, PRESERVE, Node, items, mapping
from devkube.errors import Cause

INT_OR_STRING: Final = "x-kubernetes-int-or-string"
MAP_TYPE: Final = "x-kubernetes-map-type"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED: Final = (
    *("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "uniqueItems"),
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
Words = Callable[[str, str], Cause] | None  # None: an invalid value, which is told


@dataclass(frozen=True)
class Spot:
    """A node of the structure (junctors aside) and where it is."""

    node: Node
    path: str
    root: bool = False
    resource: bool = False  # it has type information and metadata
    lost: str = ""  # the outermost list above whose items have no past

    def walk(self) -> Iterator["Spot"]:
        yield self
        steps = [(f".properties[{name}]", node) for name, node in (self.node.get("properties") or {}).items()]
        steps += [
            (f".{key}", self.node[key])
            for key in ("items", "additionalProperties")
            if mapping(self.node.get(key)) is not None
        ]
        for step, node in steps:
            gone = self.path if step == ".items" and self.node.get(LIST_TYPE) != "map" else ""
            below = Spot(node, self.path + step, resource=bool(node.get(EMBEDDED)), lost=self.lost or gone)
            yield from below.walk()


def of(version: Mapping[str, Any]) -> Node | None:
    return mapping((version.get("schema") or {}).get("openAPIV3Schema"))


def validate(node: Node, path: str) -> list[Cause]:
    """Every violation. Rules are compiled only when the schema is right otherwise, as upstream does."""
    spots = list(Spot(node, path, root=True, resource=True).walk())
    found = [*_specified(node, node, path, path), *(cause for spot in spots for cause in _structure(spot))]
    for check in (_default, _rules):
        found = found or [cause for spot in spots for cause in check(spot)]
    return found


def _told(node: Node, path: str, rows: Iterable[tuple[object, Words, str, str]]) -> Iterator[Cause]:
    """Of rows (is it wrong, how is it told, of which key, in which words) those that are."""
    for wrong, words, key, detail in rows:
        if wrong:
            here = f"{path}.{key}"
            yield causes.invalid(here, node.get(key), detail) if words is None else words(here, detail)


def _structure(spot: Spot) -> Iterator[Cause]:
    node, path, kind = spot.node, spot.path, spot.node.get("type")
    values, properties, item = node.get("additionalProperties"), node.get("properties") or {}, items(node) or {}
    keeps, embedded, either = node.get(PRESERVE), node.get(EMBEDDED), node.get(INT_OR_STRING)
    list_type, keys, item_kind = node.get(LIST_TYPE), node.get(LIST_KEYS) or (), item.get("type")
    required, forbidden, invalid = causes.required, causes.forbidden, None
    yield from _values(_without_either(node), path)
    rows: list[tuple[object, Words, str, str]] = [
        (node.get(extension) and kind != wanted, invalid, "type", f"must be {wanted} if {extension} is specified")
        for extension, wanted in _TYPES.items()
    ]
    rows += [
        (not kind and not either and not keeps, required, "type", "must not be empty"),
        (keeps is False, invalid, PRESERVE, "must be true or undefined"),
        (either and keeps, invalid, PRESERVE, f"must be false if {INT_OR_STRING} is true"),
        (either and embedded, invalid, EMBEDDED, f"must be false if {INT_OR_STRING} is true"),
        (embedded and values is not None, forbidden, "additionalProperties", f"must not be used if {EMBEDDED} is set"),
        (embedded and not keeps and not properties, required, "properties", f"must not be empty without {PRESERVE}"),
        (kind == "array" and not item, required, "items", "must be specified, as one schema"),
        (keys and list_type != "map", invalid, LIST_TYPE, f"must be map if {LIST_KEYS} is non-empty"),
        (list_type == "map" and not keys, required, LIST_KEYS, f"must not be empty if {LIST_TYPE} is map"),
        (len(set(keys)) < len(keys), invalid, LIST_KEYS, "must not contain duplicate entries"),
        (list_type == "map" and item_kind != "object", required, "items.type", f"must be object if {LIST_TYPE} is map"),
    ]
    if list_type == "set" and item_kind == "object":
        detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
        rows.append((item.get(MAP_TYPE) != "atomic", invalid, f"items.{MAP_TYPE}", detail))
    for key in keys if list_type == "map" else ():
        field, here = (item.get("properties") or {}).get(key), f"items.properties[{key}]"
        given = key in (item.get("required") or ()) or (field or {}).get("default") is not None
        rows += [
            (field is None, invalid, LIST_KEYS, "entries must all be names of item properties"),
            (field and field.get("type") in ("array", "object"), invalid, f"{here}.type", "must be scalar for a key"),
            (field and not given, required, f"{here}.default", "a key must have a default or be required"),
        ]
    if spot.root:
        meta = properties.get("metadata") or {}
        said = {key for key, value in meta.items() if value or key == "default"} - {"type", "properties"}
        known = not said and set(meta.get("properties") or {}) <= {"name", "generateName"}
        only = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        rows += [
            (kind and kind != "object", invalid, "type", "must be object at the root"),
            (node.get("nullable"), forbidden, "nullable", "nullable cannot be true at the root"),
            (values is not None, forbidden, "additionalProperties", "must not be used at the root"),
            (not known, forbidden, "properties[metadata]", only),
        ]
    yield from _told(node, path, rows)


def _junctors(node: Node) -> list[tuple[str, Node]]:
    below = [(f".{j}[{i}]", n) for j in ("allOf", "anyOf", "oneOf") for i, n in enumerate(node.get(j) or ())]
    return [*below, (".not", node["not"])] if node.get("not") is not None else below


def _values(node: Node, path: str) -> Iterator[Cause]:
    """What constrains values, in the structure and in junctors."""
    rows: list[tuple[object, Words, str, str]]
    rows = [(node.get(key), causes.forbidden, key, f"{key} is not supported") for key in _UNSUPPORTED]
    both = node.get("properties") and node.get("additionalProperties") not in (None, True)
    rows.append((both, causes.forbidden, "additionalProperties", "is mutual exclusive with properties"))
    yield from _told(node, path, rows)
    for key, known in _CHOICES.items():
        if node.get(key) and node[key] not in known:
            yield causes.unsupported(f"{path}.{key}", node[key], known)
    try:
        formats.pattern(node.get("pattern") or "")
    except ValueError as error:
        yield causes.invalid(f"{path}.pattern", node["pattern"], f"must be a valid regular expression: {error}")
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
    if value is not None:
        if structural.prune(copy.deepcopy(value), spot.node, resource=spot.resource):
            yield causes.invalid(path, value, "must not have unknown fields")
        yield from validation.validate(spot.node, value, path=path)


def _rules(spot: Spot) -> Iterator[Cause]:
    if spot.node.get(cel.RULES):
        yield from cel.problems(spot.node, spot.path, resource=spot.resource, lost=spot.lost)
