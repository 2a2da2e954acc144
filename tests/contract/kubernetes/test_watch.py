"""watch: where it begins, what it tells, how it ends."""

import asyncio
import contextlib
import time

import pytest

from tests.support.kubeobjects import configmap, crd, custom, pod
from tests.support.kubernetes import Client, Cluster, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def label(kube: Client, path: str, value: str) -> None:
    (await kube.merge(path, {"metadata": {"labels": {"l": value}}})).ok(200)


async def test_without_a_version_the_present_comes_first(kube: Client, space: Space) -> None:
    """A synthetic ADDED for each object, then what happens."""
    await kube.create(space.pods, pod("a"))
    await kube.create(space.pods, pod("b"))
    async with kube.watch(space.pods) as watch:
        assert {(one.type, one.name) for one in await watch.take(2)} == {("ADDED", "a"), ("ADDED", "b")}
        await label(kube, f"{space.pods}/a", "1")
        event = await watch.next()
        assert (event.type, event.name, event.object["metadata"]["labels"]) == ("MODIFIED", "a", {"l": "1"})


async def test_from_a_list_s_version_only_what_is_newer(kube: Client, space: Space) -> None:
    """ADDED, MODIFIED, DELETED in order, each with its version; objects carry kind and apiVersion."""
    await kube.create(space.pods, pod("old"))
    async with kube.watch(space.pods, resourceVersion=await kube.version(space.pods)) as watch:
        made = await kube.create(space.pods, pod("new"))
        await label(kube, f"{space.pods}/new", "1")
        (await kube.delete(f"{space.pods}/new", gracePeriodSeconds="0")).ok()
        events = await watch.until(lambda event: event.type == "DELETED")
    # A Pod's deletion is dated before it is done: one more MODIFIED.
    assert [one.type for one in events] in (["ADDED", "MODIFIED", "DELETED"], ["ADDED", *["MODIFIED"] * 2, "DELETED"])
    assert {one.name for one in events} == {"new"}
    assert events[0].object == made
    versions = [int(one.version) for one in events]
    assert versions == sorted(set(versions))


async def test_what_was_missed_is_replayed(kube: Client, space: Space) -> None:
    """Resuming from an event's version gives everything after it, and nothing twice."""
    async with kube.watch(space.pods, resourceVersion=await kube.version(space.pods)) as watch:
        await kube.create(space.pods, pod("a"))
        seen = (await watch.next()).version
    await kube.create(space.pods, pod("b"))
    await label(kube, f"{space.pods}/a", "1")
    async with kube.watch(space.pods, resourceVersion=seen) as watch:
        assert [(one.type, one.name) for one in await watch.take(2)] == [("ADDED", "b"), ("MODIFIED", "a")]


async def test_version_zero_is_any_state_then_what_follows(kube: Client, space: Space) -> None:
    """resourceVersion=0 begins with the cache's content."""
    made = await kube.create(space.pods, pod("a"))

    async def begins_with_it() -> None:
        async with kube.watch(space.pods, resourceVersion="0", timeoutSeconds="2") as watch:
            event = await watch.next()
            assert (event.type, event.version) == ("ADDED", made["metadata"]["resourceVersion"])

    await eventually(begins_with_it)


@pytest.mark.parametrize("spelled", ["1", "true", "True"])
async def test_watch_is_spelled_in_several_ways(kube: Client, space: Space, spelled: str) -> None:
    """Any boolean that Go parses."""
    await kube.create(space.pods, pod("a"))
    async with kube.watch(space.pods, watch=spelled) as watch:
        assert (await watch.next()).type == "ADDED"


async def test_timeout_seconds_ends_it_cleanly(kube: Client, space: Space) -> None:
    """The stream ends; that is no error."""
    started = time.monotonic()
    async with kube.watch(space.pods, timeoutSeconds="1") as watch:
        assert await watch.rest() == []
    assert 0.9 < time.monotonic() - started < 5


async def test_bookmarks_are_told_before_the_end(kube: Client, space: Space) -> None:
    """allowWatchBookmarks with a deadline: a BOOKMARK that carries only a version to resume from."""
    version = await kube.version(space.pods)
    async with kube.watch(space.pods, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds="5") as watch:
        made = await kube.create(space.pods, pod("a"))
        events = await watch.rest()
    assert [one.type for one in events][:2] == ["ADDED", "BOOKMARK"]
    last = events[-1]
    assert (last.object["kind"], last.name) == ("Pod", "")
    assert int(last.version) >= int(made["metadata"]["resourceVersion"])


