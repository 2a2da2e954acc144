"""Objects beside their schemas, and what a schema does to an object before anything is checked.

One walk serves pruning, defaulting, validation and rules. A `Place` is a value inside an object, what the schema says
of it and what stood there before. Of lists only those that are maps know their items' past, by key; what is unchanged
as a whole is unchanged in all its parts.

Before anything is checked unknown fields go, metadata (also of embedded resources) is read as Go reads ObjectMeta,
nulls go, defaults come: order and rules are those of apiextensions' decoder, all of it happens in place.
"""

import copy
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube.builtin import types
from devkube.causes import shown

Node = Mapping[str, Any]
UNKNOWN: Final = object()  # there was no such value before
META_FIELDS: Final = ("apiVersion", "kind", "metadata")
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"


def mapping(value: Any) -> Node | None:
    return value if isinstance(value, Mapping) else None


def child(node: Node | None, name: str) -> Node | None:
    """The schema of a field: its property's, else that of the map's values; None where the schema says nothing."""
    if node is None:
        return None
    found = (node.get("properties") or {}).get(name)
    return mapping(node.get("additionalProperties") if found is None else found)


def leads_to(path: str, node: Node) -> Node | None:
    """The schema of a path made of names (`.spec.color`), None where it names no field."""
    first, *names = path.split(".")
    found = None if first else node
    for name in names:
        found = child(found, name)
    return found


def items(node: Node | None) -> Node | None:
    return mapping(node.get("items")) if node is not None else None


def identity(value: Any) -> Hashable:
    """Equal values, and only they, have equal identities; 1 and true are different."""
    return json.dumps(value, sort_keys=True)


def same(new: Any, old: Any) -> bool:
    return bool(new == old) and identity(new) == identity(old)


def naming(node: Node | None) -> Callable[[Any], Hashable] | None:
    """What tells the items of a set or of a map from each other; None for lists that are neither."""
    kind = node.get(LIST_TYPE) if node is not None else None
    if node is None or kind not in ("set", "map"):
        return None
    keys = node.get(LIST_KEYS) or ()
    return identity if kind == "set" else lambda item: identity([item.get(k) for k in keys if isinstance(item, dict)])


@dataclass(frozen=True)
class Place:
    value: Any
    node: Node | None  # None: the schema says nothing of it
    path: str = ""
    resource: bool = False  # it has type information and metadata, whatever its schema says
    kept: bool = False  # fields that the schema does not name stay
    old: Any = UNKNOWN
    unchanged: bool = False
    keys: bool = False  # values of maps are told as `path[key]`, as rules do, not as `path.key`

    def knows(self, name: str) -> bool:
        """Whether a field may be here."""
        node = self.node or {}
        known = name in (node.get("properties") or {}) or node.get("additionalProperties") is not None
        return known or self.kept or (self.resource and name in META_FIELDS)

    def field(self, name: str) -> str:
        """The path of a field."""
        if self.keys and self.node is not None and name not in (self.node.get("properties") or {}):
            return f"{self.path}[{name}]"
        return f"{self.path}.{name}" if self.path else name

    def slots(self) -> list[tuple[Any, Any, Node | None]]:
        """What an object or a list holds: key or index, value, schema."""
        if isinstance(self.value, dict):
            return [(name, held, child(self.node, name)) for name, held in self.value.items()]
        if isinstance(self.value, list):
            return [(index, item, items(self.node)) for index, item in enumerate(self.value)]
        return []

    def children(self) -> Iterator["Place"]:
        if self.node is None and self.kept:
            return
        fields, name_of, former = isinstance(self.value, dict), naming(self.node), dict[Any, Any]()
        if fields and isinstance(self.old, dict):
            former = self.old
        elif name_of is not None and (self.node or {})[LIST_TYPE] == "map" and isinstance(self.old, list):
            former = {name_of(item): item for item in self.old}
        free = self.kept and (self.node or {}).get("additionalProperties") is None
        for key, held, node in self.slots():
            path = self.field(key) if fields else f"{self.path}[{key}]"
            inherits = (self.resource and key in META_FIELDS) or (node is None and free) if fields else self.kept
            kept = inherits or (node is not None and node.get(PRESERVE) is True)
            old = former.get(key if fields or name_of is None else name_of(held), UNKNOWN)
            unchanged = self.unchanged or (old is not UNKNOWN and same(held, old))
            embedded = node is not None and node.get(EMBEDDED) is True
            yield Place(held, node, path, embedded, kept, old, unchanged, self.keys)

    def walk(self) -> Iterator["Place"]:
        """This place and all below it. Who looks at one may change its value before he asks for the next."""
        yield self
        for one in self.children():
            yield from one.walk()


def root(
    value: Any, node: Node, old: Any = UNKNOWN, *, path: str = "", resource: bool | None = None, keys: bool = False
) -> Place:
    """Where a walk begins: a whole object, which is a resource, or with `path` a part of one."""
    unchanged, special = old is not UNKNOWN and same(value, old), path == "" if resource is None else resource
    return Place(value, node, path, special, node.get(PRESERVE) is True, old, unchanged, keys)


def prune(value: Any, node: Node, *, resource: bool = True) -> list[str]:
    """Remove what the schema does not name; the paths of what went, sorted. `resource` False: a part of an object."""
    gone: list[str] = []
    for place in root(value, node, resource=resource).walk():
        if isinstance(place.value, dict):
            for name in [name for name in place.value if not place.knows(name)]:
                gone.append(place.field(name))
                del place.value[name]
    return sorted(gone)


def coerce(value: Any, node: Node) -> list[str]:
    """Read metadata as ObjectMeta: unknown fields go (their paths are returned) and what Go would write is left.
    ValueError with one line when it cannot be read, or when apiVersion or kind is no string."""
    unknown: list[str] = []
    for place in root(value, node).walk():
        if not place.resource or not isinstance(place.value, dict):
            continue
        for name in ("apiVersion", "kind"):
            held = place.value.get(name, "")
            if not isinstance(held, str):
                raise ValueError(f"{place.field(name)}: Invalid value: {shown(held)}: must be a string")
        if "metadata" not in place.value:
            continue
        meta, gone = place.value["metadata"], list[str]()
        try:
            place.value["metadata"] = (
                {} if meta is None else types.decode(meta, {"$ref": f"#/$defs/{OBJECT_META}"}, "", gone)
            )
        except types.Undecodable as error:
            told = f"{place.field('metadata')}: Invalid value: {shown(meta)}: {error}"
            raise ValueError(told) from None
        unknown += [f"{place.field('metadata')}.{one}" for one in gone]
    return sorted(unknown)


def drop_nulls(value: Any, node: Node) -> None:
    """Remove nulls from fields that are not nullable: those that have a default get it later."""
    for place in root(value, node).walk():
        for name, held, below in place.slots():
            if held is None and below is not None and not below.get("nullable") and isinstance(place.value, dict):
                del place.value[name]


def default(value: Any, node: Node) -> None:
    """Fill in defaults, outside in: a default object gets the defaults of its own fields."""
    drop_nulls(value, node)
    for place in root(value, node).walk():
        if isinstance(place.value, dict):
            for name, below in ((place.node or {}).get("properties") or {}).items():
                if name not in place.value and below.get("default") is not None:
                    place.value[name] = copy.deepcopy(below["default"])
