"""The algebra of sets of fields, on the trees that `metadata.managedFields` holds (FieldsV1).

    {"f:spec": {"f:containers": {"k:{\\"name\\":\\"a\\"}": {".": {}, "f:image": {}}}}}

A tree is a dict of subtrees by path element; a subtree `{}` is a leaf, and `.` marks one with children that is itself a
member. A whole tree is no member of itself: there `{}` is the empty set. Nothing here changes a tree; results share
what they have in common with their sources, and a difference that takes nothing away is its source. The rules are
those of structured-merge-diff's `fieldpath.Set`.
"""

import json
from collections.abc import Iterator
from typing import Any

from devkube.errors import StatusError
from devkube.values import check_depth, compact

Tree = dict[str, Any]
SELF = "."
_ORDER = {"f": 0, "k": 1, "v": 2, "i": 3}


def is_member(subtree: Tree) -> bool:
    return not subtree or SELF in subtree


def subtree(children: Tree, member: bool) -> Tree:
    return {SELF: {}, **children} if member and children and SELF not in children else children


def union(one: Tree, other: Tree) -> Tree:
    if not one or not other:
        return one or other
    found = dict(one)
    for key, theirs in other.items():
        mine = found.get(key)
        if mine is None or key == SELF:
            found[key] = theirs
        elif mine is not theirs:
            found[key] = subtree(union(mine, theirs), is_member(mine) or is_member(theirs))
    return found


def common(one: Tree, other: Tree) -> Tree:
    if len(one) > len(other):
        one, other = other, one
    found: Tree = {}
    for key, mine in one.items():
        theirs = other.get(key)
        if theirs is None or key == SELF:
            continue
        children, both = common(mine, theirs), is_member(mine) and is_member(theirs)
        if children or both:
            found[key] = subtree(children, both)
    return found


def minus(one: Tree, other: Tree) -> Tree:
    """Members one by one: without `.spec` its children stay, and without them it stays."""
    found = one
    for key, theirs in other.items():
        mine = one.get(key)
        if mine is None or key == SELF:
            continue
        rest = minus(mine, theirs)
        if is_member(mine) and is_member(theirs):
            rest = {name: below for name, below in rest.items() if name != SELF}
            gone = not rest
        else:
            gone = not rest and bool(mine)
            rest = {} if rest.keys() == {SELF} else rest
        if gone or rest is not mine:
            found = dict(one) if found is one else found
            if gone:
                del found[key]
            else:
                found[key] = rest
    return found


def without(one: Tree, other: Tree) -> Tree:
    """The difference in which a member takes along everything below it."""
    found: Tree = {}
    for key, mine in one.items():
        theirs = other.get(key) if key != SELF else None
        if theirs is None:
            found[key] = mine
        elif not is_member(theirs):
            rest = without(mine, theirs)
            if rest or not mine:
                found[key] = {} if rest.keys() == {SELF} else rest
    return found


def paths(tree: Tree, prefix: str = "") -> Iterator[str]:
    """The members as upstream prints them, `.spec.containers[name="a"].image`, parents first."""
    keys = sorted((key for key in tree if key != SELF), key=lambda key: (_ORDER.get(key[:1], 4), key))
    for key in keys:
        if is_member(tree[key]):
            yield prefix + printed(key)
    for key in keys:
        yield from paths(tree[key], prefix + printed(key))


def printed(key: str) -> str:
    """A path element as it stands in a path: `.image`, `[name="a"]`, `[="x"]`."""
    kind, text = key[:1], key[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        return "[" + ",".join(f"{name}={compact(value)}" for name, value in json.loads(text).items()) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def read(fields: Any) -> Tree:
    """A tree that somebody else wrote, in our spelling. ValueError where it is malformed or nested without end."""
    try:
        check_depth(fields, "fieldsV1")
        return _read(fields)[0]
    except (StatusError, RecursionError) as why:
        raise ValueError(str(why)) from why


def _read(fields: Any) -> tuple[Tree, bool]:
    if not isinstance(fields, dict):
        raise ValueError("fieldsV1 is made of objects")
    found: Tree = {}
    for key, below in fields.items():
        element = None if key == SELF else _element(key)
        if element is not None:
            children, member = _read(below)
            found[element] = subtree(children, member)
    return found, SELF in fields or not found


def _element(key: str) -> str | None:
    """A path element in our spelling; None for a kind that a later version may know."""
    if key[1:2] != ":":
        raise ValueError(f"missing colon: {key}")
    kind, text = key[0], key[2:]
    if kind == "f":
        return key
    if kind == "v":
        return "v:" + compact(_json(text))
    if kind == "k":
        keys = _json(text)
        if not isinstance(keys, dict):
            raise ValueError(f"the key of a list item is an object: {key}")
        return "k:" + compact(keys)
    return f"i:{int(text)}" if kind == "i" else None


def _json(text: str) -> Any:
    value = json.loads(text)
    check_depth(value, "a path element of fieldsV1")
    return value
