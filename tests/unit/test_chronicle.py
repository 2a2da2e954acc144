"""What a server tells the log of replicas, and what several servers do not tell twice.

Excluded: real streams and servers (tests/integration/test_many_servers).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import structlog

from eventstore import envelope, events, memory, store
from handlers.prefixindex import outcomes
from warmlog import chronicle


def edge(sequence: int, kind: events.Edge = "gap", replica: str = "r") -> outcomes.Edge:
    return outcomes.Edge("t", replica, "m", "vllm", "uid", "s", kind, "", sequence, 0)


def made(log: store.EventStore) -> chronicle.Chronicle:
    return chronicle.Chronicle(log, instance="i", clock=lambda: 1_000_000_000)


async def told(log: store.EventStore) -> list[tuple[int, str]]:
    found = []
    async for batch in log.read():
        for stored in batch:
            decoded = events.decode(stored)
            assert isinstance(decoded, events.Decoded)
            assert isinstance(decoded.data, events.ReplicaObserved)
            found.append((decoded.data.kv_sequence, decoded.data.edge))
    return found


async def run(book: chronicle.Chronicle, seconds: float = 1) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await book.run()


@pytest.mark.looptime
async def test_an_edge_is_told_once_however_often_it_is_read() -> None:
    log = memory.MemoryStore()
    book = made(log)
    for sequence in (5, 5, 4, 9, 5):
        book.edge(edge(sequence), incarnation="1", position=sequence)
    await run(book)
    assert await told(log) == [(5, "gap"), (9, "gap")]


def test_moments_and_summaries_are_given_up_before_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chronicle, "WAITING", 10)
    book = made(memory.MemoryStore())
    for sequence in range(1, 11):
        book.edge(edge(sequence, replica=f"r{sequence}"), incarnation="1", position=sequence)
        book.moment(events.Moment(kv_sequence=sequence, kv_incarnation="1"), interval=1.0)
    waiting = [entry.event.subject for entry in book._queue]
    assert waiting == [f"wl.replica.t.r{number}" for number in range(1, 11)]
    assert book.dropped == 10


@pytest.mark.looptime
async def test_two_edges_of_one_message_are_both_told() -> None:
    log = memory.MemoryStore()
    book = made(log)
    book.edge(edge(5, "restart"), incarnation="1", position=5)
    book.edge(edge(5, "partial"), incarnation="1", position=5)
    await run(book)
    assert await told(log) == [(5, "restart"), (5, "partial")]


async def read_into(book: chronicle.Chronicle, log: store.EventStore, *, live: bool = False) -> None:
    """What a server does with the log at its start."""
    async for batch in log.read():
        for stored in batch:
            decoded = events.decode(stored)
            assert isinstance(decoded, events.Decoded)
            book.fold(stored, decoded.data, live=live)


@pytest.mark.looptime
async def test_a_server_that_starts_again_folds_what_is_told_and_goes_on_from_there() -> None:
    log = memory.MemoryStore()
    first = made(log)
    first.edge(edge(5), incarnation="1", position=5)
    await run(first)
    second = made(log)
    await read_into(second, log)
    for sequence in (5, 6):
        second.edge(edge(sequence), incarnation="1", position=sequence)
    await run(second)
    assert await told(log) == [(5, "gap"), (6, "gap")]


@pytest.mark.looptime
async def test_silence_that_time_brought_lies_at_the_position_it_was_noticed_at() -> None:
    log = memory.MemoryStore()
    book = made(log)
    book.edge(edge(5, "first-event"), incarnation="1", position=5)
    book.edge(edge(0, "silent"), incarnation="1", position=7)
    book.edge(edge(8, "recovered"), incarnation="1", position=8)
    book.edge(edge(0, "silent"), incarnation="1", position=9)
    await run(book)
    assert await told(log) == [(5, "first-event"), (7, "silent"), (8, "recovered"), (9, "silent")]


@pytest.mark.looptime
async def test_another_incarnation_starts_counting_anew() -> None:
    log = memory.MemoryStore()
    book = made(log)
    book.edge(edge(50), incarnation="1", position=50)
    book.edge(edge(3), incarnation="2", position=3)
    await run(book)
    assert await told(log) == [(50, "gap"), (3, "gap")]


class Away:
    """A log that is away, full, or refuses, so many times."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors
        self.appended: list[str] = []

    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended:
        if self.errors:
            raise self.errors.pop(0)
        self.appended.append(event.id)
        return store.Appended(len(self.appended), False)


@pytest.mark.looptime
async def test_while_the_log_is_away_or_full_events_wait_and_go_in_order() -> None:
    away = Away([store.Unavailable("no server"), store.StreamFull("full"), store.Unavailable("no server")])
    book = made(away)  # type: ignore[arg-type]
    book.edge(edge(1), incarnation="1", position=1)
    book.edge(edge(2), incarnation="1", position=2)
    await run(book, 20)
    assert [event.split(":")[2] for event in away.appended] == ["1", "2"]


