"""One replica: its table and the sessions that tell of it, one after another.

A session lasts as long as one life of the engine. A new life begins a new session, whose first keyframe replaces all
that was told before; an engine that is gone ends its session with a farewell, and nothing is said until it is back.

Not here: what a session says and when (session), what happened to the engine (source), what events mean (table).
`run` ends with Fenced, with a StoreError that no resending mends, or by being cancelled.

Rules: design.md section 3; docs/design/0001-kv-wire.md.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import structlog

from eventstore import kvwire
from subscribers.kvevents import session

log = structlog.get_logger()


class Table(session.Table, Protocol):
    """What a replica needs of table.Table."""

    def forget(self) -> None: ...


class Sink(session.Sink, Protocol):
    async def listen(self, on_order: Callable[[kvwire.Control], None]) -> None: ...


class Replica:
    """`boot` names this process's sessions apart from those of any other; it must be unique, not secret."""

    def __init__(
        self,
        identity: session.Identity,
        table: Table,
        sink: Sink,
        *,
        boot: str,
        clock: Callable[[], float],
        window: float = session.WINDOW,
    ) -> None:
        self._window = window
        self.identity, self.table = identity, table
        self.coverage: kvwire.Coverage = "partial"
        self.stats: kvwire.Stats | None = None
        self._sink, self._boot, self._clock = sink, boot, clock
        self._lives = 0
        self._reason = "start"
        self._speaking: session.Session | None = None
        self._open = asyncio.Event()  # there is something to tell of
        self._over = asyncio.Event()  # the session that speaks must end

    @property
    def speaking(self) -> session.Session | None:
        """The one that speaks now."""
        return self._speaking

    # What the consumer says ---------------------------------------------------------------------------------------

    def begin(self, coverage: kvwire.Coverage, reason: str) -> None:
        """Tell of the table as it is: at first contact, or when an engine came back. Also ends an older session."""
        self.coverage, self._reason = coverage, reason
        self._over.set()
        self._open.set()

    def new_life(self, coverage: kvwire.Coverage, reason: str) -> None:
        """The engine's cache started empty: forget everything, in a new session."""
        self.table.forget()
        self.begin(coverage, reason)

    def forget(self, reason: str) -> None:
        """What the table says may be wrong from here on: start over as partial, in the same session."""
        self.table.forget()
        self.coverage = "partial"
        self._retell(reason)

    def cleared(self, coverage: kvwire.Coverage) -> None:
        """The engine dropped most of what the table told: one keyframe says it in constant time."""
        self.table.drop_pending()
        self.coverage = coverage
        self._retell("cleared")

    def became(self, coverage: kvwire.Coverage) -> None:
        """Now everything is known (or not any more) although nothing was dropped."""
        if coverage != self.coverage:
            self.coverage = coverage
            self._retell(coverage)

    def changed(self) -> None:
        if self._speaking is not None:
            self._speaking.changed()

    async def room(self) -> None:
        """Wait while too much waits to be told, as long as the log answers."""
        if self._speaking is not None and self._open.is_set():
            await self._speaking.room()

    def gone(self) -> None:
        """The engine's process ended, and its cache with it."""
        self.table.forget()
        self._open.clear()
        self._over.set()

    def measured(self, stats: kvwire.Stats) -> None:
        """Engine statistics: they travel with the next heartbeat."""
        self.stats = stats
        if self._speaking is not None:
            self._speaking.plan.stats = stats

    def _retell(self, reason: str) -> None:
        if self._speaking is not None:
            self._speaking.plan.coverage = self.coverage
            self._speaking.plan.want_keyframe(reason)
            self._speaking.changed()

    # Speaking -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self._sink.listen(self._hear)
        while True:
            while not self._open.is_set():  # a wait ends also when the engine came and went in one breath
                await self._open.wait()
            self._over.clear()
            speaking = self._speaking = self._next_session()
            await _until(speaking.run(), self._over)
            if not self._open.is_set():
                log.info("the engine is gone, its session ends", replica=self.identity.replica)
                await _until(speaking.finish("gone"), self._open)

    def _next_session(self) -> session.Session:
        self._lives += 1
        name = f"{self._boot}-{self._lives}"
        plan = session.Plan(self.identity, name, self.table, self._clock(), reason=self._reason, window=self._window)
        plan.coverage, plan.stats = self.coverage, self.stats
        log.info(
            "a session begins",
            replica=self.identity.replica,
            session=name,
            coverage=self.coverage,
            reason=self._reason,
        )
        return session.Session(plan, self._sink, clock=self._clock)

    def _hear(self, order: kvwire.Control) -> None:
        if self._speaking is not None:
            self._speaking.hear(order)

    async def finish(self) -> None:
        """The last flush at the end of this process; `run` must have been cancelled. Takes as long as the log does."""
        if self._speaking is not None and self._open.is_set():
            await self._speaking.finish("stopped")


async def _until(work: Coroutine[Any, Any, None], event: asyncio.Event) -> None:
    """Do `work` until it ends or `event` is set; its error is raised here."""
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
