"""What field ownership asks of a type: is this value one leaf, a map of fields, or a list whose items have names?

A `Type` is compiled from a `Schema` node, child by child as objects are walked, and kept: ownership is computed on
every write. The rules are those by which upstream turns OpenAPI into a structured-merge-diff schema (kube-openapi's
`schemaconv`); what it calls "deduced" (no schema here: maps field by field, lists whole) is DEDUCED.
Every object has upstream's ObjectMeta, whatever a CRD says of `metadata`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from devkube.schema import Node, Schema
from devkube.values import compact, go_text

MAP, SCALAR, LIST = "map", "scalar", "list"
_SCALARS = {"integer": "numeric", "number": "numeric", "boolean": "boolean", "string": "string"}
_ANY_SCALAR = ("api.resource.Quantity", "util.intstr.IntOrString")
_TEXT, _ATOMIC = {"type": "string"}, {"type": "object", "x-kubernetes-map-type": "atomic"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_FLAG, _COUNT, _TIME = {"type": "boolean"}, {"type": "integer"}, {"type": "string", "format": "date-time"}
_OWNER = dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT) | {
    "controller": _FLAG,
    "blockOwnerDeletion": _FLAG,
}
_META: Node = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _TEXT),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _COUNT),
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": _ATOMIC | {"properties": _OWNER},
        },
        "managedFields": {"type": "array", "items": _ATOMIC},
    },
}
_TYPE_META: Node = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _META}


class Untypable(Exception):
    """A list item that has no name (a null in a set, an entry without its keys)."""


class Type:
    """One node. `is_map`, `scalar`, `is_list` say what JSON may stand here: more than one where the schema is open."""

    def __init__(self, node: Node, document: Node, *, preserve: bool = False, root: bool = False) -> None:
        node, name = _resolved(node, document)
        if name.endswith("runtime.RawExtension"):
            node = _UNTYPED
        kinds = node.get("type") or ""
        kind = kinds if isinstance(kinds, str) else next((one for one in kinds if one != "null"), "")
        scalar = name.endswith(_ANY_SCALAR)
        self._document, self._node = document, node
        self._preserve = preserve or node.get("x-kubernetes-preserve-unknown-fields") is True
        self.builtin = "$defs" in document
        self.is_map = kind == "object" or (kind == "" and not scalar)
        self.is_list = kind == "array" or (kind == "" and not scalar)
        self.scalar = "" if kind in ("object", "array") else _SCALARS.get(kind, "untyped")
        if kind == "string" and node.get("format", "byte") != "byte":
            self.scalar = "untyped"  # a quantity, a time, … may have been written as a number
        self.atomic_map = node.get("x-kubernetes-map-type") == "atomic"
        self.required = frozenset(node.get("required") or ())
        properties = node.get("properties") or {}
        whole = root or node.get("x-kubernetes-embedded-resource") is True
        self._properties: Mapping[str, Node] = {**properties, **_TYPE_META} if whole and self.is_map else properties
        self._children: dict[str, Type | None] = {}
        self.list_type, self.keys = _list_type(node) if self.is_list else ("atomic", ())

    def declares(self, name: str) -> bool:
        return name in self._properties

    def child(self, name: str) -> "Type | None":
        """The type of a field; None where the schema does not know it."""
        try:
            return self._children[name]
        except KeyError:
            pass
        if name not in self._properties:
            return self._values
        node = self._properties[name]
        found = self._children[name] = Type(node, self._document, preserve=self._preserve)
        return found

    @cached_property
    def _values(self) -> "Type | None":
        more = self._node.get("additionalProperties")
        if isinstance(more, Mapping):
            return Type(more, self._document, preserve=self._preserve)
        allowed = more if more is not None else self._preserve or not self._properties
        return DEDUCED if allowed else None

    @property
    def is_struct(self) -> bool:
        return bool(self._properties)

    @property
    def deduced(self) -> bool:
        """A map that the schema says nothing about."""
        return self.is_map and not self._properties and self._values is DEDUCED

    @cached_property
    def items(self) -> "Type":
        items = self._node.get("items")
        return Type(items, self._document, preserve=self._preserve) if isinstance(items, Mapping) else UNTYPED

    def kind(self, value: Any) -> str:
        """As what to treat the value; null, and what does not fit, as the first kind that the type allows."""
        of = value.__class__
        if of is dict:
            if self.is_map:
                return MAP
        elif of is list:
            if self.is_list:
                return LIST
        elif value is not None and self.scalar:
            return SCALAR
        return MAP if self.is_map else SCALAR if self.scalar else LIST

    def key_default(self, name: str) -> Any:
        return self._properties[name].get("default") if name in self._properties else None


def element(item: Any, of: Type) -> str:
    """The name of an item of a list of type set or map as FieldsV1 writes it: `v:"x"`, `k:{"name":"x"}`."""
    if of.list_type == "set":
        if item is None or item.__class__ in (dict, list):
            kind = "an explicit null" if item is None else f"a {MAP if item.__class__ is dict else LIST} type"
            raise Untypable(f"associative list without keys has an element that's {kind}")
        return "v:" + compact(item)
    if item.__class__ is not dict:
        raise Untypable(f"associative list with keys may not have {'a null' if item is None else 'non-map'} element")
    if len(of.keys) == 1 and of.keys[0] in item:
        return f'k:{{"{of.keys[0]}":{compact(item[of.keys[0]])}}}'
    found = {key: item[key] if key in item else of.items.key_default(key) for key in of.keys}
    found = {key: value for key, value in found.items() if value is not None or key in item}
    if not found:
        keys = go_text([f'"{key}"' for key in of.keys])
        raise Untypable(
            f"associative list with keys has an element that omits all key fields {keys} "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + compact(found)


def compiled(schema: Schema) -> Type:
    """The type of whole objects. Kept by the identity of the schema's node, or by what it refers to."""
    node, document = schema.node, schema.document
    key = (id(document), node["$ref"] if len(node) == 1 and "$ref" in node else id(node))
    found = _compiled.get(key)
    if found is None:
        if len(_compiled) >= _KEPT:
            _compiled.clear()
        # The schema is kept beside its type: an id is only unique while its object lives.
        found = _compiled[key] = (Type(node, document, root=True), schema)
    return found[0]


_KEPT = 1000
_compiled: dict[tuple[int, Any], tuple[Type, Schema]] = {}


def _resolved(node: Node, document: Node) -> tuple[Node, str]:
    name = ""
    while "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        node = {**document["$defs"][name], **{key: value for key, value in node.items() if key != "$ref"}}
    return node, name


def _list_type(node: Node) -> tuple[str, tuple[str, ...]]:
    declared = node.get("x-kubernetes-list-type")
    if declared:
        return declared, tuple(sorted(node.get("x-kubernetes-list-map-keys") or ()))
    if node.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        key = node.get("x-kubernetes-patch-merge-key")
        return ("map", (key,)) if key else ("set", ())
    return "atomic", ()


_UNTYPED: Node = {"x-kubernetes-map-type": "atomic"}
UNTYPED = Type(_UNTYPED, {})
DEDUCED = Type({}, {})
