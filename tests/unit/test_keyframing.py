"""Keyframes over a log in memory: taken at marks, verified, compared, begun from. The marks are close together here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from eventstore import envelope, events, keyframes, memory, subjects
from handlers.world import keyframe, marks
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers import beginning, keyframing
from subscribers.following import Follower
from tests.support.worlds import Object


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "EVENTS", 5)
    monkeypatch.setattr(keyframing, "LOOK", 0.01)


def pod(number: int) -> envelope.Envelope:
    name = f"p{number}"
    document: Object = {"metadata": {"name": name, "namespace": "n", "labels": {"a": "é" * 50_000}}}
    data = events.ObjectSeen(uid=f"u{number}", resource_version="1", shape=1, object=document)
    subject = subjects.object_subject("pods", "n", name)
    return events.event(data, id=name, source="t", subject=subject, time_ns=1, actor="t")


class Controller:
    def __init__(self, log: memory.MemoryStore, snaps: memory.MemoryStore, *, leads: bool) -> None:
        self.leading = leads
        self.keyframer = keyframing.Keyframer(
            log, snaps, instance="c", leads=lambda: self.leading, world=lambda: self.follower.world
        )
        self.follower = Follower(log, snaps=snaps, marked=self.keyframer.marked)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Controller"]:
        tasks = [asyncio.create_task(self.follower.run()), asyncio.create_task(self.keyframer.run())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(2):
        while not true():
            await asyncio.sleep(0.001)


Logs = tuple[memory.MemoryStore, memory.MemoryStore]


@pytest.fixture
async def logs() -> Logs:
    return memory.MemoryStore(), memory.MemoryStore(name="snaps")


async def world_of(log: memory.MemoryStore) -> World:
    world = World()
    async for batch in log.read():
        for one in batch:
            fold(world, one, incarnation=log.log.extent().incarnation)
    return world


async def fill(log: memory.MemoryStore, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await log.append(pod(number))


async def test_the_leader_takes_one_at_each_mark_and_a_standby_finds_it_the_same(logs: Logs) -> None:
    log, snaps = logs
    leads, stands = Controller(log, snaps, leads=True), Controller(log, snaps, leads=False)
    async with leads.running() as leader, stands.running() as standby:
        await fill(log, 1, 5)
        await until(lambda: leader.keyframer.written == 1 and standby.keyframer.compared == 1)
        await fill(log, 6, 11)
        await until(lambda: leader.keyframer.written == 2 and standby.keyframer.compared == 2)
        assert standby.keyframer.written == 0
        await until(lambda: leader.keyframer._mark is None and standby.keyframer._mark is None)
        assert [standby.keyframer.mismatches, leader.keyframer.mismatches] == [0, 0]
    heads = await keyframes.heads(snaps)
    assert [head.sequence for head in heads] == [5, 10]
    assert heads[1].pieces > 1


async def test_who_begins_from_a_keyframe_comes_to_the_same_bytes(logs: Logs) -> None:
    log, snaps = logs
    async with Controller(log, snaps, leads=True).running() as leader:
        await fill(log, 1, 5)
        await until(lambda: leader.keyframer.written == 1)
    await fill(log, 6, 8)
    times = list(log.log.messages)
    log.retain(4)  # what came before is gone: only the keyframe knows it
    async with Controller(log, snaps, leads=False).running() as late:
        await until(lambda: late.follower.world.sequence == 8)
        assert len(late.follower.world.keys("pods")) == 8
        whole = memory.MemoryStore(clock=iter([one.time_ns for one in times]).__next__)
        await fill(whole, 1, 8)
        assert keyframe.digest(await world_of(whole)) == keyframe.digest(late.follower.world)


async def test_a_standby_that_disagrees_raises_an_alarm(logs: Logs) -> None:
    log, snaps = logs
    async with Controller(log, snaps, leads=False).running() as standby:
        standby.follower.world.epoch = 99  # a defect of its fold
        async with Controller(log, snaps, leads=True).running() as leader:
            await fill(log, 1, 5)
            await until(lambda: leader.keyframer.written == 1)
            await until(lambda: standby.keyframer.compared == 1)
    assert (standby.keyframer.mismatches, leader.keyframer.mismatches) == (1, 0)


async def test_digests_of_two_forms_are_not_compared(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a version is rolled out: the other one has a field more in a Struct."""
    log, snaps = logs
    await taken(log, snaps, 1)
    monkeypatch.setattr(keyframe, "form", lambda: "another")
    async with Controller(log, snaps, leads=False).running() as standby:
        standby.follower.snaps = None
        standby.follower.world.epoch = 99
        await until(lambda: standby.follower.world.sequence == 5 and bool(standby.keyframer._digests))
        await until(lambda: standby.keyframer.counts.newest == 5)
    assert (standby.keyframer.compared, standby.keyframer.mismatches) == (0, 0)


