"""What a watch saw, as events of the control log, each told once.

An event expects its subject's newest to be the one that the world holds. A conflict is never retried blindly: what lies
there is folded first, and then compared again; it may be our own lost ack, another leader, or an older deletion.

Rules: design.md section 2, "Identity"; spec/eventstore-nats.md measurement 1.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from eventstore import envelope, events, store, subjects
from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.state import Known, World
from subscribers.kubernetes.machine import Complete, Contact, Fact, Gone, Seen, changed

log = structlog.get_logger()

CONTACT_NS: Final = 2_000_000_000
AT_ONCE: Final = 256
TRIES: Final = 5


class Log(Protocol):
    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended: ...


class Recorder:
    """Appends for all watchers of one leader. `folded(sequence)` waits until the world has come that far."""

    def __init__(
        self,
        log: Log,
        world: World,
        *,
        instance: str,
        epoch: int,
        folded: Callable[[int], Awaitable[None]],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.log, self.world, self.instance, self.epoch = log, world, instance, epoch
        self.folded, self.clock = folded, clock
        self.appended = 0
        self._last: dict[str, int] = {}  # kind -> the newest sequence appended for it
        self._listed: set[str] = set()  # kinds whose list this leader told
        self._contact = 0

    async def settled(self, kind: str) -> None:
        """Everything appended for a kind is folded: only then a list can be compared with the world."""
        await self.folded(self._last.get(kind, 0))

    async def record(self, kind: str, facts: list[Fact]) -> None:
        """Append what is new among them. Facts about one object keep their order; others run side by side."""
        batch: dict[tuple[str, str], Seen | Gone] = {}
        for fact in facts:
            if isinstance(fact, Complete):
                await self._flush(kind, batch)
                await self._complete(kind, fact)
                continue
            if isinstance(fact, Contact):
                await self._heard()
                continue
            one = fact.object if isinstance(fact, Seen) else fact
            name = (one.namespace, one.name)
            if name in batch or len(batch) >= AT_ONCE:
                await self._flush(kind, batch)
            batch[name] = fact
        await self._flush(kind, batch)

    async def _flush(self, kind: str, batch: dict[tuple[str, str], Seen | Gone]) -> None:
        if batch:
            async with asyncio.TaskGroup() as group:
                for name, fact in batch.items():
                    group.create_task(self._object(Key(kind, *name), fact))
            await self.settled(kind)
            batch.clear()

    async def _object(self, key: Key, fact: Seen | Gone) -> None:
        """One object's change. After a conflict the world is asked again: what lies there may have said it already."""
        subject = subjects.object_subject(*key)
        expected: int | None = None
        for _ in range(TRIES):
            known = self.world.find(key)
            told = _event(key.kind, fact, known)
            if told is None:
                return
            if expected is None:
                expected = 0 if known is None else known.sequence
            data, said = told
            try:
                await self._append(data, subject, f"{said}:{expected}", key.kind, expected)
            except store.Conflict as conflict:
                if conflict.last is None:
                    raise
                await self.folded(conflict.last)
                known = self.world.find(key)
                # After a deletion the newest event is no object any more: expect exactly that one.
                expected = conflict.last if known is None else known.sequence
            else:
                return
        log.warning("object-not-told", key=str(key), tries=TRIES)

    async def _complete(self, kind: str, complete: Complete) -> None:
        listed = self.world.listed.get(kind)
        shape = kinds.KINDS[kind].shape
        if listed is not None and listed.shape == shape and kind in self._listed:
            return  # told by this leader already: relists say nothing that objects do not
        data = events.KindListed(list_version=complete.list_version, shape=shape, count=complete.objects)
        await self._append(
            data, subjects.kind_subject(kind), f"{kind}:{complete.list_version}:{self.epoch}", kind, None
        )
        self._listed.add(kind)
        await self.settled(kind)

    async def _heard(self) -> None:
        now = self.clock()
        if now - self._contact < CONTACT_NS:
            return
        self._contact = now
        data = events.WatchContact(epoch=self.epoch)
        await self._append(data, subjects.WATCH, f"{self.epoch}:{now}", "", None)

    async def _append(self, data: events.Event, subject: str, said: str, kind: str, expected: int | None) -> None:
        name = events.name_of(data).removeprefix(envelope.PREFIX).removesuffix(".v1")
        event = events.event(
            data,
            id=f"{name}:{said}",
            source="warmlog/controller",
            subject=subject,
            time_ns=self.clock(),
            actor=f"controller/{self.instance}",
        )
        appended = await self.log.append(event, expected=expected)
        self.appended += 0 if appended.duplicate else 1
        self._last[kind] = max(self._last.get(kind, 0), appended.sequence)


def _event(kind: str, fact: Seen | Gone, known: Known | None) -> tuple[events.Event, str] | None:
    """What to append, and what makes it this fact; None where the world knows it already."""
    if isinstance(fact, Seen):
        one, shape = fact.object, kinds.KINDS[kind].shape
        if not changed(one, known, shape):
            return None
        data = events.ObjectSeen(uid=one.uid, resource_version=one.resource_version, shape=shape, object=one.object)
        return data, f"{one.uid}:{one.resource_version}:{shape}"
    if known is None or known.uid != fact.uid:
        return None
    return events.ObjectGone(
        uid=fact.uid, resource_version=fact.resource_version
    ), f"{fact.uid}:{fact.resource_version}"
