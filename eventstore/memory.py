"""The two logs and the bus in lists: for unit tests and for roles that are tried without a server.

They pass the same contract suite as JetStream: ids are remembered for a window of the stream's time, expectations are
checked per subject, a duplicate's fact is compared, a full log refuses. What only a network does is asked for with
`faults`: an outage, a lost answer, a lost end.

Nothing survives the process. Time is `clock`, nanoseconds since the epoch, so that virtual time works.

Rules: design.md section 2; the contract in tests/contract/test_eventstore.py.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

import msgspec

from eventstore import envelope, facts, incarnation, shedding, store

Clock = Callable[[], int]
_CREATED = "2026-01-01T00:00:00Z"


class Faults(msgspec.Struct):
    """What a test makes go wrong. An outage lets reads wait and writes fail; a lost ack stores and then fails."""

    outage: bool = False
    lose_acks: int = 0
    drop: int = 0  # this many writes are neither stored nor answered


class _Stored(msgspec.Struct, frozen=True):
    sequence: int
    time_ns: int
    subject: str
    id: str
    body: bytes


T = TypeVar("T")


class _Log:
    """What both logs share: a list of numbered messages, its incarnation, and who waits for more."""

    def __init__(self, name: str, *, clock: Clock, max_bytes: int | None) -> None:
        self.name = name
        self.clock = clock
        self.max_bytes = max_bytes
        self.created = _CREATED
        self.counter = 0
        self.messages: list[_Stored] = []
        self.first = 1
        self.bytes = 0
        self.faults = Faults()
        self._grown = asyncio.Condition()

    def extent(self) -> store.Extent:
        return store.Extent(
            self.first,
            self.first + len(self.messages) - 1,
            incarnation.name(self.created, {incarnation.COUNTER: str(self.counter)}),
        )

    def verify(self, known: store.Position) -> store.Extent:
        found = self.extent()
        match incarnation.judge(known, found):
            case "holds":
                return found
            case "regressed":
                self.counter += 1
            case "other":
                pass
        raise store.Regressed(self.name, known, self.extent())

    async def put(self, subject: str, id: str, body: bytes) -> int:
        if self.faults.outage:
            raise store.Unavailable(f"{subject}: the log is away (asked for by a test); nothing was sent")
        if self.faults.drop:
            self.faults.drop -= 1
            raise store.Unavailable(f"{subject}: no answer in time (asked for by a test); the message may be stored")
        if self.max_bytes is not None and self.bytes + len(body) > self.max_bytes:
            raise store.StreamFull(f"stream {self.name} takes no more (maximum bytes exceeded); give it room")
        sequence = self.first + len(self.messages)
        self.messages.append(_Stored(sequence, self.clock(), subject, id, body))
        self.bytes += len(body)
        async with self._grown:
            self._grown.notify_all()
        if self.faults.lose_acks:
            self.faults.lose_acks -= 1
            raise store.Unavailable(f"{subject}: no answer in time (asked for by a test); the message may be stored")
        return sequence

    def last_of(self, subject: str) -> _Stored | None:
        return next((message for message in reversed(self.messages) if message.subject == subject), None)

    async def wake(self) -> None:
        """Readers look again: an outage ended, or a test changed the past."""
        async with self._grown:
            self._grown.notify_all()

    async def grown(self, after: int, known: str) -> None:
        """Wait until there is something past `after`, or the stream is not what it was."""
        async with self._grown:
            await self._grown.wait_for(
                lambda: (
                    not self.faults.outage
                    and (self.extent().last > after or self.extent().last < after or self.extent().incarnation != known)
                )
            )


class _Reader(Generic[T]):
    """The same reading for both logs."""

    def __init__(self, log: _Log, make: Callable[[int, int, str, bytes], T]) -> None:
        self._log, self._make = log, make

    async def read(self, after: int, subject: str | None, follow: bool) -> AsyncGenerator[list[T], None]:
        log = self._log
        extent = log.extent()
        if extent.last < after:
            raise store.Regressed(log.name, store.Position(extent.incarnation, after), extent)
        until = extent.last
        position = store.Position(extent.incarnation, after)
        while True:
            found = log.verify(position)
            after = max(position.sequence, found.first - 1)
            upto = found.last if follow else min(until, found.last)
            for start in range(after + 1, upto + 1, 256):
                chunk = log.messages[start - log.first : min(start + 256, upto + 1) - log.first]
                came = [
                    self._make(one.sequence, one.time_ns, one.subject, one.body)
                    for one in chunk
                    if subject is None or matches(one.subject, subject)
                ]
                position = store.Position(position.incarnation, chunk[-1].sequence)
                if came:
                    yield came
            if not follow:
                return
            if log.extent().last == position.sequence:
                yield []
            await log.grown(position.sequence, position.incarnation)


def matches(subject: str, pattern: str) -> bool:
    """NATS wildcards: `*` is one token, `>` one or more at the end."""
    have, want = subject.split("."), pattern.split(".")
    for at, token in enumerate(want):
        if token == ">":
            return len(have) > at
        if at >= len(have) or token not in ("*", have[at]):
            return False
    return len(have) == len(want)


class MemoryStore:
    """`store.EventStore` in a list. `window` is the duplicate window in seconds of the log's clock."""

    def __init__(
        self, *, window: float = 600.0, clock: Clock = time.time_ns, max_bytes: int | None = None, name: str = "memory"
    ) -> None:
        self.log = _Log(name, clock=clock, max_bytes=max_bytes)
        self.faults = self.log.faults
        self._window = int(window * 1_000_000_000)
        self._ids: dict[str, _Stored] = {}
        self._known: store.Position | None = None
        self._lost: store.Regressed | None = None
        self._reader = _Reader(self.log, store.Stored)
        self.gate = shedding.Gate(name)

    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended:
        body = facts.encode(event)
        facts.check(event, len(body))
        self.gate.learn(self.log.bytes, self.log.max_bytes or 0)
        self.gate.admit(event)
        if self._known is not None:
            try:
                self.log.verify(self._known)
            except store.Regressed as lost:
                self._known, self._lost = None, lost
        if self._lost is not None and expected is not None:
            told, self._lost = self._lost, None
            raise told
        last = self.log.last_of(event.subject)
        if expected is not None and expected != (last.sequence if last else 0):
            own = next((one for one in self.log.messages if (one.subject, one.id) == (event.subject, event.id)), None)
            if own is None or self.log.faults.outage:
                raise store.Conflict(event.subject, expected, last.sequence if last else 0)
            return self._same(event, own)
        seen = self._ids.get(event.id)
        if seen is not None and self.log.clock() - seen.time_ns < self._window and not self.faults.outage:
            return self._same(event, seen)
        before = self.log.extent().last
        try:
            sequence = await self.log.put(event.subject, event.id, body)
        finally:
            if self.log.extent().last > before:
                self._ids[event.id] = self.log.messages[-1]
        self._known = store.Position(self.log.extent().incarnation, sequence)
        return store.Appended(sequence, False)

    def _same(self, event: envelope.Envelope, stored: _Stored) -> store.Appended:
        if not facts.same(event, stored.body):
            raise facts.alarm(event, stored.sequence)
        return store.Appended(stored.sequence, True)

    async def get(self, sequence: int) -> store.Stored | None:
        at = sequence - self.log.first
        return _public(self.log.messages[at]) if 0 <= at < len(self.log.messages) else None

    async def last(self, subject: str) -> store.Stored | None:
        return _public(self.log.last_of(subject))

    async def last_before(
        self, subject: str, *, sequence: int | None = None, time_ns: int | None = None
    ) -> store.Stored | None:
        for one in reversed(self.log.messages):
            if one.subject != subject or (sequence is not None and one.sequence > sequence):
                continue
            if time_ns is None or one.time_ns <= time_ns:
                return _public(one)
        return None

    async def extent(self) -> store.Extent:
        return self.log.extent()

    async def verify(self, known: store.Position) -> store.Extent:
        return self.log.verify(known)

    def read(
        self, *, after: int = 0, subject: str | None = None, follow: bool = False
    ) -> AsyncGenerator[list[store.Stored], None]:
        return self._reader.read(after, subject, follow)

    # What a test does to the past --------------------------------------------------------------------------------

    def lose_end(self, last: int) -> None:
        """As after a restore: what came after `last` is gone, ids included."""
        lose_end(self.log, last)
        self._ids = {one.id: one for one in self.log.messages}

    def retain(self, first: int) -> None:
        """As retention does: what came before `first` is gone."""
        retain(self.log, first)


