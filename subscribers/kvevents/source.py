"""One rank of an engine as a sequence of facts: batches in order, exactly once, and what is known about completeness.

`Source.follow()` is the whole interface. It connects, and dials for ever; it asks the replay socket at first contact,
after a reconnect and for holes; it says when the engine is gone, or has never said anything. What a fact means for
the table is in facts.py. One line is logged for everything that costs completeness.

Nothing that an engine sends raises. Cancelling the task that reads, or closing the generator, closes the sockets.
Not here: decoding (decode.py), the decision about a number (cursor.py).
Rules: design.md section 3; docs/design/0001-kv-wire.md; TR-03 to TR-06, TR-13.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

import msgspec
import structlog
import zmq

from subscribers.kvevents import cursor, endpoints, facts, link, replay, sockets

log = structlog.get_logger()

SILENT_AFTER: Final = 30.0  # seconds without a first message until one line says so
_SLICE: Final = 16  # batches handed over between two chances for other tasks to run


class Counters(msgspec.Struct):
    """Lifetime counts of one source, beside those of its receiver."""

    batches: int = 0
    replayed: int = 0
    repeated: int = 0  # live frames that replay had already supplied
    replays: int = 0
    replays_failed: int = 0
    gaps: int = 0
    lives: int = 0


class Source:
    """One PUB socket of an engine and, when there is one, its replay socket."""

    def __init__(
        self,
        where: endpoints.RankEndpoints,
        *,
        topic: str = "",
        resume: facts.Position | None = None,
        limits: sockets.Limits = sockets.Limits(),  # noqa: B008 - frozen
        deadlines: replay.Deadlines = replay.Deadlines(),  # noqa: B008 - frozen
        silent_after: float = SILENT_AFTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rank = where.rank
        self.endpoint = where.events
        self.counters = Counters()
        self._clock = clock
        self._cursor = cursor.resumed(resume)
        self._ahead: dict[int, int] = {}  # while catching up: number -> digest of what was replayed
        self._ask_next: int | None = None
        self._unanswered = ""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._receiver = sockets.Receiver(self._context, where.events, topic=topic, limits=limits)
        self._replayer = None if where.replay is None else replay.Replayer(self._context, where.replay, deadlines)
        self._limit = limits.payload
        self._link = link.Link(endpoint=where.events, topic=topic, since=clock(), silent_after=clock() + silent_after)
        self._log = log.bind(endpoint=where.events, rank=where.rank)

    @property
    def received(self) -> sockets.Counters:
        """What the receiving thread counted: malformed, oversized and dropped frames among them."""
        return self._receiver.counters

    @property
    def position(self) -> facts.Position | None:
        """The last batch handed over."""
        return self._cursor.position

    async def follow(self) -> AsyncGenerator[facts.Fact, None]:
        """Facts for ever. Use it once, inside contextlib.aclosing."""
        self._receiver.start()
        try:
            handed = 0
            while True:
                item = await self._receiver.get(self._patience())
                if isinstance(item, sockets.Frame):
                    self._link = link.heard(self._link)
                    async for fact in self._frame(item):
                        yield fact
                    handed += 1
                    if handed % _SLICE == 0:
                        await asyncio.sleep(0)
                elif item is not None:
                    self._link, changed = link.changed(self._link, item, self._clock())
                    if changed is not None:
                        yield changed
                    if isinstance(changed, facts.Connected):
                        async for fact in self._arrived():
                            yield fact
                self._link, passed = link.ticked(self._link, self._clock())
                if passed is not None:
                    yield self._told(passed)
        finally:
            self._receiver.stop()
            self._context.destroy(linger=0)

    def _patience(self) -> float | None:
        due = link.due(self._link)
        return None if due is None else max(0.0, due - self._clock())

    async def _arrived(self) -> AsyncGenerator[facts.Fact, None]:
        """The connection stands (again): find out whose it is before a live batch forces the question."""
        self._cursor = cursor.reconnected(self._cursor)
        start = cursor.question(self._cursor)
        if start is None:
            return
        async for fact in self._catch_up(start, waiting=False):
            yield fact
        if self._cursor.standing == "doubtful":
            # Nothing will prove it later either, and what an earlier life held must stop counting now.
            self._cursor = cursor.restarted(f"the engine cannot be proved to be the same; {self._unanswered}")
            yield self._told(facts.NewLife(facts.UNKNOWN, False, self._cursor.ended))

    async def _frame(self, frame: sockets.Frame) -> AsyncGenerator[facts.Fact, None]:
        """A live frame: usually the next batch, otherwise what the cursor says. At most one question is asked."""
        asked = False
        while not isinstance(decision := cursor.decide(self._cursor, frame.seq, frame.digest), cursor.Apply):
            if isinstance(decision, cursor.Skip):
                self.counters.repeated += 1
                self._cursor = cursor.skipped(self._cursor, frame.seq)
                return
            if isinstance(decision, cursor.Restart):
                self._cursor = cursor.restarted(decision.reason)
            elif asked:
                decision = cursor.decide_unanswered(self._cursor, frame.seq, self._unanswered)
                break
            else:
                asked = True
                async for fact in self._catch_up(decision.start, waiting=True):
                    yield fact
        for fact in self._hand_over(decision, frame, live=True):
            yield fact

    async def _catch_up(self, start: int, *, waiting: bool) -> AsyncGenerator[facts.Fact, None]:
        """Hand over what the replay socket returns from `start` on, asking again as long as that leads further.

        `waiting`: a live batch waits, so an empty answer cannot mean that the engine is empty. Afterwards
        `_unanswered` says why the question is still open, if it is."""
        if self._replayer is None:
            self._unanswered = "there is no replay endpoint"
            return
        self._ahead = dict(self._cursor.replayed)
        self._ask_next = start
        bridge: facts.Bridged | None = None
        unbroken = True
        while self._ask_next is not None:
            async for fact in self._pass(self._replayer, self._ask_next, waiting=waiting):
                yield fact
                if isinstance(fact, facts.Batch):
                    bridge = facts.Bridged(bridge.first if bridge else fact.seq, fact.seq)
                elif not (isinstance(fact, facts.Attached) and fact.continued):
                    unbroken = False
        self._cursor = msgspec.structs.replace(self._cursor, replayed=self._ahead)
        if bridge is not None and unbroken:
            yield self._told(bridge)

    async def _pass(self, replayer: replay.Replayer, start: int, *, waiting: bool) -> AsyncGenerator[facts.Fact, None]:
        """One request and its answer. Sets `_ask_next` when another one leads further."""
        self._ask_next = None
        self.counters.replays += 1
        before, count = self._cursor.applied, 0
        try:
            async with contextlib.aclosing(replayer.batches(start)) as replies:
                async for reply in replies:
                    frame = sockets.frame(reply.seq, reply.payload, self._limit)
                    decision = cursor.decide_replayed(self._cursor, frame.seq, frame.digest, first=count == 0)
                    count += 1
                    if isinstance(decision, cursor.Restart):
                        self._start_over(decision.reason)
                        return
                    if isinstance(decision, cursor.Hole):
                        self._ask_next = self._cursor.applied + 1
                        return
                    if isinstance(decision, cursor.Confirm):
                        self._cursor = cursor.confirmed(self._cursor)
                        yield self._told(facts.Attached(frame.seq + 1, False, continued=True))
                    elif isinstance(decision, cursor.Apply):
                        self._ahead[frame.seq] = frame.digest
                        for fact in self._hand_over(decision, frame, live=False):
                            yield fact
                        if count % _SLICE == 0:
                            await asyncio.sleep(0)
        except replay.ReplayFailed as error:
            self.counters.replays_failed += 1
            self._unanswered = str(error)
            self._log.warning("kv_replay_failed", start=start, error=self._unanswered)
            if self._cursor.standing == "sure" and self._cursor.applied > before:
                self._ask_next = self._cursor.applied + 1  # the end marker may have been what was lost
            return
        if count:
            return
        self._unanswered = f"the replay socket holds nothing from batch {start} on"
        if waiting and self._cursor.standing != "doubtful":
            return
        empty = cursor.decide_empty(self._cursor)
        if isinstance(empty, cursor.Restart):
            self._start_over(empty.reason)
        elif empty is not None:
            self._cursor = cursor.emptied(self._cursor)
            yield self._told(empty)

    def _start_over(self, reason: str) -> None:
        """Another life answered: ask for its beginning."""
        self._cursor = cursor.restarted(reason)
        self._ahead.clear()
        self._ask_next = 0

    def _hand_over(self, decision: cursor.Apply, frame: sockets.Frame, *, live: bool) -> Iterator[facts.Fact]:
        """The batch, after what has to be said first. The position moves before the consumer sees it."""
        if decision.fact is not None:
            yield self._told(decision.fact)
        self._cursor = cursor.applied(self._cursor, frame.seq, frame.digest, live=live)
        if frame.payload is None:
            reason = f"batch of {frame.size} bytes is beyond the limit of {self._limit}"
            yield self._told(facts.Gap(frame.seq, frame.seq, reason))
            return
        self.counters.batches += 1
        self.counters.replayed += not live
        yield facts.Batch(frame.seq, frame.payload, frame.digest, not live)

    def _told(self, fact: facts.Fact) -> facts.Fact:
        """Log what an operator would want to know, and count it. Returns the fact."""
        match fact:
            case facts.NewLife():
                self.counters.lives += 1
                self._log.warning("kv_engine_new_life", complete=fact.complete, reason=fact.reason)
            case facts.Attached(continued=True):
                self._log.info("kv_source_continued", batch=fact.seq)
            case facts.Attached():
                self.counters.lives += 1
                say = self._log.info if fact.complete else self._log.warning
                say("kv_source_attached", batch=fact.seq, complete=fact.complete, reason=fact.reason)
            case facts.Gap():
                self.counters.gaps += 1
                self._log.warning("kv_gap", first=fact.first, last=fact.last, reason=fact.reason)
            case facts.Bridged():
                self._log.info("kv_gap_bridged", first=fact.first, last=fact.last)
            case facts.Gone():
                self._log.warning("kv_engine_gone", seconds=round(fact.seconds, 1))
            case facts.Silent():
                self._log.warning("kv_engine_silent", advice=fact.advice)
            case _:
                pass
        return fact
