"""The world that follows a log: who waits for an event, what happens when the log is another one, what time it is."""

import asyncio
import time

import pytest

from eventstore import events, memory, store, subjects
from handlers.world.state import World
from subscribers import following
from subscribers.following import Follower, Renewed


async def append(log: memory.MemoryStore, number: int) -> int:
    made = events.event(
        events.WatchContact(epoch=number), id=f"e{number}", source="t", subject=subjects.WATCH, time_ns=1, actor="t"
    )
    return (await log.append(made)).sequence


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_who_waits_for_an_event_is_told_when_it_is_folded() -> None:
    log = memory.MemoryStore()
    follower = Follower(log)
    running = asyncio.create_task(follower.run())
    await follower.caught_up.wait()
    waiting = asyncio.create_task(follower.folded(3))
    await append(log, 1)
    await append(log, 2)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await append(log, 3)
    await waiting
    assert follower.world.sequence == 3
    await follower.folded(2)
    await ended(running)


async def test_who_waits_for_what_never_comes_is_told_too() -> None:
    log = memory.MemoryStore()
    worlds: list[World] = []
    follower = Follower(log, renewed=worlds.append)
    for number in range(5):
        await append(log, number)
    running = asyncio.create_task(follower.run())
    await follower.caught_up.wait()
    before = follower.world
    waiting = asyncio.create_task(follower.folded(9))
    await asyncio.sleep(0)
    log.lose_end(2)
    await log.log.wake()
    with pytest.raises(Renewed, match="folded again"):
        await waiting
    await follower.caught_up.wait()
    assert worlds == [follower.world]
    assert follower.world is not before
    assert (before.sequence, follower.world.sequence) == (5, 2)
    await ended(running)


async def test_between_slices_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "SLICE", 0.0)
    log = memory.MemoryStore()
    for number in range(200):
        await append(log, number)
    slices: list[int] = []
    follower = Follower(log)
    follower._slice_done = lambda: slices.append(follower.world.sequence)
    running = asyncio.create_task(follower.run())
    await follower.caught_up.wait()
    assert slices == sorted(slices)
    assert max(after - before for before, after in zip([0, *slices], slices, strict=False)) <= following.LOOK
    await ended(running)


async def test_time_is_the_streams_and_goes_on_between_events() -> None:
    now = 5 * 10**18
    log = memory.MemoryStore(clock=lambda: now)
    follower = Follower(log)
    assert follower.now_ns == 0
    running = asyncio.create_task(follower.run())
    await follower.folded(await append(log, 1))
    assert now <= follower.now_ns < now + 10**9
    first = follower.now_ns
    time.sleep(0.002)
    assert follower.now_ns >= first + 2_000_000
    now -= 10**15  # the server's clock jumps back: time stands at the newest that was folded
    await follower.folded(await append(log, 2))
    assert 0 <= follower.now_ns - (now + 10**15) < 10**9
    await ended(running)


async def test_an_outage_is_waited_out() -> None:
    log = memory.MemoryStore()
    follower = Follower(log)
    extents = iter([store.Unavailable("away"), None])

    async def extent() -> store.Extent:
        if (error := next(extents, None)) is not None:
            raise error
        return log.log.extent()

    log.extent = extent  # type: ignore[method-assign]
    running = asyncio.create_task(follower.run())
    await append(log, 1)
    await follower.folded(1)
    await ended(running)
