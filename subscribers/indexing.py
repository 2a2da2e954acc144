"""Follows `WARMLOG_KV` into the prefix index, in slices that never stall a lookup.

Until it has caught up for the first time the index is half filled: `caught_up` is False, orders are kept back (they
would answer messages of long ago; those that are still wanted are given then), and lookups must say so. When the stream
lost its end the index is folded again from the start: losing the tail costs cache misses, never wrong answers.

Servers that have folded the same messages give the same answers: while the stream moves, time is the newest message's.

Not here: appending edges and sending orders (they are handed to `on_outcome`), the fold itself (handlers/prefixindex).
Rules: design.md section 3; section 5 ("work is large").
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from eventstore import store
from handlers.prefixindex import index, outcomes

log = structlog.get_logger()

SLICE_NS: Final = 1_000_000
_CHECK_EVERY: Final = 16  # small messages between two looks at the clock
_LARGE: Final = 1024  # bytes; after a larger message the clock is looked at: one may hold 4,096 keys, which take ms
TICK_SECONDS: Final = 0.25
_SKEW_SAMPLES: Final = 64
MOVING_NS: Final = 1_000_000_000  # a stream that brought something within this time moves


class Indexer:
    """`index` is replaced by a new one when the stream regressed: ask for it each time."""

    def __init__(
        self,
        kv: store.KVLog,
        make_index: Callable[[], index.Index],
        on_outcome: Callable[[outcomes.Outcome], None],
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.index = make_index()
        self.incarnation = ""
        self.caught_up = False
        self.last = 0  # the stream's end when we began
        self._kv, self._make, self._on_outcome, self._clock = kv, make_index, on_outcome, clock
        self._skews: list[int] = []
        self._skew = 0  # the smallest of them
        self._lost: list[index.Spoken] = []  # what was known before the stream lost its end

    @property
    def behind(self) -> int:
        """Messages still to read until what the stream held at the start is folded."""
        return 0 if self.caught_up else max(0, self.last - self.index.position)

    def now(self) -> int:
        """The stream's clock now, in nanoseconds. While the stream moves it stands at its newest message, so that time
        is a part of the position; else it is our clock, less what the newest messages show it to be ahead."""
        reached = self.index.time_ns
        ours = self._clock() - self._skew
        return ours if ours - reached >= MOVING_NS else reached

    async def run(self) -> None:
        while True:
            try:
                extent = await self._extent()
                self.incarnation, self.last = extent.incarnation, extent.last
                async for batch in self._kv.read(after=max(self.index.position, extent.first - 1), follow=True):
                    await self._fold(batch)
            except store.Regressed as error:
                log.warning("the stream lost its end, the index is folded again", reason=str(error))
                self._lost = self._lost or self.index.spoken()
                self.index, self.caught_up, self.incarnation = self._make(), False, ""
            except store.Unavailable as error:
                log.warning("WARMLOG_KV cannot be read now", reason=str(error))
                await asyncio.sleep(0.5)

    async def _extent(self) -> store.Extent:
        """What the stream holds; raises Regressed when that is no longer what was folded."""
        if self.incarnation:
            return await self._kv.verify(store.Position(self.incarnation, self.index.position))
        return await self._kv.extent()

    async def _fold(self, batch: Sequence[store.KVMessage]) -> None:
        if not batch:
            if not self.caught_up:
                log.info("the index has caught up", position=self.index.position, blocks=self.index.blocks())
                self.caught_up = True
                for outcome in self.index.ask_again(self.now(), self._lost):
                    self._on_outcome(outcome)
                self._lost = []
            return
        apply, on_outcome = self.index.apply, self._on_outcome
        until = time.perf_counter_ns() + SLICE_NS
        for number, message in enumerate(batch):
            for outcome in apply(message.sequence, message.time_ns, message.subject, message.payload):
                on_outcome(outcome)
            look = number % _CHECK_EVERY == 0 or len(message.payload) > _LARGE
            if look and time.perf_counter_ns() > until:
                await asyncio.sleep(0)
                until = time.perf_counter_ns() + SLICE_NS
        if self.caught_up:
            self._skews.append(self._clock() - batch[-1].time_ns)
            del self._skews[:-_SKEW_SAMPLES]
            self._skew = min(self._skews)

    async def keep_time(self) -> None:
        """Silence, expiry and upkeep. Before the index has caught up, silence is only distance."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.caught_up:
                for outcome in self.index.tick(self.now()):
                    self._on_outcome(outcome)
