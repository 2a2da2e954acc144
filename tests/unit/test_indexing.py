"""Following WARMLOG_KV into the index: slices, catching up, a stream that lost its end. Excluded: the fold itself."""

import asyncio
import itertools

import pytest

from eventstore import kvwire, memory, store, subjects
from handlers.prefixindex import index, outcomes
from subscribers import indexing

SUBJECT = subjects.kv_subject("t", "m", "r")


def message(body: kvwire.AnyMessage) -> bytes:
    return kvwire.encode(body)


def begin(n: int, session: str = "s") -> bytes:
    return message(kvwire.Begin(1, "uid", session, n, 0, 0, "m", "vllm", "complete", "start"))


def ops(n: int, *keys: int, session: str = "s") -> bytes:
    return message(kvwire.Ops(1, "uid", session, n, [kvwire.Group("", 16, kvwire.pack_keys(keys), b"\1" * len(keys))]))


def end(n: int, *keys: int, session: str = "s") -> bytes:
    return message(kvwire.End(1, "uid", session, n, 0, "complete", len(keys), sum(keys)))


class Rig:
    def __init__(self) -> None:
        self.kv = memory.MemoryKV(clock=lambda: 5_000_000_000)
        self.outcomes: list[outcomes.Outcome] = []
        self.clock = 5_000_000_000
        self.indexer = indexing.Indexer(self.kv, index.Index, self.outcomes.append, clock=lambda: self.clock)

    async def run(self, seconds: float = 0.3) -> None:
        running = [asyncio.ensure_future(self.indexer.run()), asyncio.ensure_future(self.indexer.keep_time())]
        await asyncio.sleep(seconds)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def publish(self, *payloads: bytes) -> None:
        for payload in payloads:
            await self.kv.publish(SUBJECT, payload)


async def test_what_is_stored_is_folded_and_then_the_index_has_caught_up() -> None:
    rig = Rig()
    await rig.publish(begin(0), ops(1, 7, 8), end(2, 7, 8))
    assert not rig.indexer.caught_up
    await rig.run()
    assert rig.indexer.caught_up
    assert rig.indexer.index.blocks() == 2
    assert rig.indexer.behind == 0


async def test_keyframes_that_are_still_missing_are_asked_for_as_soon_as_it_has_caught_up() -> None:
    rig = Rig()
    await rig.publish(ops(5, 7), ops(6, 8))  # the session's begin has left the stream
    asked_when: list[bool] = []
    rig.indexer._on_outcome = lambda outcome: asked_when.append(rig.indexer.caught_up)
    await rig.run()
    assert asked_when == [False, True]


async def test_an_empty_stream_is_caught_up_at_once() -> None:
    rig = Rig()
    await rig.run()
    assert rig.indexer.caught_up


async def test_who_spoke_in_the_lost_end_of_the_stream_is_asked_for_a_keyframe() -> None:
    rig = Rig()
    await rig.publish(begin(0), ops(1, 7, 8), end(2, 7, 8))
    await rig.run()
    assert rig.outcomes
    rig.outcomes.clear()
    rig.kv.lose_end(0)
    await rig.publish(begin(0, "other"))
    await rig.run()
    assert [(one.order, one.session) for one in rig.outcomes if isinstance(one, outcomes.Order)] == [("keyframe", "s")]


async def test_a_stream_that_lost_its_end_is_folded_again_from_the_start() -> None:
    rig = Rig()
    await rig.publish(begin(0), ops(1, 7, 8), end(2, 7, 8))
    await rig.run()
    rig.kv.lose_end(1)
    await rig.run()
    await rig.publish(begin(0, "later"), ops(1, 9, session="later"), end(2, 9, session="later"))
    await rig.run()
    assert rig.indexer.index.blocks() == 1
    assert rig.indexer.caught_up


async def test_a_flood_leaves_the_loop_room_to_answer() -> None:
    rig = Rig()
    await rig.publish(begin(0), *(ops(n, *range(n * 64, n * 64 + 64)) for n in range(1, 3_000)))
    longest = 0.0

    async def answer() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0)
            longest = max(longest, loop.time() - before)

    answering = asyncio.ensure_future(answer())
    await rig.run(0.8)
    answering.cancel()
    assert rig.indexer.index.position == 3_000
    # A slice is 2 ms; the bound only has to tell slices from the whole flood, on any machine.
    assert longest < 0.4


async def test_the_streams_clock_is_ours_less_what_we_are_ahead() -> None:
    rig = Rig()
    await rig.run()
    rig.clock = 9_000_000_000  # four seconds ahead of the stream
    await rig.publish(begin(0))
    running = asyncio.ensure_future(rig.indexer.run())
    await asyncio.sleep(0.1)
    await rig.publish(ops(1, 7))
    await asyncio.sleep(0.1)
    assert rig.indexer.now() == 5_000_000_000
    rig.clock += 1_000_000_000
    assert rig.indexer.now() == 6_000_000_000
    running.cancel()


async def test_time_passes_only_once_the_index_has_caught_up() -> None:
    rig = Rig()
    await rig.publish(begin(0), ops(1, 7), end(2, 7))
    await rig.run()
    rig.clock += 20_000_000_000
    rig.indexer.caught_up = False
    ticking = asyncio.ensure_future(rig.indexer.keep_time())
    await asyncio.sleep(0.6)
    assert "silent" not in [one.edge for one in rig.outcomes if isinstance(one, outcomes.Edge)]
    rig.indexer.caught_up = True
    await asyncio.sleep(0.6)
    ticking.cancel()
    assert "silent" in [one.edge for one in rig.outcomes if isinstance(one, outcomes.Edge)]


@pytest.mark.parametrize(("keys", "turns"), [(1, 1), (400, 8)], ids=["small", "large"])
async def test_large_messages_let_lookups_in_one_by_one(monkeypatch: pytest.MonkeyPatch, keys: int, turns: int) -> None:
    rig, clock, taken = Rig(), itertools.count(0, 10_000_000), 0

    async def lookups() -> None:
        nonlocal taken
        while True:
            await asyncio.sleep(0)
            taken += 1

    monkeypatch.setattr(indexing.time, "perf_counter_ns", lambda: next(clock))
    batch = [store.KVMessage(number, 1, SUBJECT, ops(number, *range(keys))) for number in range(8)]
    asking = asyncio.ensure_future(lookups())
    await asyncio.sleep(0)
    await rig.indexer._fold(batch)
    asking.cancel()
    assert taken == turns
