"""Whatever the patch: an object or a StatusError below 500 comes out, and nothing that went in has changed."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from devkube.apply import apply
from devkube.builtin.document import schema_of
from devkube.errors import StatusError
from devkube.managedfields import Author, track_update
from devkube.patches import json_patch, merge_patch
from devkube.schema import Schema
from devkube.strategic import strategic_merge

POD = schema_of("", "v1", "Pod")
OPEN = Schema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {})
T = "2026-11-30T12:00:01Z"
CONTAINER = {
    "name": "a",
    "image": "i",
    "args": ["x"],
    "env": [{"name": "a", "value": "1"}],
    "ports": [{"containerPort": 1, "protocol": "TCP"}],
}
DOC: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["a", "b"]},
    "spec": {"containers": [CONTAINER], "volumes": [{"name": "a", "emptyDir": {}}], "tolerations": []},
}
TRACKED = copy.deepcopy(DOC)
track_update(TRACKED, None, Author("m", POD, "v1", T))

# Names and values that mean something to a patch, so that random ones get further than the first check.
words = st.sampled_from(["a", "b", "metadata", "spec", "containers", "volumes", "finalizers", "labels", "name", "env"])
directives = st.sampled_from(
    ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"]
)
keys = words | directives | st.sampled_from(["managedFields", "$setElementOrder/finalizers", "emptyDir", "ports", ""])
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.sampled_from(["replace", "delete", "<é\u2028"])
)
values = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=4), max_leaves=12
)
containers = st.lists(
    st.fixed_dictionaries({}, optional={"name": words, "$patch": words, "env": values, "image": values}) | values,
    max_size=3,
)
spec = st.fixed_dictionaries({}, optional={"containers": containers, "volumes": values, "$patch": scalars, "x": values})
likely = st.fixed_dictionaries({}, optional={"spec": spec, "metadata": values, "apiVersion": scalars, "kind": scalars})
pointers = st.lists(words | st.sampled_from(["0", "-", "-1", "~0", "~2", "99"]), max_size=4).map(
    lambda p: "".join(f"/{t}" for t in p)
)
verbs = st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "turn"])
operation = st.fixed_dictionaries({"op": verbs, "path": pointers}, optional={"from": pointers, "value": values})
operations = st.lists(operation | values, max_size=5)


def survives(function: Callable[[], Any], *inputs: Any) -> None:
    before = copy.deepcopy(inputs)
    try:
        assert isinstance(function(), dict)
    except StatusError as why:
        if not 400 <= why.code < 500:
            raise
    assert repr(inputs) == repr(before)


@settings(max_examples=100)
@given(operations | values)
def test_json_patches(ops: Any) -> None:
    survives(lambda: json_patch(DOC, ops), DOC, ops)


@settings(max_examples=100)
@given(likely | values)
def test_merge_patches(patch: Any) -> None:
    survives(lambda: merge_patch(DOC, patch), DOC, patch)


@settings(max_examples=150)
@given(likely | values)
def test_strategic_merge_patches(patch: Any) -> None:
    survives(lambda: strategic_merge(DOC, patch, POD), DOC, patch)


@settings(max_examples=100)
@given(likely, st.booleans(), st.sampled_from([None, DOC, TRACKED]), st.sampled_from([POD, OPEN]))
def test_applied_configurations(config: Any, force: bool, live: Any, schema: Schema) -> None:
    # Who calls has seen to these.
    meta = config.get("metadata")
    meta = {**meta, "name": "p"} if isinstance(meta, dict) else {"name": "p"}
    config = {**config, "apiVersion": "v1", "kind": "Pod", "metadata": meta}
    author = Author("kubectl", schema, "v1", T)
    survives(lambda: apply(live, config, author, force=force), live, config)


@settings(max_examples=100)
@given(
    values, st.dictionaries(keys, values, max_size=3), st.sampled_from([None, TRACKED]), st.sampled_from([POD, OPEN])
)
def test_updates_of_any_shape(entries: Any, body: Any, old: Any, schema: Schema) -> None:
    new = {**copy.deepcopy(TRACKED), "spec": body, "metadata": {"name": "p", "managedFields": entries}}

    def tracked() -> Any:
        track_update(new, old, Author("x", schema, "v1", T))
        return new

    survives(tracked, old)
    assert new["spec"] is body
    assert all(one["fieldsType"] == "FieldsV1" for one in new["metadata"].get("managedFields", []))


def test_names_of_items_without_end() -> None:
    fields = {'k:{"a":' + "[" * 900 + "]" * 900 + "}": {}}
    one = TRACKED["metadata"]["managedFields"][0] | {"manager": "deep", "fieldsV1": fields}
    new = {**DOC, "metadata": {"name": "p", "managedFields": [one]}}
    track_update(new, TRACKED, Author("x", POD, "v1", T))
    assert [one["manager"] for one in new["metadata"]["managedFields"]] == ["m"]
