"""A worker with its surroundings but Kubernetes and NATS: a log in memory, a world that follows it, a toy system."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from crds import core
from eventstore import events, memory, subjects
from handlers.effects.worker import Worker
from handlers.reconcile import Loop
from subscribers.following import Follower
from tests.support.fakecluster import FakeCluster
from tests.support.toysystem import KEY, Toy


class Rig:
    def __init__(self) -> None:
        self.log, self.cluster, self.toy = memory.MemoryStore(), FakeCluster(), Toy(kinds=(core.SERVICES, core.PODS))
        self.follower = Follower(self.log, folded=self._folded, slice_done=lambda: self.worker.wake())
        self.loop = Loop([self.toy], self.follower.world)
        self.leads = True
        self.worker = Worker(
            self.loop, self.cluster, self.log, epoch=7, instance="me", may=lambda: self.leads, clock=lambda: 10**18
        )

    def _folded(self, event: events.Decoded) -> None:
        self.loop.folded(event)

    async def tell(self, subject: str, data: events.Event) -> int:
        said = f"{len(self.log.log.messages)}"
        event = events.event(data, id=said, source="t", subject=subject, time_ns=1, actor="t")
        sequence = (await self.log.append(event)).sequence
        await self.follower.folded(sequence)
        return sequence

    async def begin(self) -> None:
        await self.follower.caught_up.wait()
        for kind in sorted(self.loop.kinds):
            await self.tell(subjects.kind_subject(kind), events.KindListed(list_version="1", shape=1, count=0))
            self.loop.listed(kind)
        self.worker.wake()

    async def there(self, key: Any = KEY) -> None:
        """The object is in Kubernetes and in the world."""
        live = self.cluster.put(key, {"metadata": {"ownerReferences": [{"uid": "o", "controller": True}]}})
        metadata = live["metadata"]
        document = {"metadata": {"name": key.name, "namespace": key.namespace}}
        seen = events.ObjectSeen(
            uid=metadata["uid"], resource_version=metadata["resourceVersion"], shape=1, object=document
        )
        await self.tell(subjects.object_subject(*key), seen)

    async def quiet(self) -> None:
        """Until nothing is to be done, and nothing waits."""
        while not (self.worker.quiet and self.follower.world.sequence == self.log.log.extent().last):
            await asyncio.sleep(0.01)

    def look(self, key: Any = KEY) -> None:
        self.loop.add((self.toy.name, key))
        self.worker.wake()

    def told(self, of: type[Any]) -> list[Any]:
        """What the log says, of one type."""
        decoded = [events.decode(one) for one in (self.log.log.messages)]  # type: ignore[arg-type]
        return [one.data for one in decoded if isinstance(one, events.Decoded) and isinstance(one.data, of)]


Start = Callable[[], Awaitable[Rig]]


@contextlib.asynccontextmanager
async def running(rig: Rig) -> AsyncIterator[Rig]:
    tasks = [asyncio.create_task(rig.follower.run()), asyncio.create_task(rig.worker.run())]
    try:
        await rig.begin()
        yield rig
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def run() -> Callable[[Rig], Any]:
    return running