async def test_a_new_leader_takes_what_the_old_one_did_not_come_to(logs: Logs) -> None:
    log, snaps = logs
    async with Controller(log, snaps, leads=False).running() as standby:
        await fill(log, 1, 7)
        await until(lambda: standby.follower.world.sequence == 7)
        assert await keyframes.heads(snaps) == []
        standby.leading = True
        await until(lambda: standby.keyframer.written == 1)
    assert [head.sequence for head in await keyframes.heads(snaps)] == [5]


async def test_a_leader_that_never_saw_the_mark_takes_one_where_it_is(logs: Logs) -> None:
    log, snaps = logs
    await fill(log, 1, 7)
    made = Controller(log, snaps, leads=True)
    made.keyframer.marked = lambda world, stored: None  # type: ignore[method-assign]
    made.follower = Follower(log, snaps=snaps)
    async with made.running():
        await until(lambda: made.keyframer.written == 1)
    assert [head.sequence for head in await keyframes.heads(snaps)] == [7]


async def taken(log: memory.MemoryStore, snaps: memory.MemoryStore, count: int) -> None:
    async with Controller(log, snaps, leads=True).running() as leader:
        for number in range(count):
            await fill(log, number * 5 + 1, number * 5 + 5)
            await until(lambda: leader.keyframer.written == number + 1)  # noqa: B023


async def test_the_nearest_is_the_newest_at_or_before(logs: Logs) -> None:
    log, snaps = logs
    await taken(log, snaps, 3)
    for asked, found in ((14, 10), (15, 15), (10, 10), (9, 5)):
        world = await beginning.nearest(log, snaps, sequence=asked)
        assert world is not None
        assert world.sequence == found
    assert await beginning.nearest(log, snaps, sequence=4) is None
    assert await beginning.nearest(log, snaps, time_ns=0) is None


async def test_a_damaged_one_is_passed_over_and_an_older_one_used(logs: Logs) -> None:
    log, snaps = logs
    await taken(log, snaps, 2)
    victim = next(n for n, one in enumerate(snaps.log.messages) if one.subject == subjects.snap_subject(10))
    one = snaps.log.messages[victim]
    snaps.log.messages[victim] = msgspec.structs.replace(one, body=one.body.replace(b"u1", b"u2"))
    world = await beginning.nearest(log, snaps)
    assert world is not None
    assert world.sequence == 5


async def test_one_of_an_older_fold_is_used_only_where_the_beginning_is_gone(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, snaps = logs
    await taken(log, snaps, 2)
    monkeypatch.setattr(keyframe, "FOLD", keyframe.FOLD + 1)
    assert await beginning.nearest(log, snaps) is None
    log.retain(3)
    world = await beginning.nearest(log, snaps)
    assert world is not None
    assert world.sequence == 10


async def test_one_of_another_log_is_not_used(logs: Logs) -> None:
    log, snaps = logs
    await taken(log, snaps, 1)
    other = memory.MemoryStore()
    await fill(other, 2, 9)
    assert await beginning.nearest(other, snaps) is None
    assert await beginning.earliest(other, snaps) is None


async def test_one_from_before_a_restore_is_used_where_the_past_is_the_same(logs: Logs) -> None:
    log, snaps = logs
    await taken(log, snaps, 2)
    log.lose_end(7)
    log.log.counter += 1
    world = await beginning.nearest(log, snaps)
    assert world is not None
    assert (world.sequence, world.incarnation) == (5, log.log.extent().incarnation)
    head = await beginning.earliest(log, snaps)
    assert head is not None
    assert head.sequence == 5


async def test_an_outage_of_the_stream_only_delays_it(logs: Logs) -> None:
    log, snaps = logs
    async with Controller(log, snaps, leads=True).running() as leader:
        snaps.faults.outage = True
        await fill(log, 1, 5)
        await until(lambda: leader.keyframer.failures > 0)
        snaps.faults.outage = False
        await snaps.log.wake()
        await until(lambda: leader.keyframer.written == 1)
    assert (await keyframes.heads(snaps))[0].fold == keyframe.FOLD
