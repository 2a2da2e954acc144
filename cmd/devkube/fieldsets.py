"""Sets of fields: which parts of an object somebody owns.

Objects are walked beside their `Type`. The rules, down to which empty values count, are structured-merge-diff's
(`typed/tofieldset`, `typed/remove`); `fieldtrees` has the algebra, `changes` compares two objects.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from devkube import fieldtrees
from devkube.fieldtrees import Tree, is_member, subtree
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
