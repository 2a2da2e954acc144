"""Objects of all kinds in memory, one counter of versions, and per kind the history that watches resume from.

An object is held as the bytes of its JSON (a Pod of 9 KB costs ten times as much as a dict); what selectors, paging
and garbage collection ask for stands beside the bytes. The bytes always begin with apiVersion and kind, so that
another served version of the same object is another beginning (`Stored.body`).

Everything is synchronous: a write that returned is visible, in history, and its watchers are about to wake. What it is
not for: rules of any kind. `verbs` decides what may be written.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from devkube.kinds import Object
from devkube.stored import NOTHING, Change, Gone, Lost, Stored, beginning, encode, load, stored_from

__all__ = ["Change", "Gone", "Lost", "Store", "Stored", "beginning", "encode", "load"]

_LOG_BYTES = 64 * 1024 * 1024  # of one kind's history, besides the limit of its length
_FRESH = 128  # changes whose encoded forms are kept: watchers that keep up share one encoding


class _Kind:
    """The objects of one storage key and their history."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.order: list[tuple[str, str]] | None = []  # sorted keys; None: to be sorted again
        self.log: list[Change] = []
        self.size = 0  # bytes of the log
        self.dropped = 0  # the version of the last change that the log forgot
        self.floor = 0  # a list or watch may go on from here; more than `dropped` after `compact`
        self.version = 0  # of the last change
        self.waiters: set[asyncio.Future[None]] = set()

    def keys(self) -> list[tuple[str, str]]:
        if self.order is None:
            self.order = sorted(self.objects)
        return self.order


