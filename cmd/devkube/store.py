"""Objects of all kinds in memory, one counter of versions, and per kind the history that watches resume from.

An object is held as the bytes of its JSON (a Pod of 9 KB costs ten times as much as a dict); what selectors, paging
and garbage collection ask for stands beside the bytes. The bytes always begin with apiVersion and kind, which tell the
version that an object was written in.

Everything is synchronous: a write that returned is visible, in history, and its watchers are about to wake. What it is
not for: rules of any kind. `verbs` decides what may be written.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from devkube.kinds import Object

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object."""

    key: str
    namespace: str
    name: str
    uid: str
    version: int
    raw: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]  # what field selectors may ask for, besides name and namespace
    owners: tuple[str, ...]  # uids


@dataclass(frozen=True, slots=True)
class Change:
    """One line of history. `after` is the new state, or for DELETED the last one under the deletion's version."""

    version: int
    type: ChangeType
    before: Stored | None
    after: Stored


class Lost(Exception):
    """A write that expected another version than there is, or an object that is gone."""


class Gone(Exception):
    """History before a version is forgotten."""


def beginning(group_version: str, kind: str) -> bytes:
    return f'{{"apiVersion":"{group_version}","kind":"{kind}"'.encode()


def load(stored: Stored) -> Object:
    """A fresh copy, as it was stored."""
    found: Object = _decode(stored.raw)
    return found


@dataclass
class _Kind:
    """The objects of one storage key and their history."""

    floor: int  # a list or watch may go on from here; more than `dropped` after `compact`
    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)  # sorted keys, while as many as `objects`
    log: list[Change] = field(default_factory=list)
    dropped: int = 0  # the version of the last change that the log forgot
    version: int = 0  # of the last change
    watchers: set[asyncio.Event] = field(default_factory=set)

    def after(self, version: int) -> list[Change]:
        return self.log[bisect_right(self.log, version, key=lambda change: change.version) :]


class Store:
    """`fields(key, obj)` tells which values field selectors will want of an object; `limit`: changes kept per kind."""

    def __init__(
        self, fields: Callable[[str, Object], Mapping[str, str]] | None = None, *, limit: int = 10_000
    ) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._fields = fields or (lambda key, obj: {})
        self._limit = limit
        self._listeners: list[Callable[[Change], None]] = []
        self._floor = 0  # of kinds that nobody wrote or read yet
        self.version = 1

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call it after each write, synchronously; it must not write."""
        self._listeners.append(listener)

    def get(self, key: str, namespace: str, name: str) -> Stored | None:
        return self._kind(key).objects.get((namespace, name))

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
        if len(kind.order) != len(kind.objects):
            kind.order = sorted(kind.objects)
        objects, keys = kind.objects, kind.order
        if at is not None and at < kind.version:
            objects = _as_of(kind, at)
            keys = sorted(objects)
        for one in keys[bisect_right(keys, after) if after else 0 :]:
            stored = objects.get(one)
            if stored and (not namespace or one[0] == namespace) and (predicate is None or predicate(stored)):
                yield stored

    def create(self, key: str, obj: Object) -> Stored:
        """Lost when there is one of this name."""
        return self._commit(self._change(key, obj, "ADDED"), None)

    def replace(self, key: str, obj: Object, expected: int) -> Stored:
        """Lost unless the version found is the one expected."""
        return self._commit(self._change(key, obj, "MODIFIED"), expected)

    def remove(self, key: str, namespace: str, name: str, expected: int) -> Stored:
        """The last state under the version of the deletion, as watchers see it."""
        before = self.get(key, namespace, name)
        if before is None or before.version != expected:
            raise Lost
        return self._commit(self._change(key, load(before), "DELETED"), expected)

    def since(self, key: str, version: int) -> list[Change]:
        """The changes of a kind after a version; Gone when some of them are forgotten."""
        kind = self._kind(key)
        if version < kind.dropped:
            raise Gone
        return kind.after(version)

    def known(self, key: str, version: int) -> bool:
        """Whether a watch may resume after this version."""
        return version >= self._kind(key).floor

    def watcher(self, key: str) -> asyncio.Event:
        """An event that is set whenever the kind changes; who waits clears it. Give it back with `forget`."""
        changed = asyncio.Event()
        self._kind(key).watchers.add(changed)
        return changed

    def wake(self, key: str) -> None:
        """Whoever watches the kind looks again."""
        for changed in self._kind(key).watchers:
            changed.set()

    def forget(self, key: str, changed: asyncio.Event) -> None:
        self._kind(key).watchers.discard(changed)

    def compact(self) -> None:
        """Forget all history: whoever resumes from before now gets a 410. Watches that keep up go on."""
        self.version += 1
        self._floor = self.version
        for kind in self._kinds.values():
            kind.log.clear()
            kind.dropped, kind.floor = kind.version, self._floor

    def _kind(self, key: str) -> _Kind:
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(self._floor)
        return kind

    def _change(self, key: str, obj: Object, type: ChangeType) -> Change:
        """What a write would be; the new version is written into `obj`."""
        meta, version = obj["metadata"], self.version + 1
        meta["resourceVersion"] = str(version)
        head = beginning(obj["apiVersion"], obj["kind"])
        after = Stored(
            key=key,
            namespace=meta.get("namespace") or "",
            name=meta["name"],
            uid=meta.get("uid") or "",
            version=version,
            raw=head + b"," + encode({k: v for k, v in obj.items() if k not in ("apiVersion", "kind")})[1:],
            labels=meta.get("labels") or {},
            fields=self._fields(key, obj),
            owners=tuple(o.get("uid", "") for o in meta.get("ownerReferences") or ()),
        )
        return Change(version, type, self.get(key, after.namespace, after.name), after)

    def _commit(self, change: Change, expected: int | None) -> Stored:
        before, after = change.before, change.after
        if (before.version if before else None) != expected:
            raise Lost
        kind = self._kind(after.key)
        self.version = kind.version = change.version
        if change.type == "DELETED":
            del kind.objects[after.namespace, after.name]
            kind.order = []
        else:
            kind.objects[after.namespace, after.name] = after
        kind.log.append(change)
        if len(kind.log) > self._limit * 1.1:  # a tenth more, so that this is rare
            kind.dropped = kind.log[-self._limit - 1].version
            kind.floor = max(kind.floor, kind.dropped)
            del kind.log[: -self._limit]
        self.wake(after.key)
        for listener in self._listeners:
            listener(change)
        return after


def _as_of(kind: _Kind, version: int) -> dict[tuple[str, str], Stored]:
    """The objects as they were at a version: history undone."""
    if version < kind.floor:
        raise Gone
    objects = dict(kind.objects)
    for change in reversed(kind.after(version)):
        where = (change.after.namespace, change.after.name)
        if change.before is None:
            objects.pop(where, None)
        else:
            objects[where] = change.before
    return objects
