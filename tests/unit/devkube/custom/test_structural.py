"""What a schema does to an object: pruning, metadata, nulls, defaults. Validity is not decided here."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.custom import structural
from tests.support.crds import pool, spec_of

KEEPS = {"x-kubernetes-preserve-unknown-fields": True}
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("node", "before", "after", "gone"),
    [
        pytest.param({"properties": {"a": NUMBER}}, {"a": 1, "b": 2}, {"a": 1}, ["b"], id="unknown"),
        pytest.param({"properties": {"a": {"properties": {}}}}, {"a": {"b": 1}}, {"a": {}}, ["a.b"], id="nested"),
        pytest.param(
            {**KEEPS, "properties": {"a": {"properties": {"b": TEXT}}}},
            {"x": {"y": 1}, "a": {"c": 1}},
            {"x": {"y": 1}, "a": {}},
            ["a.c"],
            id="preserved, but known fields are pruned",
        ),
        pytest.param(
            {"additionalProperties": {"properties": {"b": TEXT}}},
            {"x": {"b": "1", "c": 2}},
            {"x": {"b": "1"}},
            ["x.c"],
            id="values of a map",
        ),
        pytest.param(
            {"additionalProperties": True},
            {"x": {"b": 1}, "y": 2},
            {"x": {}, "y": 2},
            ["x.b"],
            id="any value, nothing inside",
        ),
        pytest.param(
            {"properties": {"l": {"items": {"properties": {"a": TEXT}}}}},
            {"l": [{"a": "1"}, {"b": 1}]},
            {"l": [{"a": "1"}, {}]},
            ["l[1].b"],
            id="items",
        ),
        pytest.param({"properties": {"l": {**KEEPS}}}, {"l": [{"b": 1}]}, {"l": [{"b": 1}]}, [], id="items kept"),
        pytest.param(
            {"properties": {"e": {"x-kubernetes-embedded-resource": True, "properties": {"spec": TEXT}}}},
            {"e": {"apiVersion": "v1", "kind": "K", "metadata": {}, "status": 1}},
            {"e": {"apiVersion": "v1", "kind": "K", "metadata": {}}},
            ["e.status"],
            id="embedded resource",
        ),
        pytest.param({}, {"spec": 1, "kind": "K"}, {"kind": "K"}, ["spec"], id="no schema"),
    ],
)
def test_prune(node: Any, before: Any, after: Any, gone: list[str]) -> None:
    assert structural.prune(before, node) == gone
    assert before == after


def test_metadata_is_read_as_object_meta() -> None:
    obj = pool({}, metadata={"name": "a", "nme": "b", "labels": {"x": "y"}, "finalizers": [], "annotations": None})
    assert structural.coerce(obj, {}) == ["metadata.nme"]
    assert obj["metadata"] == {"name": "a", "labels": {"x": "y"}}


def test_metadata_that_cannot_be_read_is_told_with_its_path() -> None:
    node = spec_of({"template": {"type": "object", "x-kubernetes-embedded-resource": True}})
    obj = pool({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}})
    with pytest.raises(
        ValueError, match=r"spec\.template\.metadata: Invalid value: \{.*\}: json: cannot unmarshal number"
    ):
        structural.coerce(obj, node)
    obj = pool({"template": {"apiVersion": 1, "kind": "Pod"}})
    with pytest.raises(ValueError, match=r"spec\.template\.apiVersion: Invalid value: 1: must be a string"):
        structural.coerce(obj, node)


DEFAULTED = spec_of(
    {
        "size": {"type": "integer", "default": 1},
        "box": {
            "type": "object",
            "default": {"open": True},
            "properties": {"open": {"type": "boolean"}, "lid": {**TEXT, "default": "wood"}},
        },
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {**NUMBER, "default": 7}}}},
        "map": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"n": {**NUMBER, "default": 7}}},
        },
        "free": {**TEXT, "nullable": True, "default": "x"},
        "bare": TEXT,
        "zero": {"type": "integer", "default": 0},
    }
)


def test_defaults_reach_into_default_objects_items_and_values() -> None:
    obj = pool({"list": [{}, {"n": 1}], "map": {"a": {}}})
    structural.default(obj, DEFAULTED)
    assert obj["spec"] == {
        "list": [{"n": 7}, {"n": 1}],
        "map": {"a": {"n": 7}},
        "size": 1,
        "box": {"open": True, "lid": "wood"},
        "free": "x",
        "zero": 0,
    }


def test_no_default_makes_its_own_parent() -> None:
    obj = pool()
    structural.default(obj, DEFAULTED)
    assert "spec" not in obj


def test_defaults_are_copies() -> None:
    first, second = pool({}), pool({})
    structural.default(first, DEFAULTED)
    first["spec"]["box"]["lid"] = "gone"
    structural.default(second, DEFAULTED)
    assert second["spec"]["box"]["lid"] == "wood"


def test_nulls_go_unless_they_may_stay_or_have_a_default() -> None:
    obj = pool({"bare": None, "size": None, "free": None, "list": None, "unknown": None})
    structural.drop_nulls(obj, DEFAULTED)
    assert obj["spec"] == {"free": None, "unknown": None}
    structural.default(obj, DEFAULTED)
    assert obj["spec"]["size"] == 1
    assert obj["spec"]["free"] is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abcde"), below, max_size=4),
    max_leaves=12,
)
LEAVES = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "default": 3}, KEEPS, {"type": "string", "nullable": True}]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.builds(
            lambda f: {"type": "object", "properties": f}, st.dictionaries(st.sampled_from("abcd"), below, max_size=3)
        ),
        st.builds(lambda v: {"type": "object", "additionalProperties": v}, below),
        st.builds(lambda i: {"type": "array", "items": i}, below),
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.dictionaries(st.sampled_from("abcde"), JSON, max_size=4))
def test_each_step_done_twice_is_done_once(node: Any, obj: Any) -> None:
    for step in (structural.prune, structural.drop_nulls, structural.default):
        step(obj, node)
        once = copy.deepcopy(obj)
        step(obj, node)
        assert obj == once


@given(SCHEMAS, st.dictionaries(st.sampled_from("abcde"), JSON, max_size=4))
def test_what_is_pruned_is_told_and_nothing_else_changes(node: Any, obj: Any) -> None:
    before = copy.deepcopy(obj)
    gone = structural.prune(obj, node)
    assert gone == [] if obj == before else gone
    structural.default(obj, node)
    assert structural.prune(obj, node) == []
