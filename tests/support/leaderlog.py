"""A leader's recorder over a log in memory, with a world of its own that follows that log."""

from collections.abc import Callable
from typing import Any

import msgspec

from crds import core
from eventstore import events, memory
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers.kubernetes.appending import Recorder
from subscribers.kubernetes.machine import Complete, Fact, Seen
from subscribers.kubernetes.narrow import narrow
from tests.support import fakeapi


class Leader:
    """`world` folds when `folded` is awaited, as a follower would: no further than asked, unless `follow` says so."""

    def __init__(self, log: memory.MemoryStore, *, epoch: int = 1, leads: Callable[[], bool] = lambda: True) -> None:
        self.log, self.world, self._clock = log, World(), 0
        self.recorder = Recorder(
            log, self.world, instance=f"leader-{epoch}", epoch=epoch, folded=self.folded, leads=leads, clock=self._now
        )

    def _now(self) -> int:
        self._clock += 1
        return self._clock

    async def folded(self, sequence: int) -> None:
        async for batch in self.log.read(after=self.world.sequence):
            for stored in batch:
                if self.world.sequence >= sequence:
                    return
                fold(self.world, stored, incarnation="i")

    async def follow(self) -> None:
        await self.folded((await self.log.extent()).last)

    async def record(self, *facts: Fact) -> None:
        await self.recorder.record(core.PODS, list(facts))


def seen(name: str, *, listed: bool = False, **how: Any) -> Seen:
    return Seen(narrow(core.PODS, msgspec.json.encode(fakeapi.document(name, **how))), listed)


def said(log: memory.MemoryStore) -> list[str]:
    """The log in short words: what, which, at which version."""
    found = []
    for message in log.log.messages:
        decoded = events.decode(message)  # type: ignore[arg-type]
        assert isinstance(decoded, events.Decoded)
        name = message.subject.rsplit(".", 1)[-1]
        match decoded.data:
            case events.ObjectSeen() as one:
                found.append(f"seen {name} {one.uid}@{one.resource_version}")
            case events.ObjectGone() as one:
                found.append(f"gone {name} {one.uid}@{one.resource_version}")
            case events.KindListed() as one:
                found.append(f"listed {one.count}@{one.list_version}")
            case other:
                found.append(type(other).__name__)
    return found


COMPLETE = Complete("99", 0)
