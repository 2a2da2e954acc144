"""Sets of fields: the algebra against plain sets of paths, and which fields an object of each kind of type has."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkube.fieldsets import Fields, applied, nodes, printed, read, tree, with_parents, without, written
from devkube.schema import Schema, Untypable

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
TYPE = Schema(NODE, NODE)

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
paths = st.frozensets(st.lists(elements, min_size=1, max_size=3).map(tuple), max_size=8)


@settings(max_examples=200)
@given(paths)
def test_every_set_has_one_tree(some: frozenset[tuple[str, ...]]) -> None:
    assert frozenset(read(tree(some))) == some


def told(fields: Fields) -> list[str]:
    return sorted(printed(path).removeprefix(".spec") for path in fields)


def fields(**spec: Any) -> list[str]:
    return told(applied(nodes({"spec": spec}, TYPE)))


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
        ({"free": {"a": {"b": [1]}, "c": 1}}, [".free.a.b", ".free.c"]),
        ({"unknown": {"a": 1}}, [".unknown.a"]),
        ({"ports": [{"port": 80}]}, ['.ports[port=80,protocol="TCP"]', '.ports[port=80,protocol="TCP"].port']),
        ({"ports": [{"port": 1}, {"port": 1}]}, ['.ports[port=1,protocol="TCP"]']),
    ],
)
def test_fields_of_an_applied_object(spec: dict[str, Any], owned: list[str]) -> None:
    assert fields(**spec) == owned


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, list[str]]:
    before, after = nodes({"spec": old}, TYPE), nodes({"spec": new}, TYPE)
    some = written(before, after)
    kinds = {"-": before.keys() - after.keys(), "~": some & before.keys(), "+": some - before.keys()}
    return {sign: told(fields) for sign, fields in kinds.items() if fields}


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
        ({"set": ["a", "a"]}, {"set": ["a"]}, {"~": ['.set[="a"]']}),
        (
            {"ports": [{"port": 1, "x": "a"}]},
            {"ports": [{"port": 1, "protocol": "TCP", "x": "b"}]},
            {"~": ['.ports[port=1,protocol="TCP"].x'], "+": ['.ports[port=1,protocol="TCP"].protocol']},
        ),
        ({"free": {"a": 1}}, {"free": {"a": True}}, {"~": [".free.a"]}),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": "x"}}, {"~": [".free.a"], "-": [".free.a.b"]}),
    ],
)
def test_changes(old: dict[str, Any], new: dict[str, Any], changes: dict[str, list[str]]) -> None:
    assert changed(old, new) == changes


@pytest.mark.parametrize("spec", [{"set": [None]}, {"set": [["x"]]}, {"ports": [None]}, {"ports": ["x"]}])
def test_items_without_a_name(spec: dict[str, Any]) -> None:
    with pytest.raises(Untypable):
        nodes({"spec": spec}, TYPE)


def test_a_default_is_part_of_the_name_and_suffices() -> None:
    assert changed({}, {"ports": [{}]}) == {"+": [".ports", '.ports[protocol="TCP"]']}


def test_removal() -> None:
    value = {"spec": {"labels": {"a": "1"}, "set": ["x"], "ports": [{"port": 1, "x": "y"}], "text": "t"}}
    gone = applied(nodes({"spec": {"labels": {"a": "1"}, "set": ["x"], "text": ""}}, TYPE))
    gone |= set(read({"f:spec": {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:x": {}}}}}))
    assert without(value, gone, TYPE) == {"spec": {"labels": {}, "set": [], "ports": [{"port": 1}]}}
    assert told(with_parents(gone) - gone) == ["", ".labels", ".ports", ".set"]


def test_what_others_wrote_is_read_into_our_spelling() -> None:
    sent = {"f:a": {}, 'k:{ "b" : 1, "a": "<" }': {".": {}, "f:x": {}}, "i:7": {}, "a": {}, "q:a": {}}
    item = 'k:{"a":"\\u003c","b":1}'
    assert set(read(sent)) == {("f:a",), (item,), (item, "f:x"), ("i:7",)}
    assert list(read({})) == []


@pytest.mark.parametrize("sent", [[], {"f:a": 1}, {"v:{": {}}, {"k:[]": {}}, {"i:x": {}}])
def test_malformed_fields(sent: Any) -> None:
    with pytest.raises(ValueError):
        list(read(sent))
