"""delete and deletecollection."""

from typing import Any

import pytest

from devkube.errors import StatusError
from tests.unit.devkube.doubles import Api


@pytest.fixture
def api() -> Api:
    return Api()


async def refused(awaitable: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


async def there(api: Api, plural: str, name: str) -> bool:
    try:
        await api.ask("get", plural, name)
    except StatusError as error:
        if error.code == 404:
            return False
        raise
    return True


async def test_a_deletion_is_answered_by_a_status_or_the_object(api: Api) -> None:
    made = await api.create("widgets", "w")
    found = await api.ask("delete", "widgets", "w")
    assert (found["kind"], found["status"]) == ("Status", "Success")
    assert found["details"] == {
        "name": "w",
        "group": "example.com",
        "kind": "widgets",
        "uid": made["metadata"]["uid"],
    }
    await api.create("pods", "p")
    assert (await api.ask("delete", "pods", "p"))["kind"] == "Pod"
    assert not await there(api, "pods", "p")


async def test_preconditions(api: Api) -> None:
    made = (await api.create("widgets", "w"))["metadata"]
    for conditions, told in (
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ):
        error = await refused(api.ask("delete", "widgets", "w", {"preconditions": conditions}))
        assert error.code == 409
        assert told in error.message
    conditions = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert await api.ask("delete", "widgets", "w", {"preconditions": conditions})


async def test_a_dry_run_deletes_nothing(api: Api) -> None:
    await api.create("widgets", "w")
    assert (await api.ask("delete", "widgets", "w", query={"dryRun": "All"}))["status"] == "Success"
    assert await there(api, "widgets", "w")


async def test_finalizers_hold_an_object_and_a_second_deletion_changes_nothing(api: Api) -> None:
    await api.create("widgets", "w", metadata={"finalizers": ["example.com/x"]})
    first = await api.ask("delete", "widgets", "w")
    assert first["metadata"]["deletionTimestamp"] == api.clock.timestamp()
    assert first["metadata"]["deletionGracePeriodSeconds"] == 0
    assert first["metadata"]["generation"] == 2
    api.clock.advance(60)
    assert await api.ask("delete", "widgets", "w") == first


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
async def test_propagation_is_a_finalizer_for_the_collector(api: Api, policy: str, finalizer: str) -> None:
    await api.create("widgets", "w")
    found = await api.ask("delete", "widgets", "w", {"propagationPolicy": policy})
    assert found["metadata"]["finalizers"] == [finalizer]
    again = await api.ask("delete", "widgets", "w", {"propagationPolicy": "Background"})
    assert again["status"] == "Success"


async def pod(api: Api, name: str, **spec: Any) -> Any:
    return await api.create("pods", name, spec={"nodeName": "n", "terminationGracePeriodSeconds": 20, **spec})


async def test_a_pod_on_a_node_has_its_grace(api: Api) -> None:
    await pod(api, "p")
    found = (await api.ask("delete", "pods", "p"))["metadata"]
    assert found["deletionGracePeriodSeconds"] == 20
    assert found["deletionTimestamp"] == api.clock.after(20)
    longer = (await api.ask("delete", "pods", "p", {"gracePeriodSeconds": 60}))["metadata"]
    assert longer == found
    shorter = (await api.ask("delete", "pods", "p", {"gracePeriodSeconds": 5}))["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["deletionTimestamp"]) == (5, api.clock.after(5))
    assert await there(api, "pods", "p")
    await api.ask("delete", "pods", "p", {"gracePeriodSeconds": 0})
    assert not await there(api, "pods", "p")


async def test_a_pod_that_nobody_runs_goes_at_once(api: Api) -> None:
    await pod(api, "pending", nodeName="")
    await api.ask("delete", "pods", "pending")
    assert not await there(api, "pods", "pending")
    await pod(api, "done")
    await api.ask("patch", "pods", "done", {"status": {"phase": "Failed"}}, subresource="status", content_type=MERGE)
    await api.ask("delete", "pods", "done")
    assert not await there(api, "pods", "done")


MERGE = "application/merge-patch+json"


async def test_a_pod_with_a_finalizer_waits_for_it_too(api: Api) -> None:
    await api.create("pods", "p", metadata={"finalizers": ["example.com/x"]}, spec={"nodeName": "n"})
    await api.ask("delete", "pods", "p")
    held = await api.ask("delete", "pods", "p", {"gracePeriodSeconds": 0})
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.ask("patch", "pods", "p", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert not await there(api, "pods", "p")


async def test_a_namespace_terminates(api: Api) -> None:
    found = await api.ask("delete", "namespaces", "ns")
    assert found["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in found["metadata"]
    found["spec"]["finalizers"] = []
    await api.ask("update", "namespaces", "ns", found, subresource="finalize")
    assert not await there(api, "namespaces", "ns")


async def test_some_namespaces_stay(api: Api) -> None:
    api.store.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    error = await refused(api.ask("delete", "namespaces", "default"))
    assert (error.code, error.message) == (403, 'namespaces "default" is forbidden: this namespace may not be deleted')


async def test_collections_by_selector(api: Api) -> None:
    for name in "abc":
        await api.create("configmaps", name, metadata={"labels": {"l": name}})
    found = await api.ask("deletecollection", "configmaps", query={"labelSelector": "l!=b"})
    assert [one["metadata"]["name"] for one in found["items"]] == ["a", "c"]
    assert [await there(api, "configmaps", name) for name in "abc"] == [False, True, False]
