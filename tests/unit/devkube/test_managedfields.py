"""managedFields through creates and updates. Shapes are those of a real 1.36 server's answers."""

import copy
from typing import Any

import pytest

from devkube.builtin.document import schema_of
from devkube.managedfields import Author, track_update
from devkube.schema import Schema

POD = schema_of("", "v1", "Pod")
NODE = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
THING = Schema(NODE, NODE)
T1, T2, T3 = (f"2026-11-30T12:00:0{n}Z" for n in (1, 2, 3))
Object = dict[str, Any]


def thing(labels: Any = None, **spec: Any) -> Object:
    meta = {"name": "t", "namespace": "d", "uid": "u", **({"labels": labels} if labels else {})}
    return {"apiVersion": "g.io/v1", "kind": "Thing", "metadata": meta, "spec": spec}


def tracked(new: Object, old: Object | None = None, manager: str = "m", now: str = T1, **more: Any) -> Object:
    kept = copy.deepcopy(old)
    new = copy.deepcopy(new)
    if old and "managedFields" in old["metadata"]:
        new["metadata"].setdefault("managedFields", old["metadata"]["managedFields"])
    track_update(
        new, old, Author(**{"manager": manager, "now": now, "schema": THING, "group_version": "g.io/v1", **more})
    )
    assert old == kept
    return new


def owned(obj: Object) -> dict[str, Any]:
    return {one["manager"]: one["fieldsV1"] for one in obj["metadata"].get("managedFields", [])}


def times(obj: Object) -> dict[str, str]:
    return {one["manager"]: one["time"] for one in obj["metadata"]["managedFields"]}


def test_a_created_custom_object_belongs_to_its_creator() -> None:
    created = tracked(thing({"a": "1"}, size=3))
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "g.io/v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {".": {}, "f:size": {}},
            },
        }
    ]


def test_who_writes_a_field_takes_it() -> None:
    live = tracked(thing(size=3, color="red"))
    live = tracked(thing(size=4, color="red"), live, "other", T2)
    assert owned(live) == {"m": {"f:spec": {".": {}, "f:color": {}}}, "other": {"f:spec": {"f:size": {}}}}
    assert times(live) == {"m": T1, "other": T2}
    live = tracked(thing(size=4, color="blue"), live, "other", T3)
    assert owned(live) == {"m": {"f:spec": {}}, "other": {"f:spec": {"f:size": {}, "f:color": {}}}}


def test_who_removes_a_field_gains_nothing() -> None:
    live = tracked(thing(size=3, color="red"))
    live = tracked(thing(color="red"), live, "other", T2)
    assert owned(live) == {"m": {"f:spec": {".": {}, "f:color": {}}}}
    assert times(live) == {"m": T1}


def test_a_write_that_changes_nothing_leaves_no_trace() -> None:
    live = tracked(thing(size=3))
    assert tracked(thing(size=3), live, "other", T2) == live


def test_who_has_nothing_left_is_gone() -> None:
    live = tracked({**thing(), "metadata": {"name": "t", "labels": {"a": "1"}}, "spec": {}})
    live = tracked(thing({"a": "1"}, size=1), live, "other", T2)
    gone = {**live, "metadata": {"name": "t", "managedFields": live["metadata"]["managedFields"]}}
    del gone["spec"]
    assert "managedFields" not in tracked(gone, live, "third", T3)["metadata"]


def test_the_status_is_another_entry() -> None:
    new = {**thing(size=3), "status": {"ready": True}}
    live = tracked(thing(size=3))
    live = tracked(new, live, "m", T2, subresource="status")
    assert [(one.get("subresource"), one["fieldsV1"]) for one in live["metadata"]["managedFields"]] == [
        (None, {"f:spec": {".": {}, "f:size": {}}}),
        ("status", {"f:status": {".": {}, "f:ready": {}}}),
    ]


def test_clients_may_replace_or_drop_managed_fields() -> None:
    live = tracked(thing(size=3))
    sent = {
        "manager": "csa",
        "operation": "Apply",
        "apiVersion": "g.io/v1",
        "time": "2026-11-30T13:00:00+01:00",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:size": {}}},
    }
    new = thing(size=3)
    new["metadata"]["managedFields"] = [sent]
    assert tracked(new, live)["metadata"]["managedFields"] == [{**sent, "time": "2026-11-30T12:00:00Z"}]
    for reset in ([], [{}]):
        new["metadata"]["managedFields"] = reset
        dropped = tracked(new, live)
        assert "managedFields" not in dropped["metadata"]
        assert "managedFields" not in tracked(thing(size=4), dropped)["metadata"]  # until somebody applies


@pytest.mark.parametrize(
    "broken",
    [
        {"operation": "Delete"},
        {"apiVersion": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"f:spec": 1}},
        {"time": "yesterday"},
        {"time": "0001-01-01T00:00:00+23:00"},
        {"manager": 5},
        5,
    ],
)
def test_malformed_managed_fields_are_those_of_the_live_object(broken: Any) -> None:
    live = tracked(thing(size=3))
    entry = live["metadata"]["managedFields"][0]
    new = thing(size=3)
    new["metadata"]["managedFields"] = [{**entry, "manager": "x", **broken} if isinstance(broken, dict) else broken]
    assert tracked(new, live) == live
    assert tracked({**new, "spec": {"size": 4}}, live, subresource="scale")["metadata"]["managedFields"][0] != entry


def test_items_that_cannot_be_named_end_the_tracking() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    live = tracked(pod, schema=POD, group_version="v1")
    broken = {**pod, "spec": {"containers": [{"image": "i"}]}}
    assert "managedFields" not in tracked(broken, live, schema=POD, group_version="v1")["metadata"]