@pytest.mark.looptime
async def test_what_waits_is_bounded_and_what_is_given_up_is_counted() -> None:
    book = made(memory.MemoryStore())
    for sequence in range(1, chronicle.WAITING + 6):
        book.edge(edge(sequence), incarnation="1", position=sequence)
    assert (book.waiting, book.dropped) == (chronicle.WAITING, 5)


@pytest.mark.looptime
async def test_an_event_that_is_refused_for_good_does_not_block_the_next() -> None:
    away = Away([store.IdentityAlarm("another body")])
    book = made(away)  # type: ignore[arg-type]
    book.edge(edge(1), incarnation="1", position=1)
    book.edge(edge(2), incarnation="1", position=2)
    await run(book)
    assert len(away.appended) == 1
    assert book.dropped == 1


# Several servers on one log ------------------------------------------------------------------------------------------


@asynccontextmanager
async def servers(log: store.EventStore, count: int) -> AsyncIterator[list[chronicle.Chronicle]]:
    """So many, each appending and following the log."""
    books = [chronicle.Chronicle(log, instance=f"s{number}", clock=lambda: 1_000_000_000) for number in range(count)]

    async def follow(book: chronicle.Chronicle) -> None:
        async for batch in log.read(follow=True):
            for stored in batch:
                decoded = events.decode(stored)
                assert isinstance(decoded, events.Decoded)
                book.fold(stored, decoded.data)

    tasks = [asyncio.ensure_future(work) for book in books for work in (book.run(), follow(book))]
    try:
        yield books
        await asyncio.sleep(10)
        assert [task for task in tasks if task.done()] == []
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Racing(memory.MemoryStore):
    """Every append takes a while to arrive, so that servers that speak at once do race."""

    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended:
        await asyncio.sleep(0.05)
        return await super().append(event, expected=expected)


@pytest.mark.looptime
@pytest.mark.parametrize("count", [2, 3])
async def test_servers_that_see_the_same_edge_at_once_tell_it_once(count: int) -> None:
    log = Racing()
    with structlog.testing.capture_logs() as lines:
        async with servers(log, count) as books:
            for sequence in range(1, 6):
                for number, book in enumerate(books):
                    # Each puts it in its own words: what a server counts may differ.
                    seen = outcomes.Edge("t", "r", "m", "vllm", "u", "s", "gap", f"by {number}", sequence, number)
                    book.edge(seen, incarnation="1", position=sequence)
    assert await told(log) == [(sequence, "gap") for sequence in range(1, 6)]
    assert sum(book.appended for book in books) == 5
    assert sum(book.told_by_others for book in books) == 5 * (count - 1)
    assert [book.dropped for book in books] == [0] * count
    assert [line for line in lines if line["log_level"] == "error"] == []


@pytest.mark.looptime
async def test_the_same_edge_in_the_same_words_is_told_once_after_the_duplicate_window_too() -> None:
    log = Racing(window=0.0)
    async with servers(log, 2) as books:
        for book in books:
            book.edge(edge(5), incarnation="1", position=5)
            await asyncio.sleep(2)
    assert await told(log) == [(5, "gap")]


@pytest.mark.looptime
async def test_silence_that_two_servers_notice_moments_apart_is_told_once_until_it_ended() -> None:
    log = Racing()
    async with servers(log, 2) as (one, other):
        one.edge(edge(0, "silent"), incarnation="1", position=100)
        other.edge(edge(0, "silent"), incarnation="1", position=101)
        await asyncio.sleep(1)
        for book in (one, other):
            book.edge(edge(105, "recovered"), incarnation="1", position=105)
        await asyncio.sleep(1)
        other.edge(edge(0, "silent"), incarnation="1", position=110)
        await asyncio.sleep(1)
        one.edge(edge(0, "silent"), incarnation="1", position=112)
        one.edge(edge(0, "gone"), incarnation="1", position=120)
        other.edge(edge(0, "gone"), incarnation="1", position=121)
    assert [kind for _, kind in await told(log)] == ["silent", "recovered", "silent", "gone"]


@pytest.mark.looptime
async def test_a_server_that_began_in_the_middle_of_a_session_tells_nothing_of_it_anew() -> None:
    log = memory.MemoryStore()
    async with servers(log, 1) as (older,):
        for sequence, kind in ((5, "first-event"), (6, "complete")):
            older.edge(edge(sequence, kind), incarnation="1", position=sequence)  # type: ignore[arg-type]
    newer = made(log)
    await read_into(newer, log)
    for sequence, kind in ((60, "first-event"), (77, "complete"), (80, "gap"), (81, "complete")):
        newer.edge(edge(sequence, kind), incarnation="1", position=sequence)  # type: ignore[arg-type]
    await run(newer)
    assert await told(log) == [(5, "first-event"), (6, "complete"), (80, "gap"), (81, "complete")]


