"""One watch as an async generator of batches of events.

A watch has no queue: it stands at a version of its kind's history and reads on when the kind changes, so that a slow
client costs nothing but the history it has not read. Falling behind what history keeps ends it with 410, as resuming
from too long ago does. Rules: apiserver's storage/cacher (selectors: an object that leaves is DELETED under the
version at which it left; bookmarks every minute and at the end).
"""

import asyncio
from typing import Any, Final

from devkube.errors import expired
from devkube.kinds import Resource
from devkube.machinery import Machinery
from devkube.parameters import Read
from devkube.requests import Event, Stream
from devkube.store import Change, Gone, encode

DEFAULT_TIMEOUT: Final = 2700.0  # seconds; upstream takes 30 to 60 minutes at random
INITIAL_END: Final = "k8s.io/initial-events-end"
_BATCH: Final = 256  # events in one write at most: others get their turn in between


async def watch(m: Machinery, resource: Resource, namespace: str, options: Read) -> Stream:
    """The events of one kind from the version in `options` on, or what is there and then its changes."""
    store, key = m.store, resource.key
    fresh = options.version in ("", "0")
    position = store.version if fresh or options.initial else int(options.version)
    waiter: asyncio.Future[None] | None = None
    rung = set[str]()

    def ring(what: str) -> None:
        rung.add(what)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def bookmark(**more: Any) -> Event:
        metadata = {"resourceVersion": str(position), **more}
        obj = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
        return Event("BOOKMARK", encode(obj))

    timeout = asyncio.get_running_loop().call_later(options.timeout or DEFAULT_TIMEOUT, ring, "end")
    marks = m.clock.call_later(m.bookmark_seconds, lambda: ring("mark"))
    try:
        if options.initial or (fresh and options.initial is None):
            # Taken at once: whatever changes while these are sent comes from history afterwards.
            there = list(store.select(key, namespace, options.predicate))
            for start in range(0, len(there), _BATCH):
                yield [Event("ADDED", m.view(one, resource)) for one in there[start : start + _BATCH]]
            if options.initial and options.bookmarks:
                yield [bookmark(annotations={INITIAL_END: "true"})]
        elif not store.known(key, position):
            raise Gone(position)
        while True:
            changes = store.since(key, position)
            for start in range(0, len(changes), _BATCH):
                chunk = changes[start : start + _BATCH]
                seen = (_seen(m, change, resource, namespace, options) for change in chunk)
                if events := [event for event in seen if event is not None]:
                    yield events
                position = chunk[-1].version
            if changes:
                continue  # more may have come while they were sent
            position = max(position, store.version)
            if rung and options.bookmarks:
                yield [bookmark()]
            if "end" in rung:
                return
            if rung:
                rung.clear()
                marks = m.clock.call_later(m.bookmark_seconds, lambda: ring("mark"))
                continue
            waiter = store.waiter(key)
            try:
                await waiter
            finally:
                store.forget(key, waiter)
    except Gone:
        told = f"too old resource version: {position} ({store.version})"
        yield [Event("ERROR", encode(expired(told).body()))]
    finally:
        timeout.cancel()
        marks.cancel()


def _seen(m: Machinery, change: Change, resource: Resource, namespace: str, options: Read) -> Event | None:
    """The change as this watch's selectors see it."""
    before, after = change.before, change.after
    if namespace and after.namespace != namespace:
        return None
    was = before is not None and (options.predicate is None or options.predicate(before))
    is_ = change.type != "DELETED" and (options.predicate is None or options.predicate(after))
    if is_:
        return Event("MODIFIED" if was else "ADDED", m.view(after, resource))
    if before is None or not was:
        return None
    if change.type == "DELETED":
        return Event("DELETED", m.view(after, resource))
    # The last state that matched, under the version at which it ceased to.
    obj = m.read(before, resource)
    obj["metadata"]["resourceVersion"] = str(change.version)
    return Event("DELETED", encode(obj))
