"""Skipped events are reported once, with a copy, whoever leads."""

import json
from typing import Any

from eventstore import envelope, events, memory, store, subjects
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers import deadletters


async def log_with(*bodies: bytes) -> tuple[memory.MemoryStore, World]:
    log, world = memory.MemoryStore(), World()
    for body in bodies:
        await log.log.put("wl.x", "", body)
    async for batch in log.read():
        for one in batch:
            fold(world, one, incarnation=log.log.extent().incarnation)
    return log, world


def reporter(log: store.EventStore, dead: store.EventStore, world: World) -> deadletters.Reporter:
    return deadletters.Reporter(log, dead, instance="c", leads=lambda: True, world=lambda: world)


async def reports(dead: memory.MemoryStore) -> list[dict[str, Any]]:
    return [json.loads(one.body)["data"] async for batch in dead.read() for one in batch]


async def test_a_copy_and_the_reason_once() -> None:
    log, world = await log_with(b"\xff junk", b"{}")
    dead = memory.MemoryStore()
    first = reporter(log, dead, world)
    await first.report()
    await first.report()
    await reporter(log, dead, world).report()  # another leader, long after
    found = await reports(dead)
    assert [(one["sequence"], one["subject"], one["body"]) for one in found] == [
        (1, "wl.x", "\ufffd junk"),
        (2, "wl.x", "{}"),
    ]
    assert all("CloudEvent" in one["reason"] for one in found)
    assert first.reported == 2


async def test_another_leader_with_other_words_does_not_tell_it_again() -> None:
    log, world = await log_with(b"junk")
    dead = memory.MemoryStore(window=0)
    await reporter(log, dead, world).report()
    world.skipped[0] = type(world.skipped[0])(1, "", "in other words")
    await reporter(log, dead, world).report()
    assert len(await reports(dead)) == 1


async def test_the_largest_body_fits() -> None:
    log, world = await log_with(b'"' * envelope.MAX_BYTES)
    dead = memory.MemoryStore()
    await reporter(log, dead, world).report()
    (one,) = await reports(dead)
    assert one["cut"]


async def test_after_a_lost_end_the_new_life_is_reported_too() -> None:
    log, world = await log_with(b"junk", b"more")
    dead = memory.MemoryStore()
    mine = reporter(log, dead, world)
    await mine.report()
    log.lose_end(1)
    log.log.counter += 1
    await log.append(
        events.event(events.WatchContact(epoch=1), id="1", source="t", subject=subjects.WATCH, time_ns=1, actor="t")
    )
    fresh = World()
    async for batch in log.read():
        for stored in batch:
            fold(fresh, stored, incarnation=log.log.extent().incarnation)
    mine.world = lambda: fresh
    await mine.report()
    assert [one["sequence"] for one in await reports(dead)] == [1, 2, 1]
