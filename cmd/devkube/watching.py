"""One watch as an async generator of batches of events.

A watch has no queue: it stands at a version of its kind's history and reads on when the kind changes, so that a slow
client costs nothing but the history it has not read. Falling behind what history keeps ends it with 410, as resuming
from too long ago does. Rules: apiserver's storage/cacher (selectors: an object that leaves is DELETED under the
version at which it left; bookmarks every minute and at the end).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from devkube.errors import expired
from devkube.kinds import Resource
from devkube.machinery import Machinery
from devkube.parameters import Read
from devkube.requests import Event, Stream
from devkube.store import Change, Gone, Stored, encode

Predicate = Callable[[Stored], bool]
DEFAULT_TIMEOUT = 2700.0  # seconds; upstream takes 30 to 60 minutes at random
_BATCH = 256  # events in one write at most: others get their turn in between
INITIAL_END = "k8s.io/initial-events-end"


def watch(m: Machinery, resource: Resource, namespace: str, options: Read, predicate: Predicate | None) -> Stream:
    """The events of one kind from the version in `options` on, or what is there and then its changes."""
    return Stream(resource, _Watch(m, resource, namespace, options, predicate).batches())


class _Watch:
    def __init__(
        self, m: Machinery, resource: Resource, namespace: str, options: Read, predicate: Predicate | None
    ) -> None:
        self._m, self._resource, self._namespace, self._options = m, resource, namespace, options
        self._predicate = predicate
        self._waiter: asyncio.Future[None] | None = None
        self._over = self._bookmark_due = False

    async def batches(self) -> AsyncIterator[Sequence[Event]]:
        options, store, key = self._options, self._m.store, self._resource.key
        fresh = options.version in ("", "0")
        position = store.version if fresh or options.initial else int(options.version)
        if not fresh and not options.initial and not store.known(key, position):
            yield [self._gone(position)]
            return
        loop = asyncio.get_running_loop()
        end = loop.call_later(options.timeout or DEFAULT_TIMEOUT, self._finish)
        marks = self._m.clock.call_later(self._m.bookmark_seconds, self._ring) if options.bookmarks else None
        try:
            if options.initial or (fresh and options.initial is None):
                # Taken at once: whatever changes while these are sent comes from history afterwards.
                there = list(store.select(key, self._namespace, self._predicate))
                for start in range(0, len(there), _BATCH):
                    yield [self._added(one) for one in there[start : start + _BATCH]]
                if options.initial and options.bookmarks:
                    yield [self._bookmark(position, initial=True)]
            while True:
                try:
                    changes = store.since(key, position)
                except Gone:
                    yield [self._gone(position)]
                    return
                for start in range(0, len(changes), _BATCH):
                    some = changes[start : start + _BATCH]
                    if events := list(self._seen(some)):
                        yield events
                    position = some[-1].version
                if changes:
                    continue  # more may have come while they were sent
                if self._over:
                    break
                position = max(position, store.version)
                if self._bookmark_due and options.bookmarks:
                    self._bookmark_due = False
                    marks = self._m.clock.call_later(self._m.bookmark_seconds, self._ring)
                    yield [self._bookmark(position)]
                    continue
                self._waiter = store.waiter(key)
                try:
                    await self._waiter
                finally:
                    store.forget(key, self._waiter)
                    self._waiter = None
            if options.bookmarks:
                yield [self._bookmark(position)]
        finally:
            end.cancel()
            if marks is not None:
                marks.cancel()

    def _seen(self, changes: Sequence[Change]) -> Iterator[Event]:
        """The changes as this watch's selectors see them."""
        for change in changes:
            after, before = change.after, change.before
            if self._namespace and after.namespace != self._namespace:
                continue
            shared = change.encoded.setdefault(self._resource.group_version, {})
            if self._predicate is None:
                yield Event(change.type, self._m.view(after, self._resource), shared)
                continue
            now = self._predicate(after)
            was = now if change.type == "DELETED" else before is not None and self._predicate(before)
            if change.type == "DELETED":
                if before is not None and self._predicate(before):
                    yield Event("DELETED", self._m.view(after, self._resource), shared)
            elif now:
                yield Event("MODIFIED" if was else "ADDED", self._m.view(after, self._resource), shared)
            elif was and before is not None:
                # The last state that matched, under the version at which it ceased to.
                yield Event("DELETED", self._left(before, change.version))

    def _left(self, before: Stored, version: int) -> bytes:
        obj = self._m.read(before, self._resource)
        obj["metadata"]["resourceVersion"] = str(version)
        return encode(obj)

    def _added(self, stored: Stored) -> Event:
        return Event("ADDED", self._m.view(stored, self._resource))

    def _bookmark(self, version: int, *, initial: bool = False) -> Event:
        metadata: dict[str, object] = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {INITIAL_END: "true"}
        kind, group_version = self._resource.kind, self._resource.group_version
        return Event("BOOKMARK", encode({"kind": kind, "apiVersion": group_version, "metadata": metadata}))

    def _gone(self, version: int) -> Event:
        told = f"too old resource version: {version} ({self._m.store.version})"
        return Event("ERROR", encode(expired(told).body()))

    def _ring(self) -> None:
        self._bookmark_due = True
        self._wake()

    def _finish(self) -> None:
        self._over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
