"""One replica's voice in `WARMLOG_KV`: ack-clocked flushing, keyframes, heartbeats, the session's end.

At most one message is unacknowledged. While it is, changes collapse in the table; over 4,096 of them the table's
pending changes are dropped and a keyframe follows, so an outage of any length costs bounded memory and never a wrong
key. A message without an ack is sent again with the same n: a reader ignores what it has seen.

Reading an engine is faster than telling of it: `room` lets a reader that catches up wait for acks, so that only a log
that does not answer makes changes overflow.

A change waits a window, in which others gather too: a message costs nats-server and each server the same whatever is in
it. Many changes wait for no window, nor does anything that is no change.

`Plan` decides what is said next and is pure; `Session` says it. Not here: where the table's changes come from
(consumer), how bytes reach the log (sink).

    what comes first     because
    begin of a keyframe  a reader that lost the thread credits nothing until one is complete
    heartbeat            it is due: 5 s have passed since the last one
    changes              a removal must be seen soon; once the first of them has waited a window
    a chunk, or the end  built in the same instant in which the pending changes were taken, so that what it shows
                         is what a reader knows after those changes; a busy engine cannot starve it

Rules: design.md section 3; docs/design/0001-kv-wire.md, 0002-window.md.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec
import structlog

from eventstore import kvwire, store

log = structlog.get_logger()

BEAT_SECONDS: Final = 5.0
#: A keyframe is due when this many keys were sent as changes for each key held: keyframes stay under 5 % of ingest.
INTERVAL_RATIO: Final = 20
INTERVAL_AT_LEAST: Final = 30.0  # seconds
INTERVAL_AT_MOST: Final = 3600.0  # seconds; a quiet replica stays readable inside the stream's retention
WINDOW: Final = 0.005  # seconds in which changes gather for one message; docs/design/0002-window.md
CROWDED: Final = kvwire.MAX_KEYS // 2  # changes that wait, above which reading on waits for an ack
ROOM_WITHIN: Final = 0.25  # seconds; an ack that takes longer is waited for no more
ENOUGH: Final = 1024  # changes that wait for no window: a larger message would cost hardly less a change
TELL_AFTER: Final = 1.0  # seconds; a log that is still being connected to is no news
LONGEST_PAUSE: Final = 1.0  # seconds between two tries while the log does not answer: how late its return is noticed


class Table(Protocol):
    """What a session needs of table.Table."""

    @property
    def pending(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def sum(self) -> int: ...
    def take(self, limit: int) -> list[kvwire.Group]: ...
    def drop_pending(self) -> None: ...
    def held(self, limit: int) -> Iterator[list[kvwire.Group]]: ...


class Sink(Protocol):
    """What a session needs of sink.Sink."""

    async def send(self, payload: bytes) -> int: ...


class Identity(msgspec.Struct, frozen=True):
    """Who speaks. `uid` is the Pod's; `settings` are the subscriber's effective ones, without secrets."""

    uid: str
    tenant: str
    replica: str
    model: str
    scheme: str
    settings: dict[str, str] = {}


class Fenced(Exception):
    """A newer session of the same replica has begun: this process must stop speaking for it."""


Body = Callable[[int, int], kvwire.AnyMessage]  # (n, rank) -> message


class Plan:
    """What one session says next. Pure: time is given (seconds, any monotonic origin)."""

    def __init__(
        self,
        identity: Identity,
        session: str,
        table: Table,
        now: float,
        *,
        reason: str = "start",
        window: float = WINDOW,
    ) -> None:
        self.identity, self.session, self.table = identity, session, table
        self._window = window
        self._due: float | None = None  # when the changes that wait go; None where none is known to wait
        self.coverage: kvwire.Coverage = "complete"
        self.frame = -1
        self.rank = 0
        self.stats: kvwire.Stats | None = None
        self._wanted: str | None = reason
        self._chunks: Iterator[list[kvwire.Group]] | None = None
        self._built: deque[Body] = deque()  # decided together with what was just said
        self._beat_at = now + BEAT_SECONDS
        self._framed_at = now
        self._changed = 0  # keys sent as changes since the last keyframe began

    def want_keyframe(self, reason: str) -> None:
        """A keyframe as soon as the message in flight is acknowledged; one in progress is abandoned."""
        self._wanted = reason

    def keyframe_asked(self, reason: str) -> None:
        """A server asks. One that is in progress or about to begin answers it too."""
        if self._wanted is None and self._chunks is None and not self._built:
            self._wanted = reason

    def overflow(self) -> bool:
        """Bound what waits for an ack; True when the bound was hit just now."""
        if self.table.pending <= kvwire.MAX_KEYS:
            return False
        self.table.drop_pending()
        first = self._wanted is None
        if self._wanted in (None, "asked"):  # at "asked" a reader goes on crediting what it has, and that is old now
            self._wanted = "outage"
        return first

    def idle_until(self) -> float:
        return self._beat_at if self._due is None else min(self._beat_at, self._due)

    def pressing(self) -> bool:
        """Whether what is to be said next waits for no window."""
        return self._wanted is not None or self.table.pending >= ENOUGH

    def next(self, now: float) -> Body | None:
        """The next thing to say, or None when there is nothing until `idle_until` or a change."""
        if self._built:
            return self._built.popleft()
        if self._wanted is None and self._interval_is_due(now):
            self._wanted = "interval"
        if self._wanted is not None:
            return self._begin(now, self._wanted)
        if now >= self._beat_at:
            return self._beat(now)
        if self._chunks is None:
            return self._ops() if self._is_due(now) else None
        changes = self._ops() if self.table.pending else None
        part = self._chunk()
        if changes is None:
            return part
        self._built.append(part)
        return changes

    def _is_due(self, now: float) -> bool:
        waiting = self.table.pending
        if not waiting:
            self._due = None
        elif self._due is None:
            self._due = now + self._window
        return waiting >= ENOUGH or (self._due is not None and now >= self._due)

    def _interval_is_due(self, now: float) -> bool:
        if self._chunks is not None:
            return False
        age = now - self._framed_at
        enough = self._changed >= INTERVAL_RATIO * max(self.table.count, 1) and self._changed > kvwire.MAX_KEYS
        return (enough and age >= INTERVAL_AT_LEAST) or age >= INTERVAL_AT_MOST

    def _begin(self, now: float, reason: str) -> Body:
        self._wanted = None
        self.frame += 1
        self._framed_at, self._changed = now, 0
        self._chunks = self.table.held(kvwire.MAX_KEYS)
        frame, coverage, who = self.frame, self.coverage, self.identity
        return lambda n, rank: kvwire.Begin(
            kvwire.VERSION, who.uid, self.session, n, frame, rank, who.model, who.scheme, coverage, reason, who.settings
        )

    def _ops(self) -> Body:
        self._due = None
        groups = self.table.take(kvwire.MAX_KEYS)
        self._changed += sum(len(group.tiers) for group in groups)
        return lambda n, rank: kvwire.Ops(kvwire.VERSION, self.identity.uid, self.session, n, groups)

    def _chunk(self) -> Body:
        assert self._chunks is not None
        frame = self.frame
        groups = next(self._chunks, None)
        if groups is not None:
            return lambda n, rank: kvwire.Chunk(kvwire.VERSION, self.identity.uid, self.session, n, frame, groups)
        self._chunks = None
        coverage, count, total = self.coverage, self.table.count, self.table.sum
        return lambda n, rank: kvwire.End(
            kvwire.VERSION, self.identity.uid, self.session, n, frame, coverage, count, total
        )

    def _beat(self, now: float) -> Body:
        self._beat_at = now + BEAT_SECONDS
        coverage, count, total, stats = self.coverage, self.table.count, self.table.sum, self.stats
        return lambda n, rank: kvwire.Beat(
            kvwire.VERSION, self.identity.uid, self.session, n, coverage, count, total, stats
        )

    def bye(self, reason: kvwire.FarewellReason) -> Body:
        return lambda n, rank: kvwire.Bye(kvwire.VERSION, self.identity.uid, self.session, n, reason)


class Session:
    """Carries out a Plan over a sink: numbers messages, resends without an ack, ends on being fenced.

    `run()` ends with Fenced, with CancelledError, or never. `changed()` wakes it after the table or the plan changed.
    """

    def __init__(self, plan: Plan, sink: Sink, *, clock: Callable[[], float]) -> None:
        self.plan, self._sink, self._clock = plan, sink, clock
        self._n = 0
        self._wake = asyncio.Event()
        self._holding = False  # changes wait for the end of their window: more of them are no reason to wake up
        self._moved = asyncio.Event()  # a message was acknowledged, or the log found to be away
        self._slow = False  # the ack under way is waited for no more
        self._fenced: str | None = None
        self.away_since: float | None = None  # since when the log does not answer
        self._told_away = False
        self._inflight: Body | None = None

    def changed(self) -> None:
        if self.plan.overflow():
            log.warning("too many changes wait for the log, a keyframe will replace them", **self._who())
        if not self._holding or self.plan.pressing():
            self._wake.set()

    async def room(self) -> None:
        """Wait while many changes wait for a log that answers."""
        while self.plan.table.pending >= CROWDED and not self._slow and self.away_since is None:
            self._moved.clear()
            try:
                async with asyncio.timeout(ROOM_WITHIN):
                    await self._moved.wait()
            except TimeoutError:
                self._slow = True

    def hear(self, order: kvwire.Control) -> None:
        """An order from a server; those for other sessions are ignored."""
        if order.session != self.plan.session:
            return
        if order.order == "fenced":
            self._fenced = order.reason or "a newer session of this replica has begun"
        else:
            self.plan.keyframe_asked("asked")
        self._wake.set()

    async def run(self) -> None:
        while True:
            if self._fenced is not None:
                raise Fenced(self._fenced)
            self._wake.clear()
            body = self._inflight or self.plan.next(self._clock())
            if body is None:
                self._holding = self.plan.table.pending > 0
                # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with a wake-up.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.001, self.plan.idle_until() - self._clock())):
                        await self._wake.wait()
                self._holding = False
                continue
            await self._say(body)

    async def _say(self, body: Body) -> None:
        """Send one message until it is acknowledged. Its number is used once, however often it is sent."""
        self._inflight = body
        message = body(self._n, self.plan.rank)
        payload = kvwire.encode(message)
        delay = 0.1
        while self._fenced is None:
            try:
                sequence = await self._sink.send(payload)
            except (store.Unavailable, store.StreamFull) as error:
                self._moved.set()
                if self.away_since is None:
                    self.away_since = self._clock()
                elif not self._told_away and self._clock() - self.away_since > TELL_AFTER:
                    self._told_away = True
                    log.warning("the log does not answer, changes wait", reason=str(error), **self._who())
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))
                delay = min(delay * 2, LONGEST_PAUSE)
                continue
            if self.away_since is not None:
                if self._told_away:
                    away = round(self._clock() - self.away_since, 1)
                    log.info("the log answers again", away_seconds=away, **self._who())
                self.away_since, self._told_away = None, False
            self._n += 1
            self._inflight = None
            self._slow = False
            self._moved.set()
            self._stored(message, sequence)
            return

    def _stored(self, message: kvwire.AnyMessage, sequence: int) -> None:
        """Take note of where a message lies. A stream that ends below our first begin has lost it, and with it our
        rank: a reader would rightly refuse a session that claims to have begun later than now. We begin afresh."""
        if isinstance(message, kvwire.Begin) and not self.plan.rank:
            self.plan.rank = sequence
        elif sequence < self.plan.rank:
            log.warning("the log lost its end, the session begins there again", lost=self.plan.rank, **self._who())
            self.plan.rank = 0
            self.plan.want_keyframe("regressed")

    async def finish(self, reason: kvwire.FarewellReason) -> None:
        """The last flush: what was in flight when `run` was cancelled, what is pending, and a farewell."""
        if self._inflight is not None:
            await self._say(self._inflight)
        while self._n and self.plan.table.pending:
            await self._say(self.plan._ops())
        if self._n:
            await self._say(self.plan.bye(reason))

    def _who(self) -> dict[str, str]:
        return {"tenant": self.plan.identity.tenant, "replica": self.plan.identity.replica}
