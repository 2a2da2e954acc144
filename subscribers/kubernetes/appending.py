"""What a watch saw, as events of the control log, each told once.

An event expects its subject's newest to be the one that the world holds. A conflict is never retried blindly: what lies
there is folded first, and then compared again; it may be our own lost ack, another leader, or an older deletion.

What is news:

    seen in a list     another object of the name, another narrow content, fields that an older shape did not have; our
                       own last write not observed yet; or a version below the one we know: the API lost its end
    seen in a watch    the same, and never what is older than what we know: a leader that slept may still read it
    gone               exactly the object that we know of that name

Nothing is appended by who does not lead any more.

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
from subscribers.kubernetes.machine import Complete, Fact, Gone, Seen

log = structlog.get_logger()

CONTACT_NS: Final = 1_900_000_000
AT_ONCE: Final = 256
TRIES: Final = 5
#: Names that no subject can hold; the newest are kept, to say each once.
UNTELLABLE: Final = 1000


class Log(Protocol):
    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended: ...

    async def last(self, subject: str) -> store.Stored | None: ...


class Untold(Exception):
    """A fact did not get into the log, others were always first."""


class Deposed(Exception):
    """We do not lead any more: what we see is somebody else's to tell."""


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
        leads: Callable[[], bool] = lambda: True,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.log, self.world, self.instance, self.epoch = log, world, instance, epoch
        self.folded, self.leads, self.clock = folded, leads, clock
        self.appended = 0
        self.conflicts = 0
        self.untellable: dict[Key, str] = {}
        self._last: dict[str, int] = {}  # kind -> the newest sequence appended for it
        self._contact = 0

    async def settled(self, kind: str) -> None:
        """Everything appended for a kind is folded: only then a list can be compared with the world."""
        await self.folded(self._last.get(kind, 0))

    async def record(self, kind: str, facts: list[Fact]) -> None:
        """Append what is news among them. Facts about one object keep their order; others run side by side. Raises
        StoreError, Untold or Deposed."""
        batch: dict[tuple[str, str], Seen | Gone] = {}
        for fact in facts:
            if isinstance(fact, Complete):
                await self._flush(kind, batch)
                await self._complete(kind, fact)
                continue
            one = fact.object if isinstance(fact, Seen) else fact
            name = (one.namespace, one.name)
            if name in batch or len(batch) >= AT_ONCE:
                await self._flush(kind, batch)
            elif _event(Key(kind, *name), fact, self.world) is None:
                continue  # most of what moves is no news
            batch[name] = fact
        await self._flush(kind, batch)

    async def _flush(self, kind: str, batch: dict[tuple[str, str], Seen | Gone]) -> None:
        if not batch:
            return
        told = [self._object(Key(kind, *name), fact) for name, fact in batch.items()]
        batch.clear()
        if len(told) == 1:
            await told[0]
        else:
            failed = [one for one in await asyncio.gather(*told, return_exceptions=True) if one is not None]
            for error in failed:
                raise error
        await self.settled(kind)

    async def _object(self, key: Key, fact: Seen | Gone) -> None:
        """One object's change. After a conflict the world is asked again: what lies there may have said it already."""
        try:
            subject = subjects.object_subject(*key)
        except subjects.SubjectError as error:
            self._cannot(key, str(error))
            return
        expected: int | None = None
        for _ in range(TRIES):
            told = _event(key, fact, self.world)
            if told is None:
                return
            if expected is None:
                known = self.world.find(key)
                expected = 0 if known is None else known.sequence
            data, said = told
            try:
                await self._append(data, subject, f"{said}:{expected}", key.kind, expected)
            except store.Conflict as conflict:
                self.conflicts += 1
                found = await self._after(subject, conflict, fact)
                if found is None:
                    return
                expected = found
            except store.TooLarge as error:
                self._cannot(key, str(error))
                return
            except store.Shed as error:  # the log keeps its room for what we do; the watch looks again later
                raise Untold(str(error)) from error
            else:
                return
        raise Untold(f"{key}: others were first {TRIES} times")

    async def _after(self, subject: str, conflict: store.Conflict, fact: Seen | Gone) -> int | None:
        """What to expect after a conflict; None when what lies there makes the fact an old one."""
        last = await self.log.last(subject)
        if last is None:
            return 0
        await self.folded(last.sequence)
        decoded = events.decode(last)
        if isinstance(decoded, events.Decoded) and isinstance(decoded.data, events.ObjectGone):
            gone, one = decoded.data, fact.object if isinstance(fact, Seen) else fact
            late = not (isinstance(fact, Seen) and fact.listed) and _older(one.resource_version, gone.resource_version)
            if gone.uid == one.uid or late:
                return None  # a uid never comes back
        return last.sequence

    def _cannot(self, key: Key, reason: str) -> None:
        if key not in self.untellable:
            log.warning("object-cannot-be-told", key=str(key), reason=reason)
            self.untellable[key] = reason
            while len(self.untellable) > UNTELLABLE:
                del self.untellable[next(iter(self.untellable))]

    async def _complete(self, kind: str, complete: Complete) -> None:
        """Every list is told: what we wrote before it and do not find after it is not there."""
        data = events.KindListed(
            list_version=complete.list_version, shape=kinds.KINDS[kind].shape, count=complete.objects
        )
        said = f"{kind}:{complete.list_version}:{self.epoch}:{self.clock()}"
        await self._append(data, subjects.kind_subject(kind), said, kind, None)
        await self.settled(kind)

    async def heard(self) -> None:
        """The API answers, and every watch is open: every 2 s at most. Raises StoreError."""
        now = self.clock()
        if 0 <= now - self._contact < CONTACT_NS:
            return
        self._contact = now
        await self._append(events.WatchContact(epoch=self.epoch), subjects.WATCH, f"{self.epoch}:{now}", "", None)

    async def _append(self, data: events.Event, subject: str, said: str, kind: str, expected: int | None) -> None:
        if not self.leads():
            raise Deposed
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


def _event(key: Key, fact: Seen | Gone, world: World) -> tuple[events.Event, str] | None:
    """What to append, and what makes it this fact; None where the world knows it already."""
    known = world.find(key)
    if isinstance(fact, Gone):
        if known is None or known.uid != fact.uid:
            return None
        gone = events.ObjectGone(uid=fact.uid, resource_version=fact.resource_version)
        return gone, f"{fact.uid}:{fact.resource_version}"
    one, shape = fact.object, kinds.KINDS[key.kind].shape
    if known is not None and not _news(key, fact, known, shape, world):
        return None
    seen = events.ObjectSeen(uid=one.uid, resource_version=one.resource_version, shape=shape, object=one.object)
    return seen, f"{one.uid}:{one.resource_version}:{shape}"


def _news(key: Key, fact: Seen, known: Known, shape: int, world: World) -> bool:
    one = fact.object
    if _older(one.resource_version, known.resource_version):
        return fact.listed
    if known.uid != one.uid or known.shape != shape:
        return True
    if (known.problem, known.rest) != (one.problem, one.rest):
        return True
    if one.rest is None and known.value != one.value:  # else the world keeps the last good one
        return True
    applied = world.applied.get(key)
    return applied is not None and _older(known.resource_version, applied.resource_version) and not _older(
        one.resource_version, applied.resource_version
    )  # fmt: skip


def _older(version: str, than: str) -> bool:
    """Versions are numbers of one count; what is no number is never older."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
