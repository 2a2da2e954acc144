"""create and update: what the server decides, what it refuses, and what races."""

from typing import Any

import pytest

from devkube.errors import StatusError
from devkube.requests import Attributes
from devkube.values import clone
from tests.unit.devkube.doubles import Api, Hooks


@pytest.fixture
def api() -> Api:
    return Api()


async def refused(awaitable: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


async def test_the_server_numbers_and_dates_what_is_created(api: Api) -> None:
    mine = {"uid": "x", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 9, "deletionTimestamp": "x"}
    found = await api.create("widgets", "w", metadata=mine, spec={}, status={"a": 1})
    meta = found["metadata"]
    assert meta["creationTimestamp"] == api.clock.timestamp()
    assert len(meta["uid"]) == 36
    assert (meta["generation"], meta["resourceVersion"]) == (1, str(api.store.version))
    assert "deletionTimestamp" not in meta
    assert "status" not in found
    assert found["spec"] == {"defaulted": True}
    assert meta["managedFields"][0]["operation"] == "Update"


async def test_kinds_that_count_no_generations(api: Api) -> None:
    assert "generation" not in (await api.create("configmaps", "c"))["metadata"]


async def test_nodes_may_bring_their_status(api: Api) -> None:
    assert (await api.create("nodes", "n", status={"a": 1}))["status"] == {"a": 1}


async def test_names_are_generated(api: Api) -> None:
    body = {"metadata": {"generateName": "a-"}}
    found = {(await api.ask("create", "configmaps", body=body))["metadata"]["name"] for _ in range(3)}
    assert len(found) == 3
    assert all(name.startswith("a-") and len(name) == 7 for name in found)


async def test_the_same_name_twice(api: Api) -> None:
    await api.create("widgets", "w", metadata={"finalizers": ["example.com/x"]})
    error = await refused(api.create("widgets", "w"))
    assert (error.code, error.reason, error.message) == (
        409,
        "AlreadyExists",
        'widgets.example.com "w" already exists',
    )
    await api.ask("delete", "widgets", "w")
    assert (await refused(api.create("widgets", "w"))).message.startswith("object is being deleted: ")


async def test_namespaces_must_be_there_and_stay(api: Api) -> None:
    error = await refused(api.ask("create", "configmaps", body={"metadata": {"name": "a"}}, namespace="nowhere"))
    assert (error.code, error.message) == (404, 'namespaces "nowhere" not found')
    await api.ask("delete", "namespaces", "ns")
    error = await refused(api.create("configmaps", "a"))
    assert (error.code, error.causes[0].reason) == (403, "NamespaceTerminating")
    assert "because it is being terminated" in error.message


@pytest.mark.parametrize(
    ("meta", "code", "told"),
    [
        ({"name": "a", "namespace": "other"}, 400, "does not match the namespace sent on the request"),
        ({"name": "a", "resourceVersion": "5"}, 400, "resourceVersion should not be set on objects to be created"),
        ({}, 422, "name or generateName is required"),
        ([], 400, "metadata must be an object, not array"),
    ],
)
async def test_metadata_that_is_wrong(api: Api, meta: Any, code: int, told: str) -> None:
    error = await refused(api.ask("create", "configmaps", body={"metadata": meta}))
    assert error.code == code
    assert told in error.message


async def test_what_validation_finds_is_told(api: Api) -> None:
    error = await refused(api.create("widgets", "w", spec={"bad": 1}))
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == 'Widget.example.com "w" is invalid: spec.bad: Invalid value: it is bad'


async def test_unknown_fields_by_the_client_s_wish(api: Api) -> None:
    body = b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"w"},"unknown":1,"spec":{},"spec":{}}'
    query = {"dryRun": "All"}
    warnings: list[str] = []
    await api.answer("create", "widgets", body=body, query={**query, "fieldValidation": "Ignore"}, warnings=warnings)
    assert warnings == []
    await api.answer("create", "widgets", body=body, query=query, warnings=warnings)
    assert warnings == ['duplicate field "spec"', 'unknown field "unknown"']
    error = await refused(api.ask("create", "widgets", body=body, query={**query, "fieldValidation": "Strict"}))
    assert error.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "spec"'
    )


async def test_a_dry_run_leaves_no_trace(api: Api) -> None:
    before = api.store.version
    found = await api.ask("create", "configmaps", body={"metadata": {"name": "a"}}, query={"dryRun": "All"})
    assert "uid" in found["metadata"]
    assert "resourceVersion" not in found["metadata"]
    assert api.store.version == before


async def put(api: Api, obj: Any, name: str = "w", **more: Any) -> Any:
    return await api.ask("update", "widgets", name, obj, **more)


