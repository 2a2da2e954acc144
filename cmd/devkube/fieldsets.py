"""Which parts of an object somebody owns: sets of paths, found by walking the object beside its `Schema`.

A path is a tuple of elements as FieldsV1 spells them, `("f:spec", "f:containers", 'k:{"name":"a"}', "f:image")`. In
metadata.managedFields a set is a tree of its elements, in which `.` marks a member that has children:

    {"f:spec": {"f:containers": {"k:{\\"name\\":\\"a\\"}": {".": {}, "f:image": {}}}}}

Which values are one leaf and what list items are called follows structured-merge-diff.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from devkube.schema import LIST, MAP, SCALAR, UNTYPED, Schema, Untypable, element
from devkube.values import check_depth, compact, same

Path = tuple[str, ...]
Fields = Set[Path]
NOTHING: Final[Fields] = frozenset()
_NOBODYS: Final[Fields] = frozenset({(), ("f:metadata",)})
_SELF: Final = "."
_HELD: Final = object()  # the value of a map or list that is not empty: what it holds stands below


class _Node(NamedTuple):
    kind: str  # SCALAR also where a map or list is owned as a whole
    value: Any

    def differs(self, other: "_Node") -> bool:
        held = self.value is _HELD or other.value is _HELD
        return self.kind != other.kind or not (held or same(self.value, other.value))


Nodes = dict[Path, _Node]


def nodes(obj: Any, of: Schema, *, unique: bool = False) -> Nodes:
    """Everything in an object, containers included. Untypable where items have no name, or (`unique`) the same."""
    found: Nodes = {}
    _walk(obj, of, (), found, unique)
    return {path: node for path, node in found.items() if path not in _NOBODYS}


def _walk(value: Any, of: Schema, path: Path, found: Nodes, unique: bool) -> None:
    kind = kind_of(value, of)
    children = _children(value, of, kind, unique)
    found[path] = _Node(kind, _HELD if children else value)
    for name, item, child in children:
        _walk(item, child, (*path, name), found, unique)


def kind_of(value: Any, of: Schema) -> str:
    """MAP, LIST, or SCALAR: one leaf, whatever is in it."""
    kind = of.kind(value)
    return SCALAR if (of.atomic_map if kind == MAP else of.list_type == "atomic") else kind


def _children(value: Any, of: Schema, kind: str, unique: bool) -> list[tuple[str, Any, Schema]]:
    if kind == MAP and isinstance(value, dict):
        return [(f"f:{name}", item, of.child(name)) for name, item in value.items()]
    groups: dict[str, list[Any]] = {}
    for item in value if kind == LIST and isinstance(value, list) else ():
        groups.setdefault(element(item, of), []).append(item)
    for name, items in groups.items():
        if unique and len(items) > 1:
            raise Untypable(f"duplicate entries for key {printed((name,))}")
    one, more = of.items, UNTYPED
    return [(name, items[0], one) if len(items) == 1 else (name, items, more) for name, items in groups.items()]


def applied(found: Nodes) -> Fields:
    """What belongs to who applies this: leaves and list items; of what only leads there, what is empty."""
    return {
        path
        for path, node in found.items()
        if not path[-1].startswith("f:") or (node.value is not _HELD and (node.kind != LIST or node.value != []))
    }


def written(before: Nodes, after: Nodes) -> Fields:
    return {path for path, node in after.items() if path not in before or node.differs(before[path])}


def with_parents(fields: Fields) -> Fields:
    """With every field of an object on the way to a member; list items stand for themselves."""
    ways = {path[:end] for path in fields for end in range(1, len(path))}
    return fields | {way for way in ways if way[-1].startswith("f:") and way not in _NOBODYS}


def without(value: Any, gone: Fields, of: Schema, path: Path = ()) -> Any:
    """The value without these fields and all below them; maps and lists that lose all they had stay, though empty."""
    leaf = kind_of(value, of) == SCALAR
    if not leaf and isinstance(value, dict):
        fields = [((*path, f"f:{name}"), name, item) for name, item in value.items()]
        return {name: without(item, gone, of.child(name), where) for where, name, item in fields if where not in gone}
    if not leaf and isinstance(value, list):
        items = [((*path, element(item, of)), item) for item in value]
        return [without(item, gone, of.items, where) for where, item in items if where not in gone]
    return value


def tree(fields: Collection[Path]) -> dict[str, Any]:
    """As managedFields write it."""
    root: dict[str, Any] = {}
    for path in sorted(fields):
        here = root
        for name in path:
            here = here.setdefault(name, {})
        here[_SELF] = {}
    return _bare(root)


def _bare(one: Mapping[str, Any]) -> dict[str, Any]:
    return {} if one.keys() == {_SELF} else {name: _bare(below) if below else {} for name, below in one.items()}


def read(fields: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of a tree, in our spelling. Unknown kinds of elements are skipped. ValueError where it is malformed."""
    if not isinstance(fields, dict):
        raise ValueError("fieldsV1 is made of objects")
    if path and (not fields or _SELF in fields):
        yield path
    for key, below in fields.items():
        if key.startswith(("f:", "k:", "v:", "i:")):
            yield from read(below, (*path, _element(key)))


@lru_cache(10_000)
def _element(key: str) -> str:
    kind, text = key[:2], key[2:]
    if kind == "f:":
        return key
    value = msgspec.json.decode(text)  # unlike the standard library it refuses NaN and half a surrogate
    check_depth(value)
    if kind == "k:" and not isinstance(value, dict):
        raise ValueError(f"the key of a list item is an object: {key}")
    return kind + compact(value)


def printed(path: Path) -> str:
    """As upstream prints a path: `.spec.containers[name="a"].image`."""
    return "".join(f".{name[2:]}" if name.startswith("f:") else f"[{_index(name)}]" for name in path)


def _index(name: str) -> str:
    if not name.startswith("k:"):
        return f"={name[2:]}" if name.startswith("v:") else name[2:]
    return ",".join(f"{key}={compact(value)}" for key, value in msgspec.json.decode(name[2:]).items())
