"""What field ownership asks of a type: is this value one leaf, a map of fields, or a list whose items have names?

A `Type` is compiled from a `Schema` node, child by child as objects are walked, and kept: ownership is computed on
every write. The rules are those by which upstream turns OpenAPI into a structured-merge-diff schema (kube-openapi's
`schemaconv`); what it calls "deduced" (no schema here: maps field by field, lists whole) is DEDUCED.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from devkube.schema import Node, Schema, resolved
from devkube.values import compact

MAP, SCALAR, LIST = "map", "scalar", "list"
_ANY_SCALAR = ("api.resource.Quantity", "util.intstr.IntOrString")


class Untypable(Exception):
    """A list item that has no name (a null in a set, an entry without its keys)."""


class Type:
    """One node, and what JSON may stand there: more than one kind where the schema is open."""

    def __init__(self, node: Node, document: Node) -> None:
        name, node = resolved(node, document)
        if name.endswith("runtime.RawExtension"):
            node = _UNTYPED
        kinds = node.get("type") or ""
        kind = kinds if isinstance(kinds, str) else next((one for one in kinds if one != "null"), "")
        anything = not kind and not name.endswith(_ANY_SCALAR)
        self._document, self._node = document, node
        self._maps, self._lists = anything or kind == "object", anything or kind == "array"
        self._scalars = kind not in ("object", "array")
        self.atomic_map = node.get("x-kubernetes-map-type") == "atomic"
        self._children: dict[str, Type] = {}
        self.list_type, self.keys = _list_type(node) if self._lists else ("atomic", ())

    def child(self, name: str) -> "Type":
        """The type of a field, or of the values of a map."""
        properties = self._node.get("properties") or {}
        known = name if name in properties else ""  # names in maps are without number
        if known not in self._children:
            found = properties[name] if known else self._node.get("additionalProperties")
            self._children[known] = Type(found, self._document) if isinstance(found, Mapping) else DEDUCED
        return self._children[known]

    @cached_property
    def items(self) -> "Type":
        items = self._node.get("items")
        return Type(items, self._document) if isinstance(items, Mapping) else UNTYPED

    def kind(self, value: Any) -> str:
        """As what to treat the value; null, and what does not fit, as the first kind that the type allows."""
        if value.__class__ is list and self._lists:
            return LIST
        if value is not None and value.__class__ not in (dict, list) and self._scalars:
            return SCALAR
        return MAP if self._maps else SCALAR if self._scalars else LIST

    def key(self, name: str, item: Mapping[str, Any]) -> Any:
        """The value of one of a list item's keys, or its default."""
        default = resolved((self._node.get("properties") or {}).get(name) or {}, self._document)[1].get("default")
        return item.get(name, default)


def element(item: Any, of: Type) -> str:
    """The name of an item of a list of type set or map as FieldsV1 writes it: `v:"x"`, `k:{"name":"x"}`."""
    if of.list_type == "set":
        if item is None or item.__class__ in (dict, list):
            what = "an explicit null" if item is None else "a map or a list"
            raise Untypable(f"associative list without keys has an element that's {what}")
        return "v:" + compact(item)
    if item.__class__ is not dict:
        raise Untypable(f"associative list with keys may not have {'a null' if item is None else 'non-map'} element")
    found = {key: of.items.key(key, item) for key in of.keys}
    found = {key: value for key, value in found.items() if value is not None or key in item}
    if not found:
        raise Untypable(f"associative list with keys has an element that omits all key fields {', '.join(of.keys)}")
    return "k:" + compact(found)


@lru_cache(maxsize=1000)
def compiled(schema: Schema) -> Type:
    """The type of whole objects, kept by the identity of the schema."""
    return Type(schema.node, schema.document)


def _list_type(node: Node) -> tuple[str, tuple[str, ...]]:
    if declared := node.get("x-kubernetes-list-type"):
        return declared, tuple(sorted(node.get("x-kubernetes-list-map-keys") or ()))
    if node.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        key = node.get("x-kubernetes-patch-merge-key")
        return ("map", (key,)) if key else ("set", ())
    return "atomic", ()


_UNTYPED: Node = {"x-kubernetes-map-type": "atomic"}
UNTYPED = Type(_UNTYPED, {})
DEDUCED = Type({}, {})
