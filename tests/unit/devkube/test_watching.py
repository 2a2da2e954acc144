"""One watch: what it begins with, what it sees, and how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devkube.requests import Event, Stream
from tests.unit.devkube.doubles import Api, waiting


class Watch:
    """A stream read event by event."""

    def __init__(self, stream: Stream) -> None:
        self._events = self._each(stream)

    @staticmethod
    async def _each(stream: Stream) -> AsyncIterator[Event]:
        async for batch in stream:
            for event in batch:
                yield event

    async def next(self, seconds: float = 1) -> tuple[str, str, Any]:
        """Type, name and object."""
        async with asyncio.timeout(seconds):
            event = await anext(self._events)
        obj = json.loads(event.raw)
        return event.type, obj["metadata"].get("name", ""), obj

    async def told(self, count: int, seconds: float = 1) -> list[tuple[str, str]]:
        return [(await self.next(seconds))[:2] for _ in range(count)]

    async def over(self) -> bool:
        async with asyncio.timeout(1):
            return await anext(self._events, None) is None


@pytest.fixture
def api() -> Api:
    return Api()


async def change(api: Api, name: str, **labels: str) -> None:
    patch = {"metadata": {"labels": labels}}
    await api.ask("patch", "configmaps", name, patch, content_type="application/merge-patch+json")


async def watching(api: Api, **query: str) -> Watch:
    return Watch(await api.stream("configmaps", **query))


async def test_without_a_version_it_begins_with_what_is_there(api: Api) -> None:
    await api.create("configmaps", "a")
    watch = await watching(api)
    assert await watch.told(1) == [("ADDED", "a")]
    await api.create("configmaps", "b")
    await change(api, "a", x="1")
    await api.ask("delete", "configmaps", "a")
    assert await watch.told(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_from_a_version_it_sees_what_came_after(api: Api) -> None:
    await api.create("configmaps", "a")
    version = str(api.store.version)
    await api.create("configmaps", "b")
    watch = await watching(api, resourceVersion=version)
    await api.create("configmaps", "c")
    assert await watch.told(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_deletion_has_a_version_of_its_own(api: Api) -> None:
    created = await api.create("configmaps", "a")
    watch = await watching(api, resourceVersion=str(api.store.version))
    await api.ask("delete", "configmaps", "a")
    _, _, last = await watch.next()
    assert int(last["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


async def test_other_namespaces_and_kinds_are_not_its_business(api: Api) -> None:
    watch = Watch(await api.stream("configmaps", resourceVersion=str(api.store.version)))
    await api.create("pods", "p")
    api.store.create(
        "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far", "namespace": "other"}}
    )
    await api.create("configmaps", "near")
    assert await watch.told(1) == [("ADDED", "near")]


async def test_objects_enter_and_leave_a_selection(api: Api) -> None:
    watch = await watching(api, labelSelector="on=yes", resourceVersion=str(api.store.version))
    await api.create("configmaps", "a")
    await change(api, "a", on="yes")
    await change(api, "a", more="1")
    await change(api, "a", on="no")
    left = api.store.version
    await api.ask("delete", "configmaps", "a")
    await api.create("configmaps", "b", metadata={"labels": {"on": "yes"}})
    await api.ask("delete", "configmaps", "b")
    assert await watch.told(2) == [("ADDED", "a"), ("MODIFIED", "a")]
    kind, name, obj = await watch.next()
    assert (kind, name, obj["metadata"]["labels"]["on"]) == ("DELETED", "a", "yes")
    assert obj["metadata"]["resourceVersion"] == str(left)
    assert await watch.told(2) == [("ADDED", "b"), ("DELETED", "b")]


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    await api.create("configmaps", "a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = await watching(api, **query)
    assert await watch.told(1) == [("ADDED", "a")]
    kind, _, obj = await watch.next()
    assert kind == "BOOKMARK"
    assert obj["metadata"] == {
        "resourceVersion": str(api.store.version),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")


async def test_initial_events_can_be_left_out(api: Api) -> None:
    await api.create("configmaps", "a")
    watch = await watching(api, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    reading = asyncio.create_task(watch.told(1))
    await asyncio.sleep(0)
    await api.create("configmaps", "b")
    assert await reading == [("ADDED", "b")]


async def test_too_old_is_one_error(api: Api) -> None:
    api.store.compact()
    watch = await watching(api, resourceVersion="1")
    kind, _, status = await watch.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")
    assert await watch.over()


async def test_falling_behind_history_is_too_old_as_well(api: Api) -> None:
    await api.create("configmaps", "a")
    watch = await watching(api)
    assert await watch.told(1) == [("ADDED", "a")]
    for number in range(12_000):
        meta = {"name": f"n{number}", "namespace": "ns"}
        api.store.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    kind, _, status = await watch.next()
    assert (kind, status["code"]) == ("ERROR", 410)


async def test_bookmarks_come_with_time_and_tell_the_newest_version(api: Api) -> None:
    watch = await watching(api, allowWatchBookmarks="true", resourceVersion=str(api.store.version))
    for _ in range(2):
        reading = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        await api.create("pods", f"p{api.store.version}")
        api.clock.advance(api.verbs.bookmark_seconds)
        kind, _, obj = await reading
        assert (kind, obj["metadata"]["resourceVersion"]) == ("BOOKMARK", str(api.store.version))


async def test_it_ends_at_its_time_with_a_bookmark(api: Api) -> None:
    version = str(api.store.version)
    watch = await watching(api, timeoutSeconds="1", allowWatchBookmarks="true", resourceVersion=version)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await watch.told(1, seconds=3) == [("BOOKMARK", "")]
    assert loop.time() - began >= 1
    assert await watch.over()


async def test_closing_a_watch_leaves_nothing_behind(api: Api) -> None:
    stream = await api.stream("configmaps", resourceVersion=str(api.store.version), allowWatchBookmarks="true")
    reading = asyncio.create_task(anext(aiter(stream)))
    await asyncio.sleep(0)
    assert waiting(api.store) == 1
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await stream.aclose()
    assert waiting(api.store) == 0
