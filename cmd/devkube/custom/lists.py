"""Lists that are sets or maps: no duplicates, and which old item an item was before.

Upstream compares such lists without regard to order in rules; here the old list is brought into the new one's order
instead (`aligned`), after which plain equality says the same.
"""

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from devkube import causes
from devkube.errors import Cause

Node = Mapping[str, Any]


def identity(value: Any) -> Hashable:
    """Equal values, and only they, have equal identities; 1 and true are different."""
    if type(value) is str:
        return value
    if isinstance(value, dict | list):
        return ("json", json.dumps(value, sort_keys=True))
    return (type(value) is bool, value)


def same(new: Any, old: Any) -> bool:
    """Equality that knows 1 from true."""
    return bool(new == old) and identity(new) == identity(old)


def key_of(item: Any, keys: Sequence[str]) -> Hashable:
    held = item if isinstance(item, dict) else {}
    return tuple(identity(held[key]) if key in held else None for key in keys)


def old_items(node: Node, old: Any) -> Mapping[Hashable, Any]:
    """Key -> old item. Empty unless the list is a map: only those can be correlated item by item."""
    if node.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    keys = node.get("x-kubernetes-list-map-keys") or ()
    return {key_of(item, keys): item for item in old}


def was(node: Node, item: Any, olds: Mapping[Hashable, Any]) -> Any:
    return olds.get(key_of(item, node.get("x-kubernetes-list-map-keys") or ())) if olds else None


def _repeated(identities: Sequence[Hashable]) -> Iterator[int]:
    seen: dict[Hashable, int] = {}
    for index, one in enumerate(identities):
        seen[one] = seen.get(one, 0) + 1
        if seen[one] == 2:  # a value is reported once, where it first repeats
            yield index


def duplicates(node: Node, value: Any, path: str = "") -> Iterator[Cause]:
    """ValidateListSetsAndMaps: every repeated element of a set and every repeated key of a map, in the whole value."""
    if isinstance(value, list):
        yield from _in_list(node, value, path)
        items = node.get("items")
        if isinstance(items, Mapping):
            for index, item in enumerate(value):
                if isinstance(item, dict | list):
                    yield from duplicates(items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        values = node.get("additionalProperties")
        fields = node.get("properties") or {}
        for name, held in value.items():
            if not isinstance(held, dict | list):
                continue
            if name in fields:
                yield from duplicates(fields[name], held, f"{path}.{name}" if path else name)
            elif isinstance(values, Mapping):
                yield from duplicates(values, held, f"{path}[{name}]")


def _in_list(node: Node, value: list[Any], path: str) -> Iterator[Cause]:
    kind = node.get("x-kubernetes-list-type")
    if kind == "set":
        for index in _repeated([identity(item) for item in value]):
            yield causes.duplicate(f"{path}[{index}]", value[index])
    elif kind == "map":
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                yield causes.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
                return
        keys = node.get("x-kubernetes-list-map-keys") or ()
        for index in _repeated([key_of(item, keys) for item in value]):
            held = value[index] or {}
            yield causes.duplicate(f"{path}[{index}]", {key: held[key] for key in keys if key in held})


def ordered(node: Node) -> bool:
    """False when the schema holds a set or a map anywhere, so that equality must not see the order."""
    if node.get("x-kubernetes-list-type") in ("set", "map"):
        return False
    below = [node.get("items"), node.get("additionalProperties"), *(node.get("properties") or {}).values()]
    return all(ordered(child) for child in below if isinstance(child, Mapping))


def aligned(node: Node, new: Any, old: Any) -> Any:
    """`old` with its sets and maps in the order of `new`: what new does not hold comes last, in the old order."""
    if new == old:
        return old
    if isinstance(new, list) and isinstance(old, list):
        return _aligned_list(node, new, old)
    if isinstance(new, dict) and isinstance(old, dict):
        fields, values = node.get("properties") or {}, node.get("additionalProperties")
        result = {}
        for name, held in old.items():
            child = fields.get(name, values)
            result[name] = aligned(child, new[name], held) if isinstance(child, Mapping) and name in new else held
        return result
    return old


def _aligned_list(node: Node, new: list[Any], old: list[Any]) -> list[Any]:
    items = node.get("items")
    child: Node = items if isinstance(items, Mapping) else {}
    kind = node.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return [aligned(child, new[i], item) if i < len(new) else item for i, item in enumerate(old)]
    keys = node.get("x-kubernetes-list-map-keys") or ()

    def name(item: Any) -> Hashable:
        return key_of(item, keys) if kind == "map" else identity(item)

    left: dict[Hashable, list[Any]] = {}
    for item in old:
        left.setdefault(name(item), []).append(item)
    result = [aligned(child, item, left[name(item)].pop(0)) for item in new if left.get(name(item))]
    return result + [item for items_left in left.values() for item in items_left]