class MemoryKV:
    """`store.KVLog` in a list."""

    def __init__(self, *, clock: Clock = time.time_ns, name: str = "memory-kv") -> None:
        self.log = _Log(name, clock=clock, max_bytes=None)
        self.faults = self.log.faults
        self._reader = _Reader(self.log, store.KVMessage)

    async def publish(self, subject: str, payload: bytes, *, deadline: float = 2.0) -> int:
        return await self.log.put(subject, "", payload)

    async def extent(self) -> store.Extent:
        return self.log.extent()

    async def verify(self, known: store.Position) -> store.Extent:
        return self.log.verify(known)

    def read(self, *, after: int = 0, follow: bool = False) -> AsyncGenerator[list[store.KVMessage], None]:
        return self._reader.read(after, None, follow)

    def lose_end(self, last: int) -> None:
        lose_end(self.log, last)

    def retain(self, first: int) -> None:
        retain(self.log, first)


def lose_end(log: _Log, last: int) -> None:
    del log.messages[max(0, last + 1 - log.first) :]
    log.bytes = sum(len(one.body) for one in log.messages)


def retain(log: _Log, first: int) -> None:
    first = min(first, log.first + len(log.messages))
    del log.messages[: max(0, first - log.first)]
    log.first = max(log.first, first)
    log.bytes = sum(len(one.body) for one in log.messages)


def _public(found: _Stored | None) -> store.Stored | None:
    return None if found is None else store.Stored(found.sequence, found.time_ns, found.subject, found.body)


class MemoryBus:
    """`store.Bus` within one process. Messages are heard at once, in the order of sending."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._hear: list[tuple[str, store.Hear]] = []
        self._serve: list[tuple[str, store.Answer]] = []

    async def send(self, subject: str, payload: bytes) -> None:
        if self.faults.outage:
            return  # fire and forget
        for pattern, on_message in list(self._hear):
            if matches(subject, pattern):
                on_message(payload)

    async def hear(self, subject: str, on_message: store.Hear) -> None:
        self._hear.append((subject, on_message))

    async def serve(self, subject: str, answer: store.Answer, *, queue: str = "") -> None:
        self._serve.append((subject, answer))

    async def request(self, subject: str, payload: bytes, *, timeout: float) -> bytes:
        answer = next((answer for pattern, answer in self._serve if matches(subject, pattern)), None)
        if answer is None or self.faults.outage:
            raise store.Unavailable(f"nobody listens on {subject}")
        try:
            async with asyncio.timeout(timeout):
                return await answer(payload)
        except TimeoutError:
            raise store.Unavailable(f"no answer on {subject} within {timeout:g} s") from None
