"""Server-side apply. The property tests' generator is the one that found no difference to upstream's field manager."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkube.apply import LAST_APPLIED, apply
from devkube.builtin.document import schema_of
from devkube.errors import StatusError
from devkube.managedfields import Author, track_update
from devkube.schema import Schema

TEXT = {"type": "string"}
ITEM = {"type": "object", "properties": {"k": TEXT, "p": {**TEXT, "default": "TCP"}, "v": TEXT}}
SPEC = {
    "base": TEXT,
    "s": TEXT,
    "n": {"type": "integer"},
    "b": {"type": "boolean"},
    "m": {"type": "object", "additionalProperties": TEXT},
    "am": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
    "st": {"type": "object", "properties": {"x": TEXT, "y": {"type": "object", "properties": {"z": TEXT}}}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "al": {"type": "array", "items": TEXT},
    "lm": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k", "p"],
        "items": ITEM,
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
STATUS = {"type": "object", "properties": {"a": TEXT}}
NODE = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}, "status": STATUS}}
SCHEMA = Schema(NODE, NODE)
T1, T2 = "2026-11-30T12:00:01Z", "2026-11-30T12:00:02Z"
Object = dict[str, Any]


def thing(meta: Object | None = None, **spec: Any) -> Object:
    return {"apiVersion": "g.io/v1", "kind": "Thing", "metadata": {"name": "t", **(meta or {})}, "spec": spec}


NOTHING = {key: value for key, value in thing().items() if key != "spec"}


def applied(live: Object | None, config: Any, manager: str = "m", force: bool = False, **more: Any) -> Object:
    kept = copy.deepcopy((live, config))
    author = Author(**{"manager": manager, "schema": SCHEMA, "now": T1, "group_version": "g.io/v1", **more})
    found = apply(live, config, author, force=force)
    assert (live, config) == kept
    return found


def updated(live: Object, new: Object, manager: str = "u", **more: Any) -> Object:
    new = copy.deepcopy(new)
    track_update(
        new, live, Author(**{"manager": manager, "schema": SCHEMA, "now": T1, "group_version": "g.io/v1", **more})
    )
    return new


def bare(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def owned(obj: Object) -> dict[tuple[str, str], Any]:
    entries = obj["metadata"].get("managedFields", [])
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in entries}


def refused(*args: Any, **more: Any) -> StatusError:
    with pytest.raises(StatusError) as found:
        applied(*args, **more)
    return found.value


def test_a_first_apply_creates() -> None:
    found = applied(None, thing({"labels": {"a": "1"}, "creationTimestamp": None}, s="x", lm=[{"k": "a", "v": "1"}]))
    assert bare(found) == thing({"labels": {"a": "1"}}, s="x", lm=[{"k": "a", "v": "1"}])
    item = {".": {}, "f:k": {}, "f:v": {}}
    assert found["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": "g.io/v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:s": {}, "f:lm": {'k:{"k":"a","p":"TCP"}': item}},
            },
        }
    ]


def test_what_is_no_longer_applied_is_removed_unless_somebody_else_owns_it() -> None:
    live = applied(
        None, thing({"labels": {"a": "1", "b": "2"}}, s="x", n=1, set=["p", "q"], lm=[{"k": "a"}, {"k": "b"}])
    )
    live = applied(live, thing({"labels": {"b": "2"}}, set=["q", "r"], lm=[{"k": "b", "v": "1"}]), "other")
    live = applied(live, NOTHING)
    assert bare(live) == thing({"labels": {"b": "2"}}, set=["q", "r"], lm=[{"k": "b", "v": "1"}])
    assert list(owned(live)) == [("other", "Apply")]


def test_lists_keep_the_order_of_the_configuration() -> None:
    live = updated(thing(set=["a", "b", "c"]), thing(set=["a", "b", "c"]))
    assert applied(live, thing(set=["c", "x", "a"]))["spec"]["set"] == ["b", "c", "x", "a"]


def test_conflicts_are_named() -> None:
    live = applied(None, thing(s="x", n=1), "one")
    live = updated(live, {**live, "spec": {"s": "x", "n": 2}})
    why = refused(live, thing(s="y", n=3))
    assert (why.code, why.reason) == (409, "Conflict")
    assert why.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.s\nconflicts with "u" using g.io/v1:\n- .spec.n'
    )
    assert [(one.reason, one.message, one.field) for one in why.causes] == [
        ("FieldManagerConflict", 'conflict with "one"', ".spec.s"),
        ("FieldManagerConflict", 'conflict with "u" using g.io/v1', ".spec.n"),
    ]
    live = updated(live, {**live, "status": {"a": "1"}}, subresource="status")
    single = refused(live, {**thing(), "status": {"a": "2"}})
    told = 'Apply failed with 1 conflict: conflict with "u" with subresource "status" using g.io/v1: .status.a'
    assert single.message == told


def test_force_takes_the_fields() -> None:
    live = applied(None, thing(s="x", n=1), "one")
    live = applied(live, thing(s="y"), "two", force=True)
    assert live["spec"] == {"s": "y", "n": 1}
    assert owned(live) == {("one", "Apply"): {"f:spec": {"f:n": {}}}, ("two", "Apply"): {"f:spec": {"f:s": {}}}}


def test_equal_values_are_shared() -> None:
    live = applied(None, thing(s="x"), "one")
    assert applied(live, thing(s="x"), "one") == live
    shared = applied(live, thing(s="x"), "two", now=T2)
    assert [one["manager"] for one in shared["metadata"]["managedFields"]] == ["two", "one"]
    assert applied(shared, thing(), "one")["spec"] == {"s": "x"}


def test_objects_from_before_the_first_apply() -> None:
    live = thing({"uid": "u", "labels": {"a": "1"}}, s="x")
    found = applied(live, thing(n=1))
    assert owned(found)[("before-first-apply", "Update")] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:s": {}},
    }
    assert refused(live, thing(s="y")).message.startswith(
        'Apply failed with 1 conflict: conflict with "before-first-apply" using g.io/v1: .spec.s'
    )


def test_kubectl_goes_on_from_client_side_apply() -> None:
    last = thing(s="x", n=1)
    live = thing({"uid": "u", "annotations": {LAST_APPLIED: json.dumps(last)}}, s="x", n=2)
    track_update(live, None, Author("kubectl-client-side-apply", SCHEMA, "g.io/v1", T1))
    found = applied(live, thing(s="y"), "kubectl")
    assert found["spec"] == {"s": "y", "n": 2}
    assert found["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"g.io/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"s":"y"}}\n'
    )
    assert refused(live, thing(s="y"), "somebody").code == 409
    assert [one.field for one in refused(live, thing(s="y", n=5), "kubectl").causes] == [".spec.n"]


def test_nulls() -> None:
    live = applied(None, thing(m={"a": "1"}, s="x"), "one")
    found = applied(live, thing({"labels": None}, m=None, st=None), "two")
    assert found["spec"] == {"m": {"a": "1"}, "s": "x", "st": None}
    assert owned(found)[("two", "Apply")] == {"f:spec": {"f:m": {}, "f:st": {}}}


def test_go_writes_no_empty_maps_of_builtin_types() -> None:
    options = {"schema": schema_of("", "v1", "ConfigMap"), "group_version": "v1"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"a": "1"}}}
    live = applied(None, {**config, "data": {"a": "1"}}, **options)
    left = applied(live, {**config, "metadata": {"name": "c"}}, **options)
    assert left == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert applied(applied(None, thing(m={"a": "1"})), thing())["spec"] == {}


def test_ports_of_a_pod_are_known_by_number_and_defaulted_protocol() -> None:
    options = {"schema": schema_of("", "v1", "Pod"), "group_version": "v1"}

    def pod(*ports: Object) -> Object:
        spec = {"containers": [{"name": "c", "ports": [*ports]}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    live = applied(None, pod({"containerPort": 80}), **options)
    live["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"  # as defaulting does
    again = applied(live, pod({"containerPort": 80, "name": "web"}), **options)
    assert again["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "web"}]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (thing(set=["a", "a"]), 'duplicate entries for key [="a"]'),
        (thing(set=[None]), "associative list without keys has an element that's an explicit null"),
        (thing(lm=[{"k": "a"}, {"k": "a", "p": "TCP"}]), 'duplicate entries for key [k="a",p="TCP"]'),
        (thing(lm=["x"]), "associative list with keys may not have non-map element"),
        (thing({"managedFields": []}), "metadata.managedFields must be nil"),
    ],
)
def test_what_does_not_fit_is_a_400(config: Any, why: str) -> None:
    error = refused(None, config)
    assert (error.code, error.reason) == (400, "BadRequest")
    assert why in error.message


texts = st.sampled_from("xyz")
# An empty list is owned by nobody and an empty map by itself, so that neither comes and goes with its manager.
maps = st.dictionaries(st.sampled_from("abc"), texts, min_size=1, max_size=3)
item = st.fixed_dictionaries({"k": st.sampled_from("ab")}, optional={"p": st.sampled_from(["TCP", "UDP"]), "v": texts})
frees = st.recursive(texts | st.booleans(), lambda below: st.dictionaries(st.sampled_from("ab"), below, max_size=2))
specs = st.fixed_dictionaries(
    {"base": st.just("x")},
    optional={
        "s": texts,
        "n": st.integers(0, 2),
        "m": maps,
        "am": maps,
        "st": st.fixed_dictionaries({}, optional={"x": texts, "y": st.fixed_dictionaries({}, optional={"z": texts})}),
        "set": st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
        "al": st.lists(texts, min_size=1, max_size=2),
        "lm": st.lists(item, min_size=1, max_size=3, unique_by=lambda one: (one["k"], one.get("p", "TCP"))),
        "free": st.dictionaries(st.sampled_from("ab"), frees, max_size=2),
    },
)


def without_empties(value: Any) -> Any:
    """Removal leaves empty maps and lists behind, which a fresh object has not."""
    if isinstance(value, dict):
        kept = {key: without_empties(below) for key, below in value.items()}
        return {key: below for key, below in kept.items() if below not in ({}, [])}
    return [without_empties(below) for below in value] if isinstance(value, list) else value


@settings(max_examples=60)
@given(specs, specs)
def test_the_only_manager_gets_what_it_says(first: Object, second: Object) -> None:
    live = applied(applied(None, thing(**first)), thing(**second))
    fresh = applied(None, thing(**second))
    assert without_empties(bare(live)) == without_empties(bare(fresh))
    assert owned(live) == owned(fresh)
    assert applied(live, thing(**second)) == live


@settings(max_examples=60)
@given(specs, specs, st.booleans())
def test_two_managers(first: Object, second: Object, force: bool) -> None:
    live = applied(None, thing(**first), "one")
    if not force:
        with suppress(StatusError):
            live = applied(live, thing(**second), "two")
    else:
        live = applied(live, thing(**second), "two", force=True)
    # Who leaves takes along only what is its own: the other's configuration stands as it was.
    left = applied(live, NOTHING, "one")
    if ("two", "Apply") in owned(left):
        assert applied(left, thing(**second), "two") == left
    else:
        assert left == NOTHING