async def test_without_asking_no_bookmarks_come(kube: Client, space: Space) -> None:
    """Old clients do not know them."""
    async with kube.watch(space.pods, resourceVersion=await kube.version(space.pods), timeoutSeconds="3") as watch:
        assert await watch.rest() == []


async def test_send_initial_events_ends_with_a_marked_bookmark(kube: Client, space: Space) -> None:
    """Streaming lists: ADDED for each, then a BOOKMARK with the annotation k8s.io/initial-events-end."""
    await kube.create(space.pods, pod("a"))
    made = await kube.create(space.pods, pod("b"))
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    async with kube.watch(space.pods, **query) as watch:
        events = await watch.until(lambda event: event.type == "BOOKMARK")
        assert {(one.type, one.name) for one in events[:-1]} == {("ADDED", "a"), ("ADDED", "b")}
        assert events[-1].object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(events[-1].version) >= int(made["metadata"]["resourceVersion"])
        await label(kube, f"{space.pods}/a", "1")
        assert (await watch.next()).type == "MODIFIED"


async def test_send_initial_events_false_skips_the_present(kube: Client, space: Space) -> None:
    """What exists is not told, although no version was given."""
    await kube.create(space.pods, pod("a"))
    query = {"sendInitialEvents": "false", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    async with kube.watch(space.pods, **query) as watch:
        await kube.create(space.pods, pod("b"))
        events = await watch.until(lambda event: event.name == "b")
    assert "a" not in {one.name for one in events}


async def test_send_initial_events_needs_a_match(kube: Client, space: Space) -> None:
    """ValidateListOptions."""
    answer = await kube.get(space.pods, watch="true", sendInitialEvents="true")
    answer.refused(422, "Invalid", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")


async def test_too_old_is_gone(kube: Client, space: Space, cluster: Cluster) -> None:
    """A version before the history: one ERROR event with code 410 and reason Expired, then the end."""
    await kube.create(CRDS, crd(space.group))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {"size": 1})))
    if cluster.devkube is not None:  # others know nothing from before the CRD
        cluster.devkube.expire_history()
    async with kube.watch(path, resourceVersion="1") as watch:
        event = await watch.next()
        assert event.type == "ERROR"
        assert (event.object["code"], event.object["reason"]) == (410, "Expired")
        assert "too old resource version: 1" in event.object["message"]
        assert await watch.rest() == []


@pytest.mark.needs("devkube")
async def test_history_can_be_expired(kube: Client, space: Space, cluster: Cluster) -> None:
    """What a test calls instead of waiting for etcd's compaction; the present can be watched at once."""
    version = await kube.version(space.pods)
    await kube.create(space.pods, pod("a"))
    cluster.devkube.expire_history()
    async with kube.watch(space.pods, resourceVersion=version) as watch:
        event = await watch.next()
        assert (event.type, event.object["code"]) == ("ERROR", 410)
    async with kube.watch(space.pods, resourceVersion=await kube.version(space.pods)) as watch:
        await label(kube, f"{space.pods}/a", "1")
        assert (await watch.next()).type == "MODIFIED"


async def test_leaving_a_selection_is_a_deletion(kube: Client, space: Space) -> None:
    """Entering is ADDED; the DELETED of an object that left carries the new version and the old content."""
    async with kube.watch(space.pods, labelSelector="l=in", resourceVersion=await kube.version(space.pods)) as watch:
        await kube.create(space.pods, pod("a", labels={"l": "out"}))
        await label(kube, f"{space.pods}/a", "in")
        event = await watch.next()
        assert (event.type, event.name) == ("ADDED", "a")
        await label(kube, f"{space.pods}/a", "out")
        left = await watch.next()
        assert left.type == "DELETED"
        assert int(left.version) > int(event.version)
        assert left.object["metadata"]["labels"] == {"l": "in"}
        await label(kube, f"{space.pods}/a", "in")
        assert (await watch.next()).type == "ADDED"


async def test_fields_select_too(kube: Client, space: Space) -> None:
    """status.phase: a Pod that is no longer Pending is DELETED from the watch."""
    async with kube.watch(
        space.pods, fieldSelector="status.phase=Pending", resourceVersion=await kube.version(space.pods)
    ) as watch:
        await kube.create(space.pods, pod("a"))
        (await kube.merge(f"{space.pods}/a/status", {"status": {"phase": "Running"}})).ok(200)
        assert [one.type for one in await watch.take(2)] == ["ADDED", "DELETED"]


async def test_one_object_is_watched_by_its_name(kube: Client, space: Space) -> None:
    """What kubectl wait does."""
    async with kube.watch(
        space.pods, fieldSelector="metadata.name=a", resourceVersion=await kube.version(space.pods)
    ) as watch:
        await kube.create(space.pods, pod("b"))
        await kube.create(space.pods, pod("a"))
        assert (await watch.next()).name == "a"


