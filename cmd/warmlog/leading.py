"""One term of leading: watches, decisions, effects, timers, contact and certificates, from a taken Lease until its end.

Everything in it belongs to one epoch and one world; what outlives it (counters) is handed in. `run` ends by being
cancelled, or with the error that made going on useless: the log takes nothing, or is another one.

Rules: design.md sections 2 (`watch.contact`, `timer.fired`), 4 and 5.
"""

import asyncio
import collections
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from eventstore import events, store, subjects
from handlers.effects.lease import Lease
from handlers.effects.worker import Worker
from handlers.reconcile import Loop, Timer
from handlers.system import System
from subscribers import metrics
from subscribers.following import Follower
from subscribers.kubernetes.appending import Recorder
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from subscribers.kubernetes.watcher import Watcher

log = structlog.get_logger()

LOOK: Final = 0.1  # seconds between two looks at deadlines, and at whether the API is in contact
#: The API answered the Lease's renewal within so many seconds: it is asked every 2 s.
ANSWERED: Final = 2.8
CERTIFY_AGAIN: Final = 30.0  # seconds after a defect
WRITE_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Append(Protocol):
    async def __call__(self, data: events.Event, said: str, subject: str) -> store.Appended: ...


class Tally:
    """What is counted across terms."""

    def __init__(self, registry: metrics.Registry) -> None:
        self.effects: collections.Counter[tuple[str, str]] = collections.Counter()
        self.watches: collections.Counter[tuple[str, str]] = collections.Counter()
        self.recorded = self.conflicts = self.looked = self.fired = self.defects = 0
        self.seconds = registry.histogram(
            "warmlog_effect_seconds", "How long a write to Kubernetes took.", buckets=WRITE_SECONDS
        ).labels()


class Term:
    """Make it after the election was folded."""

    def __init__(
        self,
        *,
        epoch: int,
        instance: str,
        systems: Sequence[System],
        client: Client,
        follower: Follower,
        lease: Lease,
        leads: Callable[[], bool],
        may: Callable[[], bool],
        append: Append,
        certificates: Callable[[], Awaitable[None]],
        tally: Tally,
    ) -> None:
        self.epoch, self.follower, self.lease, self.tally = epoch, follower, lease, tally
        self._append, self._certificates = append, certificates
        world = follower.world
        self.loop = Loop(systems, world)
        self.recorder = Recorder(
            follower.store, world, instance=instance, epoch=epoch, folded=follower.folded, leads=leads
        )
        self.watchers = [Watcher(client, kind, self.recorder, listed=self._listed) for kind in sorted(self.loop.kinds)]
        self.worker = Worker(
            self.loop,
            Objects(client),
            follower.store,
            epoch=epoch,
            instance=instance,
            may=may,
            counts=tally.effects,
            timed=tally.seconds.observe,
        )
        self._told: set[str] = set()

    # What follows from the log ------------------------------------------------------------------------------------

    def folded(self, event: events.Decoded) -> None:
        self.loop.folded(event)
        if self.loop.defects:
            self._tell_defects()

    def wake(self) -> None:
        self.worker.wake()

    def _listed(self, kind: str) -> None:
        self.loop.listed(kind)
        self.worker.wake()

    def _tell_defects(self) -> None:
        for text in self.loop.defects:
            self.tally.defects += 1
            if text.split(":", 1)[0] not in self._told and len(self._told) < 100:
                self._told.add(text.split(":", 1)[0])
                log.error("handler-defect", error=text)
        self.loop.defects.clear()

    # Working ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for watcher in self.watchers:
                tasks.create_task(watcher.run())
            tasks.create_task(self.worker.run())
            tasks.create_task(self._timers())
            tasks.create_task(self._contact())
            tasks.create_task(self._certify())

    def count(self) -> None:
        """This term's numbers join those of the terms before."""
        self.tally.recorded += self.recorder.appended
        self.tally.conflicts += self.recorder.conflicts
        self.tally.looked += self.worker.looked
        self.tally.watches.update(self.watched())

    def watched(self) -> collections.Counter[tuple[str, str]]:
        return collections.Counter({(one.kind, what): n for one in self.watchers for what, n in one.counts.items()})

    async def _certify(self) -> None:
        """Whatever is wrong with certificates must not stop the rest."""
        while True:
            try:
                await self._certificates()
            except Exception:
                log.exception("certificates-defect")
            await asyncio.sleep(CERTIFY_AGAIN)

    async def _contact(self) -> None:
        """Tells that a quiet log is not a stale one: every watch is open, and the API answers."""
        while True:
            await asyncio.sleep(LOOK)
            answered = asyncio.get_running_loop().time() - self.lease.heard < ANSWERED
            if answered and all(one.current for one in self.watchers):
                await self.recorder.heard()

    async def _timers(self) -> None:
        """Deadlines that the world asked for. The stream's clock says when, the event says that it was so."""
        while True:
            await asyncio.sleep(LOOK)
            for timer in self.loop.due(self.follower.now_ns):
                await self._fire(timer)

    async def _fire(self, timer: Timer) -> None:
        data = events.TimerFired(handler=timer.handler, key=str(timer.key), due_ns=timer.due_ns, epoch=self.epoch)
        said = f"{timer.handler}:{timer.key}:{timer.due_ns}:{self.follower.world.sequence}"
        try:
            await self._append(data, said, subjects.timer_subject(timer.handler))
        except store.StoreError:
            self.loop.undo(timer)
            raise
        self.tally.fired += 1