async def test_an_update_keeps_what_is_the_server_s(api: Api) -> None:
    obj = await api.create("widgets", "w", spec={"a": 1})
    new = {**obj, "spec": {"a": 2}, "status": {"x": 1}}
    new["metadata"] = {"name": "w", "resourceVersion": obj["metadata"]["resourceVersion"], "generation": 7}
    found = await put(api, new)
    assert found["metadata"]["uid"] == obj["metadata"]["uid"]
    assert found["metadata"]["generation"] == 2
    assert "status" not in found


async def test_status_is_written_by_itself(api: Api) -> None:
    obj = await api.create("widgets", "w", spec={"a": 1})
    new = {**obj, "spec": {"a": 2}, "status": {"x": 1}, "metadata": {**obj["metadata"], "labels": {"l": "1"}}}
    found = await put(api, new, subresource="status")
    assert (found["spec"]["a"], found["status"]) == (1, {"x": 1})
    assert "labels" not in found["metadata"]
    assert found["metadata"]["generation"] == 1


async def test_a_stale_version_is_a_conflict(api: Api) -> None:
    obj = await api.create("widgets", "w", spec={"a": 1})
    await put(api, {**obj, "spec": {"a": 2}})
    error = await refused(put(api, {**obj, "spec": {"a": 3}}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in error.message


async def test_custom_objects_must_name_the_version_and_others_need_not(api: Api) -> None:
    obj = await api.create("widgets", "w", spec={})
    del obj["metadata"]["resourceVersion"]
    error = await refused(put(api, obj))
    assert (error.code, error.causes[0].field) == (422, "metadata.resourceVersion")
    await api.create("configmaps", "c")
    assert await api.ask("update", "configmaps", "c", {"metadata": {"name": "c"}, "data": {"a": "b"}})


async def test_another_uid_is_another_object(api: Api) -> None:
    obj = await api.create("widgets", "w")
    obj["metadata"]["uid"] = "other"
    assert "Precondition failed: UID in precondition: other" in (await refused(put(api, obj))).message


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ({"name": "other"}, "the name of the object (other) does not match the name on the URL (w)"),
        ({}, "the name of the object (w based on URL) was undeterminable: name must be provided"),
    ],
)
async def test_the_url_says_the_name(api: Api, meta: dict[str, str], told: str) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}
    error = await refused(put(api, body))
    assert (error.code, error.message) == (400, told)


async def test_what_is_not_there(api: Api) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "resourceVersion": "3"}}
    assert (await refused(put(api, body))).code == 404


async def test_an_update_that_changes_nothing_is_none(api: Api) -> None:
    obj = await api.create("widgets", "w", spec={"a": 1})
    api.clock.advance(60)
    assert (await put(api, obj))["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
    assert api.store.version == int(obj["metadata"]["resourceVersion"])


async def test_the_last_finalizer_s_removal_ends_a_deletion(api: Api) -> None:
    obj = await api.create("widgets", "w", metadata={"finalizers": ["example.com/x"]})
    waiting = await api.ask("delete", "widgets", "w")
    assert waiting["metadata"]["deletionTimestamp"] == api.clock.timestamp()
    waiting["metadata"]["finalizers"] = []
    waiting["metadata"].pop("deletionTimestamp")
    await put(api, waiting)
    assert (await refused(api.ask("get", "widgets", "w"))).code == 404
    assert obj["metadata"]["uid"] == waiting["metadata"]["uid"]


async def test_scale(api: Api) -> None:
    await api.create("widgets", "w", spec={"replicas": 1}, status={})
    found = await api.ask("get", "widgets", "w", subresource="scale")
    assert (found["kind"], found["spec"], found["status"]) == ("Scale", {"replicas": 1}, {"replicas": 0})
    found["spec"]["replicas"] = 5
    assert (await put(api, found, subresource="scale"))["spec"] == {"replicas": 5}
    assert (await api.ask("get", "widgets", "w"))["spec"]["replicas"] == 5
    found["spec"]["replicas"] = -1
    found["metadata"].pop("resourceVersion")
    assert (await refused(put(api, found, subresource="scale"))).code == 422


async def test_webhooks_see_the_object_before_its_uid_and_change_it(api: Api) -> None:
    api.verbs.admission = hooks = Hooks()
    hooks.change = lambda one: {**clone(one.object), "spec": {"from": "hook"}, "unknown": 1}
    found = await api.create("widgets", "w", spec={"a": 1})
    assert found["spec"] == {"from": "hook", "defaulted": True}
    assert "unknown" not in found
    (seen,) = hooks.seen
    assert (seen.operation, seen.name, seen.namespace, seen.old) == ("CREATE", "w", "ns", None)
    assert "uid" not in (seen.object or {})["metadata"]


async def test_a_denial_stops_a_write(api: Api) -> None:
    api.verbs.admission = hooks = Hooks()

    def deny(attributes: Attributes) -> None:
        raise StatusError(403, "Forbidden", "no")

    hooks.check = deny
    assert (await refused(api.create("widgets", "w"))).message == "no"
    assert not list(api.store.select("widgets.example.com"))
