"""One rank of an engine as a sequence of facts: batches in order, exactly once, and what is known about completeness.

`Source.follow()` is the whole interface. It connects, and dials for ever; it asks the replay socket at first contact,
after a reconnect and for holes; it says when the engine is gone, or has never said anything. What a fact means for
the table is in facts.py.

Nothing that an engine sends raises. Closing the generator closes the sockets.
Not here: decoding (decode.py), the order of batches (sequencer.py).
Rules: design.md section 3; docs/design/0001-kv-wire.md; TR-03 to TR-06, TR-13.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

import structlog
import zmq

from subscribers.kvevents import endpoints, facts, link, replay, sequencer, sockets

log = structlog.get_logger()

SILENT_AFTER: Final = 30.0  # seconds without a first message until one line says so
_SLICE: Final = 16  # batches handed over between two chances for other tasks to run


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
        pause: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.where = where
        self._clock = clock
        self._limits = limits
        self._deadlines = deadlines
        self._receiver = sockets.Receiver(where.events, topic=topic, limits=limits, clock=clock, pause=pause)
        self._sequencer = sequencer.Sequencer(
            resume,
            replays=where.replay is not None,
            payload_limit=limits.payload,
            context={"endpoint": where.events, "rank": where.rank},
        )
        self._link = link.Link(endpoint=where.events, topic=topic, since=clock(), silent_after=clock() + silent_after)
        self._log = log.bind(endpoint=where.events, rank=where.rank)

    @property
    def counters(self) -> sequencer.Counters:
        return self._sequencer.counters

    @property
    def received(self) -> sockets.Counters:
        """What the receiving thread counted: malformed, oversized and dropped frames among them."""
        return self._receiver.counters

    @property
    def waiting(self) -> int:
        """Frames in the queue now."""
        return self._receiver.waiting()

    @property
    def position(self) -> facts.Position | None:
        """The last batch handed over."""
        return self._sequencer.position

    async def follow(self) -> AsyncGenerator[facts.Fact, None]:
        """Facts for ever. Once per source, and inside contextlib.aclosing: closing it closes the sockets."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        replayer = None if self.where.replay is None else replay.Replayer(context, self.where.replay, self._deadlines)
        self._receiver.start(context)
        try:
            handed = 0
            while True:
                item = await self._receiver.get(self._patience())
                for fact in self._taken(item):
                    yield fact
                while replayer is not None and self._sequencer.ask is not None:
                    failure = ""
                    try:
                        async with contextlib.aclosing(replayer.batches(self._sequencer.ask)) as replies:
                            async for reply in replies:
                                frame = sockets.frame(reply.seq, reply.payload, self._limits.payload)
                                for fact in self._sequencer.replied(frame):
                                    yield fact
                                if self._sequencer.enough:
                                    break
                                handed += 1
                                if handed % _SLICE == 0:
                                    await asyncio.sleep(0)
                    except replay.ReplayFailed as error:
                        failure = str(error)
                    for fact in self._sequencer.answered(failure):
                        yield fact
                handed += 1
                if handed % _SLICE == 0:
                    await asyncio.sleep(0)
        finally:
            self._receiver.stop()
            context.destroy(linger=0)

    def _patience(self) -> float | None:
        due = link.due(self._link)
        return None if due is None else max(0.0, due - self._clock())

    def _taken(self, item: sockets.Item | None) -> Iterator[facts.Fact]:
        """A frame, a change of the connection, or nothing but time."""
        if isinstance(item, sockets.Frame):
            self._link = link.heard(self._link)
            yield from self._sequencer.live(item)
        elif item is not None:
            self._link, changed = link.changed(self._link, item.event, item.at)
            if changed is not None:
                yield changed
            if isinstance(changed, facts.Connected):
                yield from self._sequencer.connected()
        self._link, passed = link.ticked(self._link, self._clock())
        if isinstance(passed, facts.Gone):
            self._sequencer.gone()
            self._log.warning("kv_engine_gone", seconds=round(passed.seconds, 1))
        elif isinstance(passed, facts.Silent):
            self._log.warning("kv_engine_silent", advice=passed.advice)
        if passed is not None:
            yield passed