class Store:
    """`fields(key, obj)` tells which values field selectors will want of an object."""

    def __init__(
        self, fields: Callable[[str, Object], Mapping[str, str]] | None = None, *, limit: int = 10_000
    ) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._fields = fields or (lambda key, obj: NOTHING)
        self._limit = limit
        self._listeners: list[Callable[[Change], None]] = []
        self._floor = 0  # of kinds that nobody wrote or read yet
        self.version = 1

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call it after each write, synchronously; it must not write."""
        self._listeners.append(listener)

    def get(self, key: str, namespace: str, name: str) -> Stored | None:
        return self._kind(key).objects.get((namespace, name))

    def count(self, key: str) -> int:
        return len(self._kind(key).objects)

    def version_of(self, key: str) -> int:
        """The version of this kind's last change: what somebody computed from the kind is good until it moves."""
        return self._kind(key).version

    def kinds(self) -> tuple[str, ...]:
        """The keys of kinds that have objects."""
        return tuple(key for key, kind in self._kinds.items() if kind.objects)

    def select(
        self,
        key: str,
        namespace: str = "",
        predicate: Callable[[Stored], bool] | None = None,
        *,
        after: tuple[str, str] | None = None,
        at: int | None = None,
    ) -> Iterator[Stored]:
        """In order of namespace and name; `after` a (namespace, name); `at` the version they had then (or Gone)."""
        kind = self._kind(key)
        objects, keys = kind.objects, kind.keys()
        if at is not None and at < kind.version:
            objects = self._as_of(kind, at)
            keys = sorted(objects)
        for one in keys[bisect_right(keys, after) if after else 0 :]:
            stored = objects.get(one)
            if stored and (not namespace or one[0] == namespace) and (predicate is None or predicate(stored)):
                yield stored

    def create(self, key: str, obj: Object) -> Stored:
        """Lost when there is one of this name."""
        stored = self._stored(key, obj)
        kind = self._kind(key)
        if found := kind.objects.get((stored.namespace, stored.name)):
            raise Lost(found)
        kind.order = None
        return self._commit(kind, Change(stored.version, "ADDED", None, stored))

    def replace(self, key: str, obj: Object, expected: int) -> Stored:
        """Lost unless the version found is the one expected."""
        meta = obj["metadata"]
        kind, before = self._expect(key, meta.get("namespace") or "", meta["name"], expected)
        stored = self._stored(key, obj)
        return self._commit(kind, Change(stored.version, "MODIFIED", before, stored))

    def remove(self, key: str, namespace: str, name: str, expected: int, last: Object | None = None) -> Stored:
        """The last state (`last`, or as stored) under the version of the deletion, as watchers see it."""
        kind, before = self._expect(key, namespace, name, expected)
        stored = self._stored(key, last or load(before))
        kind.order = None
        return self._commit(kind, Change(stored.version, "DELETED", before, stored))

    def since(self, key: str, version: int) -> list[Change]:
        """The changes of a kind after a version; Gone when some of them are forgotten."""
        kind = self._kind(key)
        if version >= kind.version:
            return []
        if version < kind.dropped:
            raise Gone(kind.dropped)
        return kind.log[bisect_right(kind.log, version, key=lambda change: change.version) :]

    def known(self, key: str, version: int) -> bool:
        """Whether a watch may resume after this version."""
        return version >= self._kind(key).floor

    def waiter(self, key: str) -> asyncio.Future[None]:
        """A future that is done when the kind changes next. Give it back with `forget` when you stop waiting."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kind(key).waiters.add(future)
        return future

    def forget(self, key: str, future: asyncio.Future[None]) -> None:
        self._kind(key).waiters.discard(future)

    @property
    def watchers(self) -> int:
        """How many wait for a change now."""
        return sum(not f.done() for kind in self._kinds.values() for f in kind.waiters)

    def compact(self) -> None:
        """Forget all history: whoever resumes from before now gets a 410. Watches that keep up go on."""
        self.version += 1
        self._floor = self.version
        for kind in self._kinds.values():
            kind.log.clear()
            kind.size, kind.dropped, kind.floor = 0, kind.version, self._floor

    def _kind(self, key: str) -> _Kind:
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind()
            kind.floor = self._floor
        return kind

    def _expect(self, key: str, namespace: str, name: str, expected: int) -> tuple[_Kind, Stored]:
        kind = self._kind(key)
        before = kind.objects.get((namespace, name))
        if before is None or before.version != expected:
            raise Lost(before)
        return kind, before

    def _stored(self, key: str, obj: Object) -> Stored:
        return stored_from(key, obj, self.version + 1, self._fields(key, obj))

    def _commit(self, kind: _Kind, change: Change) -> Stored:
        after = change.after
        self.version = kind.version = change.version
        if change.type == "DELETED":
            del kind.objects[after.namespace, after.name]
        else:
            kind.objects[after.namespace, after.name] = after
        kind.log.append(change)
        kind.size += len(after.raw)
        if len(kind.log) > _FRESH:
            kind.log[-_FRESH - 1].encoded.clear()
        if len(kind.log) > self._limit * 1.1 or kind.size > _LOG_BYTES * 1.1:
            self._trim(kind)
        self._wake(kind)
        for listener in self._listeners:
            listener(change)
        return after

    def _trim(self, kind: _Kind) -> None:
        """Down to the limits; a tenth more was allowed, so that this is rare."""
        drop, size = max(0, len(kind.log) - self._limit), kind.size
        for change in kind.log[:drop]:
            size -= len(change.after.raw)
        while size > _LOG_BYTES:
            size -= len(kind.log[drop].after.raw)
            drop += 1
        kind.size, kind.dropped = size, kind.log[drop - 1].version
        kind.floor = max(kind.floor, kind.dropped)
        del kind.log[:drop]

    def _as_of(self, kind: _Kind, version: int) -> dict[tuple[str, str], Stored]:
        """The objects as they were at a version: history undone."""
        if version < kind.floor:
            raise Gone(kind.floor)
        objects = dict(kind.objects)
        for change in reversed(kind.log):
            if change.version <= version:
                break
            where = (change.after.namespace, change.after.name)
            if change.before is None:
                objects.pop(where, None)
            else:
                objects[where] = change.before
        return objects

    @staticmethod
    def _wake(kind: _Kind) -> None:
        waiters, kind.waiters = kind.waiters, set()
        for future in waiters:
            if not future.done():
                future.set_result(None)
