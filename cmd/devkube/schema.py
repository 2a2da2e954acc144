"""A node of a type's schema, the same for built-in types (references into one document) and for CRDs (inline).

Server-side apply, strategic merge, pruning, defaulting and OpenAPI all walk objects beside this one view. A node is
cheap to make and holds no state: `field`, `items` and `values` return the child node or None where the schema says
nothing. None means *unknown to the schema*, not *forbidden*: who walks decides what that means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Node = Mapping[str, Any]
ListType = Literal["atomic", "set", "map"]


@dataclass(frozen=True)
class Schema:
    node: Node
    document: Node  # where `#/$defs/...` references of `node` are found; a CRD's schema is its own document

    @property
    def _here(self) -> Node:
        node = self.node
        while "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            # What stands beside a reference (list type, merge key, description) wins over what is referenced.
            beside = {key: value for key, value in node.items() if key != "$ref"}
            node = {**self.document["$defs"][name], **beside}
        return node

    def get(self, key: str, default: Any = None) -> Any:
        return self._here.get(key, default)

    def field(self, name: str) -> "Schema | None":
        child = (self._here.get("properties") or {}).get(name)
        return None if child is None else Schema(child, self.document)

    @property
    def fields(self) -> Mapping[str, "Schema"]:
        return {k: Schema(v, self.document) for k, v in (self._here.get("properties") or {}).items()}

    @property
    def items(self) -> "Schema | None":
        child = self._here.get("items")
        return Schema(child, self.document) if isinstance(child, Mapping) else None

    @property
    def values(self) -> "Schema | None":
        """What every value of a map must be (`additionalProperties`)."""
        child = self._here.get("additionalProperties")
        return Schema(child, self.document) if isinstance(child, Mapping) else None

    @property
    def list_type(self) -> ListType:
        found: ListType = self._here.get("x-kubernetes-list-type") or "atomic"
        return found

    @property
    def patch_strategy(self) -> frozenset[str]:
        return frozenset(filter(None, str(self._here.get("x-kubernetes-patch-strategy") or "").split(",")))

    @property
    def patch_merge_key(self) -> str | None:
        found: str | None = self._here.get("x-kubernetes-patch-merge-key")
        return found


ANYTHING = Schema({"x-kubernetes-preserve-unknown-fields": True}, {})
