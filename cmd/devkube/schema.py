"""A node of a type's schema, the same for built-in types (references into one document) and for CRDs (inline).

Who walks objects beside it asks for the child node of a field or of items. None means *unknown to the schema*, not
*forbidden*: who walks decides what that means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Node = Mapping[str, Any]


def resolved(node: Node, document: Node) -> tuple[str, Node]:
    """The name of what the node refers to ("" if to nothing), and the node itself without a reference. What stands
    beside a reference (list type, merge key, description) wins over what is referenced."""
    if "$ref" not in node:
        return "", node
    name = node["$ref"].rsplit("/", 1)[1]
    return name, {**document["$defs"][name], **{key: value for key, value in node.items() if key != "$ref"}}


@dataclass(frozen=True, eq=False)  # what is compiled of a schema is kept by its identity
class Schema:
    node: Node
    document: Node  # where `#/$defs/...` references of `node` are found; a CRD's schema is its own document

    def _child(self, child: Any) -> "Schema | None":
        return Schema(child, self.document) if isinstance(child, Mapping) else None

    def get(self, key: str) -> Any:
        return resolved(self.node, self.document)[1].get(key)

    def field(self, name: str) -> "Schema | None":
        return self._child((self.get("properties") or {}).get(name))

    @property
    def items(self) -> "Schema | None":
        return self._child(self.get("items"))

    @property
    def patch_strategy(self) -> frozenset[str]:
        return frozenset(filter(None, str(self.get("x-kubernetes-patch-strategy") or "").split(",")))

    @property
    def patch_merge_key(self) -> str | None:
        found: str | None = self.get("x-kubernetes-patch-merge-key")
        return found


ANYTHING = Schema({"x-kubernetes-preserve-unknown-fields": True}, {})
