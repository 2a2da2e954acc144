"""Sets of fields: which parts of an object somebody owns, and what changed between two objects.

Both walk objects beside their `Type`. The rules, down to which empty values count, are structured-merge-diff's
(`typed/tofieldset`, `typed/compare`, `typed/remove`); `fieldtrees` has the algebra.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from devkube import fieldtrees
from devkube.fieldtrees import SELF, Tree, is_member, subtree
from devkube.typed import DEDUCED, LIST, MAP, SCALAR, Type, Untypable, element


@dataclass(frozen=True)
class FieldSet:
    tree: Tree

    @classmethod
    def of(cls, value: Any, of: Type) -> "FieldSet":
        """All fields of an applied object."""
        return cls(_fields(value, of)[0])

    @classmethod
    def paths(cls, names: Iterable[str]) -> "FieldSet":
        """Of dotted names of fields: `spec`, `metadata.labels`."""
        found = cls({})
        for path in names:
            tree: Tree = {}
            for name in reversed(path.split(".")):
                tree = {f"f:{name}": tree}
            found |= cls(tree)
        return found

    @classmethod
    def read(cls, fields: Any) -> "FieldSet":
        """Of FieldsV1 that somebody else wrote. ValueError where it is malformed."""
        return cls(fieldtrees.read({} if fields is None else fields))

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __or__(self, other: "FieldSet") -> "FieldSet":
        return FieldSet(fieldtrees.union(self.tree, other.tree))

    def __and__(self, other: "FieldSet") -> "FieldSet":
        return FieldSet(fieldtrees.common(self.tree, other.tree))

    def __sub__(self, other: "FieldSet") -> "FieldSet":
        """Members one by one; what lies below a member of `other` stays. Itself where nothing is taken away."""
        tree = fieldtrees.minus(self.tree, other.tree)
        return self if tree is self.tree else FieldSet(tree)

    def without(self, other: "FieldSet") -> "FieldSet":
        """The difference in which a member of `other` takes everything below it along."""
        return FieldSet(fieldtrees.without(self.tree, other.tree)) if other.tree else self

    def has(self, elements: Iterable[str]) -> bool:
        """Whether a path of elements (`("f:spec", "f:replicas")`) is a member."""
        here: Tree | None = self.tree
        for one in elements:
            here = None if here is None else here.get(one)
        return here is not None and here is not self.tree and is_member(here)

    def named(self, of: Type) -> "FieldSet":
        """With every declared field on the way to a member as a member too."""
        return FieldSet(_named(self.tree, of))

    def fitting(self, of: Type) -> "FieldSet":
        """With a list or map that has become atomic instead of what lies in it: a CRD's schema may have changed."""
        return self if of.builtin else FieldSet(_fitting(self.tree, of))

    def removed_from(self, value: Any, of: Type) -> Any:
        """The value without the fields of this set; containers that lose items stay, though empty."""
        return _remaining(value, self.tree, of)

    def __iter__(self) -> Iterator[str]:
        """The members' paths as upstream prints them, `.spec.containers[name="a"].image`, parents first."""
        return fieldtrees.paths(self.tree)


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
    if old == new:  # most of what is compared; the comparison of whole branches is C
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
        for name in before_items.keys() - items.keys():
            below_trees[0]["f:" + name] = _whole(before_items[name], of.child(name) or DEDUCED)
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
    for name in old.keys() | new.keys():
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


def _fields(value: Any, of: Type) -> tuple[Tree, bool]:
    """The fields below a value, and whether it is a member itself."""
    kind = of.kind(value)
    if kind == SCALAR or (of.atomic_map if kind == MAP else of.list_type == "atomic"):
        return {}, True
    found: Tree = {}
    if kind == MAP and value.__class__ is dict:
        for name, item in value.items():
            below, member = _fields(item, of.child(name) or DEDUCED)
            member = member or item is None or item == {} or not of.declares(name)
            if below or member:
                found["f:" + name] = subtree(below, member)
    elif kind == LIST and value.__class__ is list:
        for item in value:
            try:
                name = element(item, of)
            except Untypable:
                continue
            found[name] = {} if name in found else subtree(_fields(item, of.items)[0], True)
    return found, False


def _remaining(value: Any, tree: Tree, of: Type) -> Any:
    kind = of.kind(value)
    if kind == MAP and value.__class__ is dict:
        kept: dict[str, Any] = {}
        for name, item in () if of.atomic_map else value.items():
            taken = tree.get("f:" + name)
            if taken is None:
                kept[name] = item
            elif not is_member(taken):
                below = of.child(name) or DEDUCED
                rest = _remaining(item, taken, below)
                # Go writes no empty maps and lists of built-in types; structs it writes.
                if rest or not item or not of.builtin or below.is_struct:
                    kept[name] = rest
        return kept
    if kind == LIST and value.__class__ is list:
        left: list[Any] = []
        for item in () if of.list_type == "atomic" else value:
            try:
                taken = tree.get(element(item, of))
            except Untypable:
                taken = None
            if taken is None:
                left.append(item)
            elif not is_member(taken):
                left.append(_remaining(item, taken, of.items))
        return left
    return value


def _below(key: str, of: Type | None) -> Type | None:
    """The type one path element further down."""
    if of is not None and key.startswith("f:") and of.is_map:
        return of.child(key[2:])
    return of.items if of is not None and key.startswith("k:") and of.is_list else None


def _named(tree: Tree, of: Type | None) -> Tree:
    found: Tree = {}
    for key, below in tree.items():
        declared = of is not None and of.is_map and key.startswith("f:") and of.declares(key[2:])
        found[key] = subtree(_named(below, _below(key, of)), declared) if below else below
    return found


def _fitting(tree: Tree, of: Type) -> Tree:
    found: Tree = {}
    for key, below in tree.items():
        type = _below(key, of) if below else None
        if type is None or type.deduced or (type.scalar and not type.is_map):
            found[key] = below
        elif type.atomic_map if type.is_map else type.list_type == "atomic":
            found[key] = {}
        else:
            found[key] = _fitting(below, type)
    return found
