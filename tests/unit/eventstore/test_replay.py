"""Replaying to a position or a time, and the moment that pairs two logs. In memory, with a clock of the test's own."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventstore import incarnation, memory, replay, store
from tests.support.eventstores import moment

T0 = datetime(2026, 11, 30, tzinfo=UTC)


class Clock:
    """Ten seconds pass with every look."""

    def __init__(self) -> None:
        self.now = replay.nanoseconds(T0)

    def __call__(self) -> int:
        self.now += 10_000_000_000
        return self.now


def collect(world: list[int], one: store.Stored) -> list[int]:
    return [*world, one.sequence]


@pytest.fixture
async def log() -> memory.MemoryStore:
    made = memory.MemoryStore(clock=lambda: clock.now)
    clock = Clock()
    for number in range(1, 7):
        clock()
        await made.append(moment(number, subject="wl.moment" if number % 2 == 0 else "wl.watch"))
    return made


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


UNTIL: dict[str, tuple[Any, int]] = {
    "a position": (3, 3),
    "the end": (6, 6),
    "the first": (1, 1),
    "a time between two": (at(35), 3),
    "the very time of one": (at(40), 4),
    "just before it": (at(39.999999), 3),
    "after the end": (at(10_000), 6),
    "in another zone": (at(40).astimezone(), 4),
}


@pytest.mark.parametrize(("until", "last"), UNTIL.values(), ids=UNTIL)
async def test_the_world_is_that_of_the_position_or_time(log: memory.MemoryStore, until: Any, last: int) -> None:
    world, how = await replay.replay(log, collect, [], until=until)
    assert world == list(range(1, last + 1))
    assert (how.first, how.last) == (1, last)


UNREACHABLE: dict[str, tuple[Any, str]] = {
    "a position to come": (7, "lies in the future: the log ends at 6"),
    "before the first": (0, "the earliest is 1"),
    "a time before the first": (at(5), r"lies before the first event that is kept: 2026-11-30T00:00:10\.000000Z"),
    "a time without a zone": (datetime(2026, 11, 30), "has no time zone"),
}


@pytest.mark.parametrize(("until", "says"), UNREACHABLE.values(), ids=UNREACHABLE)
async def test_what_is_not_in_the_log_is_said(log: memory.MemoryStore, until: Any, says: str) -> None:
    with pytest.raises(replay.ReplayError, match=says):
        await replay.replay(log, collect, [], until=until)


async def test_an_empty_log_has_no_past() -> None:
    with pytest.raises(replay.ReplayError, match="holds no events"):
        await replay.replay(memory.MemoryStore(), collect, [], until=T0)


async def test_what_retention_dropped_is_said_and_a_later_replay_tells_where_it_began(log: memory.MemoryStore) -> None:
    log.retain(3)
    with pytest.raises(replay.ReplayError, match="position 2 is not kept: the earliest is 3"):
        await replay.replay(log, collect, [], until=2)
    world, how = await replay.replay(log, collect, [], until=4)
    assert (world, how.first, how.last) == ([3, 4], 3, 4)


async def test_a_replay_over_many_chunks_stops_within_one() -> None:
    log = memory.MemoryStore()
    for number in range(1000):
        await log.append(moment(number))
    count, how = await replay.replay(log, lambda world, one: world + 1, 0, until=700)
    assert (count, how.last) == (700, 700)


MOMENTS: dict[str, tuple[Any, int]] = {
    "its own position": (4, 4),
    "a position after it": (5, 4),
    "its own time": (at(40), 4),
    "a time after it": (at(59), 4),
    "long after": (at(9999), 6),
}


@pytest.mark.parametrize(("when", "sequence"), MOMENTS.values(), ids=MOMENTS)
async def test_the_moment_at_or_before_is_found(log: memory.MemoryStore, when: Any, sequence: int) -> None:
    found = await replay.moment(log, when)
    assert found.control == store.Position((await log.extent()).incarnation, sequence)
    assert found.kv == store.Position("x", sequence)


@pytest.mark.parametrize("when", [1, at(15)], ids=["position", "time"])
async def test_before_the_first_moment_the_earliest_is_named(log: memory.MemoryStore, when: Any) -> None:
    with pytest.raises(replay.ReplayError, match=r"no moment was recorded at or before .*\(sequence 2\)"):
        await replay.moment(log, when)


async def test_without_any_moment_it_says_when_one_will_be() -> None:
    with pytest.raises(replay.ReplayError, match="every 10 s"):
        await replay.moment(memory.MemoryStore(), 5)


# Incarnations ---------------------------------------------------------------------------------------------------------


def test_an_incarnation_names_creation_and_counter() -> None:
    created = "2026-11-30T07:17:27.123456789Z"
    assert incarnation.name(created, {}) == "20261130T071727.123456789.0"
    assert incarnation.name(created, {incarnation.COUNTER: "3"}) == "20261130T071727.123456789.3"
    assert incarnation.name(created, {incarnation.COUNTER: "x"}) == "20261130T071727.123456789.0"


JUDGEMENTS = {
    "covered": (store.Position("a", 5), store.Extent(1, 9, "a"), "holds"),
    "the very end": (store.Position("a", 9), store.Extent(1, 9, "a"), "holds"),
    "dropped by retention": (store.Position("a", 5), store.Extent(7, 9, "a"), "holds"),
    "beyond the end": (store.Position("a", 10), store.Extent(1, 9, "a"), "regressed"),
    "emptied": (store.Position("a", 1), store.Extent(1, 0, "a"), "regressed"),
    "another stream": (store.Position("a", 1), store.Extent(1, 9, "b"), "other"),
}


@pytest.mark.parametrize(("known", "found", "judgement"), JUDGEMENTS.values(), ids=JUDGEMENTS)
def test_a_known_position_is_judged(known: store.Position, found: store.Extent, judgement: str) -> None:
    assert incarnation.judge(known, found) == judgement
