"""The world of this process: the control log, folded as it grows, from the newest keyframe on where there is one.

Slices are short, so that admission and timers run between them. When the log lost its end, the world is made anew from
the beginning; who holds the old one is told by `renewed`.

Rules: design.md sections 2 ("Positions") and 5 ("slices of at most 2 ms").
"""

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Final

import structlog

from eventstore import events, store
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers import beginning

log = structlog.get_logger()

SLICE: Final = 0.002  # seconds of folding before others may run
LOOK: Final = 16  # events between two looks at the clock


class Renewed(store.Unavailable):
    """The world that somebody waited for is gone: the log is another one."""


class Follower:
    """`run` until cancelled. `world` is replaced, never emptied, when the log is another one."""

    def __init__(
        self,
        log_store: store.EventStore,
        *,
        folded: Callable[[events.Decoded], None] = lambda event: None,
        renewed: Callable[[World], None] = lambda world: None,
        slice_done: Callable[[], None] = lambda: None,
        snaps: store.EventStore | None = None,
        marked: Callable[[World, store.Stored], None] = lambda world, stored: None,
    ) -> None:
        self.store, self.snaps = log_store, snaps
        self.world = World()
        self.caught_up = asyncio.Event()
        self.behind = True
        self._folded, self._renewed, self._slice_done, self._marked = folded, renewed, slice_done, marked
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._asked = 0
        self._anchor = 0  # monotonic, when the world's newest event was folded

    async def run(self) -> None:
        while True:
            try:
                extent = await self.store.extent()
                if self.world.incarnation not in ("", extent.incarnation):
                    self._renew("it is another incarnation")
                if not self.world.sequence:
                    await self._begin()
                async for batch in self.store.read(after=self.world.sequence, follow=True):
                    if batch:
                        await self._take(batch, extent.incarnation)
                    self.behind = bool(batch)
                    if not batch:
                        self.caught_up.set()
                        self._slice_done()
            except store.Regressed as error:
                self._renew(str(error))
            except store.Unavailable as error:
                self.behind = True
                log.warning("log-unreadable", reason=str(error))
                await asyncio.sleep(0.5)

    async def _take(self, batch: list[store.Stored], incarnation: str) -> None:
        """Fold in slices. What is told between them is told of a world that has come exactly so far."""
        until = time.perf_counter() + SLICE
        for at, stored in enumerate(batch):
            event = fold(self.world, stored, incarnation=incarnation)
            if self.world.marked == stored.sequence:
                self._marked(self.world, stored)
            if event is not None:
                self._folded(event)
            if at % LOOK == LOOK - 1 and time.perf_counter() > until:
                self._sliced()
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE
        self._sliced()
        await asyncio.sleep(0)

    def _sliced(self) -> None:
        self._anchor = time.monotonic_ns()
        self._release()
        self._slice_done()

    @property
    def now_ns(self) -> int:
        """The stream's clock: its newest time folded, and what has passed since. This process's own clock may say what
        it likes, and jump."""
        return self.world.now_ns + (time.monotonic_ns() - self._anchor if self._anchor else 0)

    async def _begin(self) -> None:
        """From the newest keyframe. The world is not replaced: who holds it already sees it filled."""
        found = None if self.snaps is None else await beginning.nearest(self.store, self.snaps)
        first = (await self.store.extent()).first
        if found is not None:
            vars(self.world).update(vars(found))
            log.info("world-begun", keyframe=found.sequence)
        elif first > 1:
            log.warning("world-begins-late", first=first, remedy="what lies before is told again by lists and writes")

    def _renew(self, reason: str) -> None:
        log.warning("log-folded-again", reason=reason)
        self.world = World()
        self.caught_up.clear()
        self._anchor = 0
        waiting, self._waiting = self._waiting, []
        for *_, future in waiting:
            if not future.done():
                future.set_exception(Renewed(f"the log was folded again: {reason}"))
        self._renewed(self.world)

    async def folded(self, sequence: int) -> None:
        """Wait until an event of this sequence is in the world. Raises Renewed when it never will be."""
        if sequence <= self.world.sequence:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked += 1
        heapq.heappush(self._waiting, (sequence, self._asked, future))
        await future

    def _release(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.world.sequence:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