async def test_a_deletion_has_a_version_of_its_own(kube: Client, space: Space) -> None:
    """Newer than the object's last one, so that a reader can resume after it."""
    made = await kube.create(space.configmaps, configmap("a"))
    seen = made["metadata"]["resourceVersion"]
    async with kube.watch(space.configmaps, resourceVersion=seen, fieldSelector="metadata.name=a") as watch:
        (await kube.delete(f"{space.configmaps}/a")).ok()
        event = await watch.next()
        assert event.type == "DELETED"
        assert int(event.version) > int(seen)


async def test_a_finalizer_s_deletion_is_told_in_steps(kube: Client, space: Space) -> None:
    """MODIFIED with deletionTimestamp, then DELETED."""
    made = await kube.create(space.configmaps, configmap("a", finalizers=["x.io/1"]))
    seen = made["metadata"]["resourceVersion"]
    async with kube.watch(space.configmaps, resourceVersion=seen, fieldSelector="metadata.name=a") as watch:
        (await kube.delete(f"{space.configmaps}/a")).ok()
        (await kube.merge(f"{space.configmaps}/a", {"metadata": {"finalizers": None}})).ok()
        first, second = await watch.take(2)
    assert (first.type, second.type) == ("MODIFIED", "DELETED")
    assert "deletionTimestamp" in first.object["metadata"]


async def test_a_watch_sees_its_namespace_or_all(kube: Client, space: Space) -> None:
    """The same event through both paths."""
    version = await kube.version("/api/v1/pods")
    elsewhere = "/api/v1/namespaces/default/pods"
    async with (
        kube.watch("/api/v1/pods", resourceVersion=version) as everywhere,
        kube.watch(elsewhere, resourceVersion=version, timeoutSeconds="1") as other,
    ):
        made = await kube.create(space.pods, pod("a"))
        events = await everywhere.until(lambda event: event.object["metadata"]["namespace"] == space.name)
        assert events[-1].object == made
        assert await other.rest() == []


async def test_custom_resources_are_watched_alike(kube: Client, space: Space) -> None:
    """A CRD's objects, from the moment it is served."""
    await kube.create(CRDS, crd(space.group))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.read(path))
    async with kube.watch(path, resourceVersion=await kube.version(path)) as watch:
        await eventually(lambda: kube.create(path, custom(space.group, "a", {"size": 1})))
        (await kube.merge(f"{path}/a", {"spec": {"size": 2}})).ok()
        assert [one.type for one in await watch.take(2)] == ["ADDED", "MODIFIED"]


async def test_metadata_alone_can_be_watched(kube: Client, space: Space) -> None:
    """Accept: PartialObjectMetadata, as metadata informers do."""
    await kube.create(space.pods, pod("a"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with kube.watch(space.pods, accept=accept) as watch:
        event = await watch.next()
    assert (event.object["kind"], event.object["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert event.name == "a"
    assert "spec" not in event.object


async def test_tables_can_be_watched(kube: Client, space: Space) -> None:
    """kubectl get --watch: columns with the first event only."""
    await kube.create(space.pods, pod("a"))
    async with kube.watch(space.pods, accept="application/json;as=Table;v=v1;g=meta.k8s.io") as watch:
        first = await watch.next()
        await kube.create(space.pods, pod("b"))
        second = await watch.next()
    assert [column["name"] for column in first.object["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second.object.get("columnDefinitions") in (None, [])
    assert second.object["rows"][0]["cells"][0] == "b"


async def test_a_bad_selector_or_version_is_refused_at_once(kube: Client, cluster: Cluster, space: Space) -> None:
    """An answer, not a stream."""
    assert (await kube.get(space.pods, watch="true", labelSelector="a in (")).status == 400
    cluster.blames_the_client(await kube.get(space.pods, watch="true", resourceVersion="abc"))
    assert (await kube.get(space.pods, watch="true", fieldSelector="nothing=1")).status == 400


async def test_a_hundred_watches_hear_the_same(kube: Client, space: Space) -> None:
    """Each gets every event, in order."""
    version = await kube.version(space.configmaps)
    async with contextlib.AsyncExitStack() as stack:
        watches = [
            await stack.enter_async_context(
                kube.watch(space.configmaps, resourceVersion=version, labelSelector="mine=1")
            )
            for _ in range(100)
        ]
        for name in "abc":
            await kube.create(space.configmaps, configmap(name, labels={"mine": "1"}))
        heard = await asyncio.gather(*(watch.take(3) for watch in watches))
    assert {tuple(one.name for one in events) for events in heard} == {("a", "b", "c")}
