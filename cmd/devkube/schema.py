"""A node of a type's schema, the same for built-in types (references into one document) and for CRDs (inline).

Strategic merge patches and field ownership walk objects beside it, child by child; what it finds is kept, for both
happen on every write. Ownership asks: is this value one leaf, a map of fields, or a list whose items have names? The
rules are those by which upstream turns OpenAPI into a structured-merge-diff schema (kube-openapi's `schemaconv`); what
it calls "deduced" (no schema here: maps field by field, lists whole) is DEDUCED.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from devkube.values import compact

Node = Mapping[str, Any]
MAP, SCALAR, LIST = "map", "scalar", "list"
_ANY_SCALAR = ("api.resource.Quantity", "util.intstr.IntOrString")


class Untypable(Exception):
    """A list item that has no name (a null in a set, an entry without its keys)."""


def resolved(node: Node, document: Node) -> tuple[str, Node]:
    """The name of what the node refers to ("" if to nothing), and the node itself without a reference. What stands
    beside a reference (list type, merge key, description) wins over what is referenced."""
    if "$ref" not in node:
        return "", node
    name = node["$ref"].rsplit("/", 1)[1]
    return name, {**document["$defs"][name], **{key: value for key, value in node.items() if key != "$ref"}}


class Schema:
    """`document`: where `#/$defs/...` references of `node` are found; a CRD's schema is its own document."""

    def __init__(self, node: Node, document: Node) -> None:
        self.node, self.document = node, document
        self._children: dict[str, Schema] = {}

    @cached_property
    def _here(self) -> Node:
        name, node = resolved(self.node, self.document)
        if name.endswith("runtime.RawExtension"):
            return _UNTYPED
        return {**node, "type": "scalar"} if name.endswith(_ANY_SCALAR) else node

    def get(self, key: str) -> Any:
        return self._here.get(key)

    def field(self, name: str) -> "Schema | None":
        """None where the schema does not name it."""
        return self.child(name) if name in (self.get("properties") or {}) else None

    def child(self, name: str) -> "Schema":
        """Of a field, or of the values of a map."""
        properties = self.get("properties") or {}
        known = name if name in properties else ""  # names in maps are without number
        if known not in self._children:
            found = properties[name] if known else self.get("additionalProperties")
            self._children[known] = Schema(found, self.document) if isinstance(found, Mapping) else DEDUCED
        return self._children[known]

    @cached_property
    def items(self) -> "Schema":
        items = self.get("items")
        return Schema(items, self.document) if isinstance(items, Mapping) else UNTYPED

    @property
    def patch_strategy(self) -> frozenset[str]:
        return frozenset(filter(None, str(self.get("x-kubernetes-patch-strategy") or "").split(",")))

    @property
    def patch_merge_key(self) -> str | None:
        found: str | None = self.get("x-kubernetes-patch-merge-key")
        return found

    @cached_property
    def _type(self) -> str:
        kinds = self.get("type") or ""
        return kinds if isinstance(kinds, str) else next((one for one in kinds if one != "null"), "")

    def kind(self, value: Any) -> str:
        """As what to treat the value; null, and what does not fit, as the first kind that the type allows."""
        if value.__class__ is list and self._type in ("array", ""):
            return LIST
        if self._type in ("object", "array"):
            return MAP if self._type == "object" else LIST
        return MAP if not self._type and (value is None or value.__class__ is dict) else SCALAR

    @property
    def atomic_map(self) -> bool:
        return bool(self.get("x-kubernetes-map-type") == "atomic")

    @cached_property
    def list_type(self) -> str:
        if declared := self.get("x-kubernetes-list-type"):
            return str(declared)
        return ("map" if self.patch_merge_key else "set") if "merge" in self.patch_strategy else "atomic"

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Those that name the items of a list."""
        declared = self.get("x-kubernetes-list-map-keys")
        return tuple(sorted(declared or filter(None, (self.patch_merge_key,))))


def element(item: Any, of: Schema) -> str:
    """The name of an item of a list of type set or map as FieldsV1 writes it: `v:"x"`, `k:{"name":"x"}`."""
    if of.list_type == "set":
        if item is None or item.__class__ in (dict, list):
            what = "an explicit null" if item is None else "a map or a list"
            raise Untypable(f"associative list without keys has an element that's {what}")
        return "v:" + compact(item)
    if item.__class__ is not dict:
        raise Untypable(f"associative list with keys may not have {'a null' if item is None else 'non-map'} element")
    found = {key: item.get(key, of.items.child(key).get("default")) for key in of.keys}
    found = {key: value for key, value in found.items() if value is not None or key in item}
    if not found:
        raise Untypable(f"associative list with keys has an element that omits all key fields {', '.join(of.keys)}")
    return "k:" + compact(found)


_UNTYPED: Node = {"x-kubernetes-map-type": "atomic"}
UNTYPED = Schema(_UNTYPED, {})
DEDUCED = Schema({}, {})
