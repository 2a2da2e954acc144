"""Sets of fields: the algebra against plain sets of paths, and which fields an object of each kind of type has."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkube.changes import compare
from devkube.fieldsets import FieldSet
from devkube.schema import Schema
from devkube.typed import Untypable, compiled

TEXT = {"type": "string"}
PORT = {
    "type": "object",
    "properties": {"port": {"type": "integer"}, "protocol": {**TEXT, "default": "TCP"}, "x": TEXT},
}
PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": PORT,
}
SPEC = {
    "text": TEXT,
    "count": {"type": "integer"},
    "labels": {"type": "object", "additionalProperties": TEXT},
    "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "args": {"type": "array", "items": TEXT},
    "ports": PORTS,
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "part": {"type": "object", "properties": {"a": TEXT}},
}
NODE = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
TYPE = compiled(Schema(NODE, NODE))
EMPTY = FieldSet({})

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
paths = st.frozensets(st.lists(elements, min_size=1, max_size=3).map(tuple), max_size=8)
Paths = frozenset[tuple[str, ...]]


def tree_of(members: Paths) -> FieldSet:
    found = EMPTY
    for path in members:
        tree: dict[str, Any] = {}
        for element in reversed(path):
            tree = {element: tree}
        found |= FieldSet(tree)
    return found


def members(tree: dict[str, Any], prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = {prefix} if prefix and (not tree or "." in tree) else set()
    for element, below in tree.items():
        if element != ".":
            found |= members(below, (*prefix, element))
    return found


@settings(max_examples=200)
@given(paths, paths)
def test_the_algebra_is_that_of_sets_of_paths(one: Paths, other: Paths) -> None:
    left, right = tree_of(one), tree_of(other)
    before = (str(left.tree), str(right.tree))
    assert members(left.tree) == one
    assert members((left | right).tree) == one | other
    assert members((left & right).tree) == one & other
    assert members((left - right).tree) == one - other
    inside = {path for path in one if any(path[:n] in other for n in range(1, len(path) + 1))}
    assert members(left.without(right).tree) == one - inside
    assert {path for path in one | other if left.has(path)} == one
    assert (str(left.tree), str(right.tree)) == before


@settings(max_examples=100)
@given(paths, paths)
def test_every_set_has_one_form(one: Paths, other: Paths) -> None:
    assert (tree_of(one) | tree_of(other)).tree == tree_of(one | other).tree
    assert (tree_of(one) - tree_of(other)).tree == tree_of(one - other).tree
    assert (tree_of(one) & tree_of(other)).tree == tree_of(one & other).tree
    assert FieldSet.read(tree_of(one).tree) == tree_of(one)


def test_a_difference_that_takes_nothing_away_is_the_set_itself() -> None:
    one = FieldSet.paths(["spec.text", "status"])
    assert one - FieldSet.paths(["spec"]) is one


def fields(**spec: Any) -> Any:
    found = FieldSet.of({"spec": spec}, TYPE)
    return [path.removeprefix(".spec") for path in found]


@pytest.mark.parametrize(
    ("spec", "owned"),
    [
        ({"text": "x", "count": 0}, [".count", ".text"]),
        ({"text": None}, [".text"]),
        ({"labels": {"a": "1"}}, [".labels.a"]),
        ({"labels": {}}, [".labels"]),
        ({"selector": {"a": "1"}}, [".selector"]),
        ({"args": ["x"]}, [".args"]),
        ({"set": ["x", "<"]}, ['.set[="\\u003c"]', '.set[="x"]']),
        ({"set": []}, []),
        ({"part": {"a": "x"}}, [".part.a"]),
        ({"part": {}}, [".part"]),
        ({"free": {"a": {"b": [1]}, "c": 1}}, [".free.a", ".free.c", ".free.a.b"]),
        ({"unknown": {"a": 1}}, [".unknown", ".unknown.a"]),
        ({"ports": [{"port": 80}]}, ['.ports[port=80,protocol="TCP"]', '.ports[port=80,protocol="TCP"].port']),
        ({"ports": [{"port": 1}, {"port": 1}]}, ['.ports[port=1,protocol="TCP"]']),
    ],
)
def test_fields_of_an_applied_object(spec: dict[str, Any], owned: list[str]) -> None:
    assert fields(**spec) == owned


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, list[str]]:
    found = compare({"spec": old}, {"spec": new}, TYPE)
    kinds = {"-": found.removed, "~": found.modified, "+": found.added}
    return {sign: [path.removeprefix(".spec") for path in fields] for sign, fields in kinds.items() if fields}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"text": "x"}, {"text": "x"}, {}),
        ({"text": "x"}, {"text": "y", "count": 1}, {"~": [".text"], "+": [".count"]}),
        ({"labels": {"a": "1", "b": "1"}}, {"labels": {"a": "2"}}, {"~": [".labels.a"], "-": [".labels.b"]}),
        ({}, {"labels": {"a": "1"}}, {"+": [".labels", ".labels.a"]}),
        ({"labels": {}}, {"labels": None}, {"~": [".labels"]}),
        ({"selector": {"a": "1"}}, {"selector": {"b": "1"}}, {"~": [".selector"]}),
        ({"args": ["x"]}, {"args": []}, {"~": [".args"]}),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, {"-": ['.set[="a"]'], "+": ['.set[="c"]']}),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, {}),
        ({"set": ["a", "a"]}, {"set": ["a"]}, {"-": ['.set[="a"]'], "+": ['.set[="a"]']}),
        (
            {"ports": [{"port": 1, "x": "a"}]},
            {"ports": [{"port": 1, "protocol": "TCP", "x": "b"}]},
            {"~": ['.ports[port=1,protocol="TCP"].x'], "+": ['.ports[port=1,protocol="TCP"].protocol']},
        ),
        ({"free": {"a": 1}}, {"free": {"a": True}}, {"~": [".free.a"]}),
        ({"free": {"a": 1}}, {"free": {"a": 1.0}}, {}),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": "x"}}, {"~": [".free.a"], "-": [".free.a.b"]}),
    ],
)
def test_changes(old: dict[str, Any], new: dict[str, Any], changes: dict[str, list[str]]) -> None:
    assert changed(old, new) == changes


@pytest.mark.parametrize("spec", [{"set": [None]}, {"set": [["x"]]}, {"ports": [None]}, {"ports": ["x"]}])
def test_items_without_a_name(spec: dict[str, Any]) -> None:
    with pytest.raises(Untypable):
        compare({"spec": {}}, {"spec": spec}, TYPE)


def test_a_default_is_part_of_the_name_and_suffices() -> None:
    assert changed({}, {"ports": [{}]}) == {"+": [".ports", '.ports[protocol="TCP"]']}


def test_removal_leaves_what_became_empty() -> None:
    value = {"spec": {"labels": {"a": "1"}, "set": ["x"], "ports": [{"port": 1, "x": "y"}], "text": "t"}}
    taken = FieldSet.of({"spec": {"labels": {"a": "1"}, "set": ["x"], "text": ""}}, TYPE)
    port = FieldSet({"f:spec": {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:x": {}}}}})
    left = (taken | port).removed_from(value, TYPE)
    assert left == {"spec": {"labels": {}, "set": [], "ports": [{"port": 1}]}}


def test_what_others_wrote_is_read_into_our_spelling() -> None:
    sent = {"f:a": {}, 'k:{ "b" : 1.0, "a": "<" }': {".": {}, "f:x": {}}, "v:2": {"q:future": {}}, "i:07": {}}
    assert FieldSet.read(sent).tree == {
        "f:a": {},
        'k:{"a":"\\u003c","b":1}': {".": {}, "f:x": {}},
        "v:2": {},
        "i:7": {},
    }
    assert FieldSet.read(None) == EMPTY


@pytest.mark.parametrize("sent", [[], {"a": {}}, {"f:a": 1}, {"v:{": {}}, {"k:[]": {}}, {"i:x": {}}, {"": {}}])
def test_malformed_fields(sent: Any) -> None:
    with pytest.raises(ValueError):
        FieldSet.read(sent)


def test_a_schema_may_turn_atomic() -> None:
    owned = FieldSet({"f:spec": {"f:args": {'v:"x"': {}}, "f:selector": {"f:a": {}}, "f:labels": {"f:a": {}}}})
    assert list(owned.fitting(TYPE)) == [".spec.args", ".spec.selector", ".spec.labels.a"]
