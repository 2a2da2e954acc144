"""What a server tells the log of replicas, and what it does not tell twice. Excluded: real streams (test_roles)."""

import asyncio

import pytest

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


@pytest.mark.looptime
async def test_two_edges_of_one_message_are_both_told() -> None:
    log = memory.MemoryStore()
    book = made(log)
    book.edge(edge(5, "restart"), incarnation="1", position=5)
    book.edge(edge(5, "partial"), incarnation="1", position=5)
    await run(book)
    assert await told(log) == [(5, "restart"), (5, "partial")]


@pytest.mark.looptime
async def test_a_server_that_starts_again_folds_what_is_told_and_goes_on_from_there() -> None:
    log = memory.MemoryStore()
    first = made(log)
    first.edge(edge(5), incarnation="1", position=5)
    await run(first)
    second = made(log)
    async for batch in log.read():
        for stored in batch:
            decoded = events.decode(stored)
            assert isinstance(decoded, events.Decoded)
            second.fold(decoded.data)
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