@pytest.mark.looptime
async def test_statistics_are_told_at_the_pace_of_one_server() -> None:
    log = Racing()

    def figures(sequence: int, rate: float) -> outcomes.Edge:
        return outcomes.Edge(
            "t", "r", "m", "vllm", "uid", "s", "statistics", "", sequence, 0, statistics={"hit_rate": rate}
        )

    async with servers(log, 2) as (one, other):
        one.edge(figures(1, 0.1), incarnation="1", position=1)
        await asyncio.sleep(10)
        other.edge(figures(2, 0.2), incarnation="1", position=2)  # 10 s later: too soon
        await asyncio.sleep(10)
        other.edge(figures(3, 0.1), incarnation="1", position=3)  # what is told already
        other.edge(figures(4, 0.3), incarnation="1", position=4)
    assert await told(log) == [(1, "statistics"), (4, "statistics")]


async def moments(log: store.EventStore) -> list[int]:
    found = []
    async for batch in log.read(subject="wl.moment"):
        for stored in batch:
            decoded = events.decode(stored)
            assert isinstance(decoded, events.Decoded)
            assert isinstance(decoded.data, events.Moment)
            found.append(decoded.data.kv_sequence)
    return found


@pytest.mark.looptime
@pytest.mark.parametrize("apart", [0.0, 3.0, 6.0], ids=["in step", "3 s apart", "6 s apart"])
async def test_two_servers_pair_the_positions_once_an_interval(apart: float) -> None:
    log = Racing()
    position = 0

    async def tell(book: chronicle.Chronicle, after: float) -> None:
        nonlocal position
        await asyncio.sleep(after)
        for _ in range(6):
            position += 1
            book.moment(events.Moment(kv_sequence=position, kv_incarnation="1"), interval=10.0)
            await asyncio.sleep(10)

    async with servers(log, 2) as (one, other):
        await asyncio.gather(tell(one, 0), tell(other, apart))
    found = await moments(log)
    assert len(found) in (6, 7)
    assert found == sorted(found)


@pytest.mark.looptime
async def test_a_server_that_lags_does_not_pair_an_older_position() -> None:
    log = memory.MemoryStore()
    async with servers(log, 2) as (one, other):
        one.moment(events.Moment(kv_sequence=1000, kv_incarnation="1"), interval=1.0)
        await asyncio.sleep(5)
        other.moment(events.Moment(kv_sequence=900, kv_incarnation="1"), interval=1.0)
        other.moment(events.Moment(kv_sequence=1000, kv_incarnation="1"), interval=1.0)
        await asyncio.sleep(5)
        other.moment(events.Moment(kv_sequence=5, kv_incarnation="2"), interval=1.0)
    assert await moments(log) == [1000, 5]


@pytest.mark.looptime
async def test_the_first_moment_after_a_start_does_not_wait_for_what_was_said_before_it() -> None:
    log = memory.MemoryStore()
    async with servers(log, 1) as (first,):
        first.moment(events.Moment(kv_sequence=1, kv_incarnation="1"), interval=10.0)
    second = made(log)
    await read_into(second, log, live=False)
    second.moment(events.Moment(kv_sequence=2, kv_incarnation="1"), interval=10.0)
    await run(second)
    assert await moments(log) == [1, 2]


def index_of(blocks: int, position: int) -> events.IndexSummarised:
    replica = events.ReplicaSummary(tenant="t", replica="r", model="m", state="complete", blocks=blocks)
    return events.IndexSummarised(
        shard="0", kv_sequence=position, kv_incarnation="1", blocks=blocks, replicas=[replica]
    )


@pytest.mark.looptime
async def test_an_index_is_summed_up_by_one_server_and_again_when_it_changed() -> None:
    log = Racing()
    async with servers(log, 2) as books:
        for blocks, position in ((10, 100), (10, 200), (20, 300)):
            for number, book in enumerate(books):
                book.summary(index_of(blocks, position + number), interval=30.0)
            await asyncio.sleep(30)
    assert (await log.extent()).last == 2


@pytest.mark.looptime
async def test_a_log_that_lost_its_end_is_told_again_what_was_lost() -> None:
    log = memory.MemoryStore()
    book = made(log)
    for sequence in (1, 2):
        book.edge(edge(sequence), incarnation="1", position=sequence)
    await run(book)
    log.lose_end(1)
    book.edge(edge(3), incarnation="1", position=3)
    await run(book, 5)
    assert await told(log) == [(1, "gap"), (3, "gap")], "the lost end costs what was in it, and nothing else"


@pytest.mark.looptime
async def test_what_retention_dropped_is_not_expected_for_ever() -> None:
    log = memory.MemoryStore()
    book = made(log)
    book.edge(edge(1), incarnation="1", position=1)
    await run(book)
    log.retain(2)
    book.edge(edge(2), incarnation="1", position=2)
    await run(book, 5)
    assert await told(log) == [(2, "gap")]


@pytest.mark.looptime
@pytest.mark.parametrize(
    "trouble",
    [lambda log: setattr(log.faults, "lose_acks", 1), lambda log: setattr(log.faults, "drop", 1)],
    ids=["the answer is lost", "the message is lost"],
)
async def test_an_append_without_an_answer_is_neither_lost_nor_doubled(
    trouble: Callable[[memory.MemoryStore], Awaitable[None]],
) -> None:
    log = Racing()
    async with servers(log, 2) as books:
        trouble(log)
        for book in books:
            book.edge(edge(5), incarnation="1", position=5)
    assert await told(log) == [(5, "gap")]
