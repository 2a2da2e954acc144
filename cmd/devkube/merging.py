"""What an apply does to an object: checked against its type, merged into the live object, and cleared of what it left.

Follows structured-merge-diff (`typed/validate`, `typed/merge`, and `prune` of `merge/update`).
"""

from typing import Any

from devkube.fieldsets import FieldSet
from devkube.fieldtrees import printed
from devkube.kinds import Object
from devkube.typed import DEDUCED, LIST, MAP, SCALAR, Type, Untypable, element
from devkube.values import compact, go_type

_GO = {"string": "string", "number": "float64", "bool": "bool", "array": "[]interface {}"}


def problems(value: Any, of: Type, path: str = "") -> list[str]:
    """What forbids applying this: `.spec.x: field not declared in schema`. Unknown fields, wrong types, duplicates."""
    kind = of.kind(value)
    if value is None:
        return []
    if kind == SCALAR:
        why = _wrong_scalar(value, of.scalar)
        return [f"{path}: {why}"] if why else []
    if kind == MAP:
        if value.__class__ is not dict:
            return [f"{path}: expected map, got {compact(value)}"]
        found: list[str] = []
        for name, item in value.items():
            child = of.child(name)
            if child is None:
                return [*found, f"{path}.{name}: field not declared in schema"]
            found += problems(item, child, f"{path}.{name}")
        return found
    if value.__class__ is not list:
        return [f"{path}: expected list, got {compact(value)}"]
    return _item_problems(value, of, path)


def _item_problems(items: list[Any], of: Type, path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for at, item in enumerate(items):
        name = f"i:{at}"
        if of.list_type != "atomic":
            try:
                name = element(item, of)
            except Untypable as why:
                return [*found, f"{path}: element {at}: {why}"]
            if name in seen:
                found.append(f"{path}: duplicate entries for key {printed(name)}")
            seen.add(name)
        found += problems(item, of.items, path + printed(name))
    return found


def _wrong_scalar(value: Any, wanted: str) -> str:
    given = go_type(value)
    if wanted == "numeric" and given != "number":
        return f"expected numeric (int or float), got {_GO.get(given, 'map[string]interface {}')}"
    if wanted == "string" and given != "string":
        return f"expected string, got {compact(value)}"
    if wanted == "boolean" and given != "bool":
        return f"expected boolean, got {compact(value)}"
    return f"expected any scalar, got {compact(value)}" if given in ("object", "array") else ""


def merge(live: Any, config: Any, of: Type) -> Any:
    """The live value with everything that the configuration says. Shares branches with both."""
    kind = of.kind(config)
    if kind == MAP and not of.atomic_map:
        mine = config if config.__class__ is dict else {}
        theirs = live if live.__class__ is dict else {}
        if mine or theirs:
            merged = dict(theirs)
            for name, item in mine.items():
                merged[name] = merge(theirs[name], item, of.child(name) or DEDUCED) if name in theirs else item
            return merged
    elif kind == LIST and of.list_type != "atomic":
        ours = config if config.__class__ is list else []
        before = live if live.__class__ is list else []
        if ours or before:
            return _merge_items(before, ours, of)
    return config


def _merge_items(live: list[Any], config: list[Any], of: Type) -> list[Any]:
    """In the order of the configuration; what only the live list has stays where it stands between those."""
    theirs = [(element(item, of), item) for item in live]
    mine = {element(item, of): item for item in config}
    before: dict[str, Any] = {}
    for key, item in theirs:  # an item that is there twice is replaced, not merged
        before[key] = None if key in before else item

    merged: list[Any] = []
    done: set[str] = set()
    shared = iter([name for name in mine if name in before])
    awaited = next(shared, None)
    wanted = list(mine)
    left, right = 0, 0
    while left < len(theirs) or right < len(wanted):
        name = theirs[left][0] if left < len(theirs) else None
        next_up = wanted[right] if right < len(wanted) else None
        if (
            name is not None
            and next_up is not None
            and name != next_up
            and name in mine
            and awaited not in (None, name)
        ):
            left += 1  # shared, but its turn comes later
            continue
        if name is not None and name not in mine:
            merged.append(theirs[left][1])
            left += 1
            continue
        if name is not None and (name in done or name == next_up):
            left += 1
        if next_up is not None:
            item = mine[next_up]
            merged.append(merge(before[next_up], item, of.items) if next_up in before else item)
            done.add(next_up)
            right += 1
            if awaited == next_up:
                awaited = next(shared, None)
    return merged


def prune(merged: Object, last: FieldSet, owned: FieldSet, of: Type) -> Object:
    """Without the fields that the manager applied before (`last`) and nobody owns now (`owned`, its own included)."""
    if not last - owned:  # nothing was given up
        return merged
    everything = FieldSet.of(merged, of).named(of)
    pruned = last.named(of).removed_from(merged, of)
    unowned = everything - (FieldSet.of(pruned, of).named(of) | owned.named(of))
    pruned = unowned.removed_from(merged, of)
    # What became unowned on the way but was never applied by this manager is not its to remove.
    dangling = (everything - FieldSet.of(pruned, of).named(of)) & last.named(of)
    pruned = dangling.removed_from(merged, of)
    assert isinstance(pruned, dict)
    return pruned
