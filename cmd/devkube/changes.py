"""What a write changed: fields removed, modified and added, as structured-merge-diff (`typed/compare`) counts them.

Ownership is computed on every write, and most of an object stays as it was: equal branches are not walked.
"""

from dataclasses import dataclass
from typing import Any

from devkube.fieldsets import FieldSet
from devkube.fieldtrees import SELF, Tree, subtree
from devkube.typed import DEDUCED, LIST, MAP, SCALAR, Type, element
from devkube.values import alike


@dataclass(frozen=True)
class Changes:
    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def written(self) -> FieldSet:
        return self.modified | self.added

    def without(self, fields: FieldSet) -> "Changes":
        return Changes(self.removed.without(fields), self.modified.without(fields), self.added.without(fields))


def compare(old: Any, new: Any, of: Type) -> Changes:
    """What a write changed. Untypable where a list's items have no names."""
    trees: tuple[Tree, Tree, Tree] = ({}, {}, {})
    _compare(old, new, of, "", trees)
    return Changes(*(FieldSet(tree.get("", {})) for tree in trees))


def _compare(old: Any, new: Any, of: Type, key: str, trees: tuple[Tree, Tree, Tree]) -> None:
    """Write under `key` of three trees what was removed, modified, added in a value that both objects have."""
    # Most of what is compared is equal, and Python compares whole branches fast. Only open schemas mix 1 and true.
    if old == new and (of.builtin or alike(old, new)):
        return
    kind, before = of.kind(new), of.kind(old)
    if kind != before:  # the schema allows several kinds of value here
        for value, tree in ((old, trees[0]), (new, trees[2])):
            if value and of.kind(value) != SCALAR and (below := _whole(value, of)):
                tree[key] = {name: one for name, one in below.items() if name != SELF}
        trees[1][key] = {}
        return
    atomic = of.atomic_map if kind == MAP else kind == SCALAR or of.list_type == "atomic"
    container = dict if kind == MAP else list
    before_items: Any = old if old.__class__ is container else container()
    items: Any = new if new.__class__ is container else container()
    if atomic or not (before_items or items):
        trees[1][key] = {}
        return
    below_trees: tuple[Tree, Tree, Tree] = ({}, {}, {})
    if kind == MAP:
        for name, value in items.items():
            child = of.child(name) or DEDUCED
            if name in before_items:
                _compare(before_items[name], value, child, "f:" + name, below_trees)
            else:
                below_trees[2]["f:" + name] = _whole(value, child)
        for name, value in before_items.items():
            if name not in items:
                below_trees[0]["f:" + name] = _whole(value, of.child(name) or DEDUCED)
    else:
        _compare_items(_by_element(before_items, of), _by_element(items, of), of.items, below_trees)
    for tree, below in zip(trees, below_trees, strict=True):
        if below:
            tree[key] = below


def _compare_items(
    old: dict[str, list[Any]], new: dict[str, list[Any]], of: Type, trees: tuple[Tree, Tree, Tree]
) -> None:
    """Items of the same name, of which there should be one but may be more: those are compared as one leaf."""
    removed, modified, added = trees
    for name in old | new:
        before, after = old.get(name, []), new.get(name, [])
        if len(before) == 1 == len(after):
            _compare(before[0], after[0], of, name, trees)
        elif len(before) > 1 < len(after):
            if before != after:
                modified[name] = {}
        else:
            if before:
                removed[name] = _whole(before[0], of) if len(before) == 1 else {}
            if after:
                added[name] = _whole(after[0], of) if len(after) == 1 else {}


def _by_element(items: list[Any], of: Type) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element(item, of), []).append(item)
    return found


def _whole(value: Any, of: Type) -> Tree:
    """Every path of a value that came or went as a whole, itself included."""
    kind = of.kind(value)
    found: Tree = {}
    if kind == MAP and value.__class__ is dict and not of.atomic_map:
        found = {"f:" + name: _whole(item, of.child(name) or DEDUCED) for name, item in value.items()}
    elif kind == LIST and value.__class__ is list and of.list_type != "atomic":
        for item in value:
            name = element(item, of)
            found[name] = {} if name in found else _whole(item, of.items)
    return subtree(found, True)
