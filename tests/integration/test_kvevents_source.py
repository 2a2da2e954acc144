"""A source on real ZeroMQ sockets against the in-process publisher. Excluded: decoding; the decision tables
(tests/unit/test_kvevents_cursor.py)."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import xxhash
import zmq

from enginesim import publisher
from subscribers.kvevents import endpoints, facts, replay, sockets, source
from tests.support import facts_reader

QUICK = replay.Deadlines(quiet=0.3, total=2.0)
LOOPBACK = "tcp://127.0.0.1:0"
Engines = contextlib.ExitStack


@pytest.fixture
def engines() -> Iterator[Engines]:
    """Publishers that are closed whatever happens."""
    with contextlib.ExitStack() as stack:
        yield stack


def start(engines: Engines, *, replays: bool = True, **options: Any) -> publisher.Publisher:
    made = publisher.Publisher(
        options.pop("events", LOOPBACK), options.pop("replay", LOOPBACK if replays else None), **options
    )
    engines.callback(made.close)
    return made


def follow(engine: publisher.Publisher, *, rank: int = 0, **options: Any) -> source.Source:
    where = endpoints.RankEndpoints(rank, engine.events, engine.replay)
    return source.Source(where, deadlines=options.pop("deadlines", QUICK), **options)


def position(seq: int, payload: bytes) -> facts.Position:
    return facts.Position(seq, xxhash.xxh3_64_intdigest(payload))


@contextlib.asynccontextmanager
async def attached(engine: publisher.Publisher, **options: Any) -> AsyncIterator[facts_reader.Reader]:
    """A source that met its engine: batch "first" was published and read, and the subscription stands."""
    async with facts_reader.reading(follow(engine, **options)) as reader:
        await reader.next(facts.Connected)
        await subscribed(engine, reader)
        yield reader


async def subscribed(engine: publisher.Publisher, reader: facts_reader.Reader) -> None:
    """Publish until a batch arrives live: a subscription takes a moment to reach a publisher."""
    while not any(not batch.replayed for batch in reader.of(facts.Batch)):
        engine.publish(b"hello")
        await asyncio.sleep(0.02)
    await reader.until(lambda: reader.of(facts.Batch)[-1].seq == engine.next_seq - 1)
    reader.skip()


@pytest.mark.parametrize("topic_frame", [False, True], ids=["until vLLM 0.25", "from vLLM 0.26 on"])
async def test_a_warm_engine_is_met_with_its_whole_history(engines: Engines, topic_frame: bool) -> None:
    engine = start(engines, replay_topic=topic_frame)
    for number in range(50):
        engine.publish(b"%d" % number)
    async with facts_reader.reading(follow(engine)) as reader:
        assert (await reader.next(facts.Attached)) == facts.Attached(0, True)
        assert await reader.batches(50) == [b"%d" % number for number in range(50)]


async def test_with_a_pause_nothing_is_lost_and_steps_come_together(engines: Engines) -> None:
    engine = start(engines)
    async with attached(engine, pause=0.02) as reader:
        for number in range(300):
            engine.publish(b"%d" % number)
            await asyncio.sleep(0)
        assert await reader.batches(300) == [b"%d" % number for number in range(300)]


async def test_a_receiver_that_looks_away_still_stops_at_once(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "LONGEST_PAUSE_MS", 60_000)
    engine = start(engines, replays=False)
    context = zmq.Context()
    receiver = sockets.Receiver(engine.events, topic="", limits=sockets.Limits(), clock=lambda: 0.0, pause=60.0)
    receiver.start(context)
    async with asyncio.timeout(30):
        assert isinstance(await receiver.get(None), sockets.Change)
        while True:  # a subscription takes a moment to reach a publisher
            engine.publish(b"first")
            if isinstance(await receiver.get(0.02), sockets.Frame):
                break
        while await receiver.get(0.05) is not None:
            pass  # published while the first one was on its way
        engine.publish(b"second")
        assert await receiver.get(0.2) is None, "it looks away"
        await asyncio.to_thread(receiver.stop)
    context.destroy(linger=0)


@pytest.mark.parametrize("topic_frame", [False, True], ids=["until vLLM 0.25", "from vLLM 0.26 on"])
async def test_lost_batches_are_bridged_by_replay_and_applied_once(engines: Engines, topic_frame: bool) -> None:
    engine = start(engines, replay_topic=topic_frame)
    async with attached(engine) as reader:
        for payload, lose in ((b"a", False), (b"b", True), (b"c", True), (b"d", False), (b"e", False)):
            engine.publish(payload, lose=lose)
        assert await reader.batches(5) == [b"a", b"b", b"c", b"d", b"e"]
        engine.publish(b"f")
        assert await reader.batches(1) == [b"f"]
        assert len(reader.of(facts.Bridged)) == 1
        assert not reader.of(facts.Gap)
        seqs = [batch.seq for batch in reader.of(facts.Batch)]
        assert seqs == list(range(len(seqs)))


async def test_a_ring_that_wrapped_is_a_gap_and_what_is_left_is_applied(engines: Engines) -> None:
    engine = start(engines, buffer_steps=3)
    async with attached(engine) as reader:
        last = engine.next_seq - 1
        for number in range(6):
            engine.publish(b"lost %d" % number, lose=True)
        engine.publish(b"seen")
        gap = await reader.next(facts.Gap)
        assert (gap.first, gap.last) == (last + 1, last + 4)
        assert "no longer held" in gap.reason
        assert await reader.batches(3) == [b"lost 4", b"lost 5", b"seen"]


async def test_without_a_replay_socket_a_hole_is_a_gap_at_once(engines: Engines) -> None:
    engine = start(engines, replays=False)
    async with attached(engine) as reader:
        engine.publish(b"lost", lose=True)
        engine.publish(b"seen")
        gap = await reader.next(facts.Gap)
        assert gap.reason == "there is no replay endpoint"
        assert await reader.batches(1) == [b"seen"]


async def test_a_replay_socket_that_never_answers_costs_completeness_not_batches(engines: Engines) -> None:
    engine = start(engines, replays=False)
    with bound_port() as port:
        where = endpoints.RankEndpoints(0, engine.events, f"tcp://127.0.0.1:{port}")
        following = source.Source(where, deadlines=QUICK)
        async with facts_reader.reading(following) as reader:
            await reader.next(facts.Connected)
            await subscribed(engine, reader)
            engine.publish(b"lost", lose=True)
            engine.publish(b"seen")
            assert "no answer from" in (await reader.next(facts.Gap)).reason
            assert await reader.batches(1) == [b"seen"]
            assert following.counters.unanswered >= 2


async def test_a_replay_socket_that_talks_nonsense_is_a_failed_replay(engines: Engines) -> None:
    engine = start(engines, replays=False)
    async with nonsense() as endpoint:
        where = endpoints.RankEndpoints(0, engine.events, endpoint)
        async with facts_reader.reading(source.Source(where, deadlines=QUICK)) as reader:
            await reader.next(facts.Connected)
            await subscribed(engine, reader)
            engine.publish(b"lost", lose=True)
            engine.publish(b"seen")
            assert "no replay" in (await reader.next(facts.Gap)).reason
            assert await reader.batches(1) == [b"seen"]


async def test_first_contact_without_replay_is_complete_only_at_batch_0(engines: Engines) -> None:
    late = start(engines, replays=False)
    late.publish(b"before anybody listened")
    async with facts_reader.reading(follow(late)) as reader:
        await reader.next(facts.Connected)
        await subscribed(late, reader)
        assert [fact.complete for fact in reader.of(facts.Attached)] == [False]
    early = start(engines, replays=False)
    async with facts_reader.reading(follow(early)) as reader:
        await reader.next(facts.Connected)
        await asyncio.sleep(0.2)
        early.publish(b"first")
        assert (await reader.next(facts.Attached)).complete


async def test_an_idle_new_engine_is_complete_before_its_first_batch(engines: Engines) -> None:
    engine = start(engines)
    async with facts_reader.reading(follow(engine)) as reader:
        assert (await reader.next(facts.Attached)) == facts.Attached(
            0, True, reason="the engine has published nothing yet"
        )


async def test_a_restart_in_place_is_a_new_life_even_without_replay(engines: Engines) -> None:
    engine = start(engines, replays=False)
    async with attached(engine) as reader:
        engine.new_life()
        engine.publish(b"new")
        life = await reader.next(facts.NewLife)
        assert (life.seq, life.complete) == (0, True)
        assert await reader.batches(1) == [b"new"]


async def test_a_restart_whose_first_batches_were_missed_is_completed_by_replay(engines: Engines) -> None:
    engine = start(engines)
    async with attached(engine) as reader:
        engine.publish(b"one more of the old life, so that its numbers go back")
        await reader.batches(1)
        engine.new_life()
        engine.publish(b"a", lose=True)
        engine.publish(b"b")
        assert (await reader.next(facts.NewLife)).complete
        assert await reader.batches(2) == [b"a", b"b"]


@pytest.mark.parametrize("replays", [True, False], ids=["with replay", "without replay"])
async def test_a_process_that_returns_on_the_same_port_is_a_new_life(engines: Engines, replays: bool) -> None:
    engine = start(engines, replays=replays)
    async with attached(engine) as reader:
        engine.close()
        await reader.next(facts.Disconnected)
        again = start(engines, events=engine.events, replay=engine.replay)
        await reader.next(facts.Connected)
        life = await reader.next(facts.NewLife)
        # With replay an empty engine says that it is empty; without, nothing proves that it is another one.
        assert life.complete is replays
        await asyncio.sleep(0.2)
        again.publish(b"new")
        assert await reader.batches(1) == [b"new"]
        assert reader.of(facts.NewLife)[-1].complete


async def test_a_new_life_that_counted_past_the_old_one_is_still_found(engines: Engines) -> None:
    engine = start(engines)
    async with attached(engine) as reader:
        count = engine.next_seq
        engine.close()
        await reader.next(facts.Disconnected)
        again = start(engines, events=engine.events, replay=engine.replay)
        for number in range(count + 5):
            again.publish(b"other %d" % number)
        life = await reader.next(facts.NewLife)
        assert life.complete
        assert await reader.batches(count + 5) == [b"other %d" % number for number in range(count + 5)]


async def test_an_engine_whose_port_is_refused_is_gone_in_two_to_three_seconds(engines: Engines) -> None:
    engine = start(engines)
    async with attached(engine) as reader:
        loop = asyncio.get_running_loop()
        engine.close()
        began = loop.time()
        gone = await reader.next(facts.Gone, within=4)
        assert 1.9 < loop.time() - began < 3.0
        assert gone.seconds >= 2.0
        again = start(engines, events=engine.events, replay=engine.replay)
        await reader.next(facts.Connected)
        assert (await reader.next(facts.NewLife)).complete
        again.publish(b"x")


async def test_a_journal_continues_exactly(engines: Engines) -> None:
    engine = start(engines)
    for number in range(20):
        engine.publish(b"%d" % number)
    async with facts_reader.reading(follow(engine, resume=position(11, b"11"))) as reader:
        assert (await reader.next(facts.Attached)) == facts.Attached(12, False, continued=True)
        assert await reader.batches(8) == [b"%d" % number for number in range(12, 20)]
        assert reader.facts[1] == facts.Attached(12, False, continued=True)


async def test_a_journal_that_is_up_to_date_continues_without_a_batch(engines: Engines) -> None:
    engine = start(engines)
    engine.publish(b"0")
    async with facts_reader.reading(follow(engine, resume=position(0, b"0"))) as reader:
        assert (await reader.next(facts.Attached)).continued
        await asyncio.sleep(0.1)
        engine.publish(b"1")
        assert await reader.batches(1) == [b"1"]


LIVES = {
    "the same number holds another batch": (20, 10_000, True, 0),
    "the engine has not come that far": (5, 10_000, True, 0),
    "the engine has published nothing": (0, 10_000, True, 0),
    "the batch is no longer held": (20, 4, False, 16),
}


@pytest.mark.parametrize(("published", "ring", "complete", "first"), LIVES.values(), ids=LIVES)
async def test_a_journal_that_does_not_fit_is_a_new_life(
    engines: Engines, published: int, ring: int, complete: bool, first: int
) -> None:
    engine = start(engines, buffer_steps=ring)
    for number in range(published):
        engine.publish(b"other %d" % number)
    async with facts_reader.reading(follow(engine, resume=position(11, b"11"))) as reader:
        life = await reader.next(facts.NewLife)
        assert (life.complete, life.seq) == (complete, first)
        assert len(await reader.batches(published - first)) == published - first
        assert not reader.of(facts.Attached)


async def test_a_journal_without_a_replay_socket_is_not_believed(engines: Engines) -> None:
    engine = start(engines, replays=False)
    async with facts_reader.reading(follow(engine, resume=position(11, b"11"))) as reader:
        life = await reader.next(facts.NewLife)
        assert (life.seq, life.complete) == (facts.UNKNOWN, False)
        assert "no replay endpoint" in life.reason


async def test_a_consumer_that_stalls_loses_batches_from_the_queue_and_gets_them_by_replay(engines: Engines) -> None:
    engine = start(engines)
    following = follow(engine, limits=sockets.Limits(frames=50))
    taken: list[facts.Fact] = []
    async with contextlib.aclosing(following.follow()) as stream:
        async with asyncio.timeout(10):
            async for fact in stream:
                if isinstance(fact, facts.Attached):
                    break
            await asyncio.sleep(0.2)
            for number in range(500):
                engine.publish(b"%d" % number)
            await asyncio.sleep(0.3)
            assert following.received.dropped > 0
            async for fact in stream:
                taken.append(fact)
                if isinstance(fact, facts.Batch) and fact.payload == b"49":
                    break
            engine.publish(b"last")
            async for fact in stream:
                taken.append(fact)
                if isinstance(fact, facts.Batch) and fact.payload == b"last":
                    break
    batches = [fact.payload for fact in taken if isinstance(fact, facts.Batch)]
    assert batches == [*(b"%d" % number for number in range(500)), b"last"]
    assert not any(isinstance(fact, facts.Gap) for fact in taken)


async def test_a_long_history_comes_whole(engines: Engines) -> None:
    engine = start(engines)
    for number in range(10_000):
        engine.publish(b"%d" % number)
    async with facts_reader.reading(follow(engine)) as reader:
        await reader.until(lambda: len(reader.facts) >= 10_002, within=10)
        assert [batch.seq for batch in reader.of(facts.Batch)] == list(range(10_000))
        assert not reader.of(facts.Gap)


async def test_frames_that_are_no_event_are_counted_and_the_socket_stays(engines: Engines) -> None:
    engine = start(engines)
    following = follow(engine)
    async with facts_reader.reading(following) as reader:
        await reader.next(facts.Connected)
        await subscribed(engine, reader)
        for frames in ([b"", b"\x05", b"x"], [b"one"], [b"", b"", b"", b""], [b"", (1 << 60).to_bytes(9, "big"), b""]):
            engine.send_raw(frames)
        engine.publish(b"\xc1 not msgpack")
        engine.publish(b"next")
        assert await reader.batches(2) == [b"\xc1 not msgpack", b"next"]
        assert following.received.malformed == 4
        assert not reader.of(facts.Disconnected)
        assert not reader.of(facts.Gap)


async def test_an_oversized_batch_keeps_its_number_and_costs_completeness(engines: Engines) -> None:
    engine = start(engines)
    following = follow(engine, limits=sockets.Limits(payload=1000))
    async with facts_reader.reading(following) as reader:
        await reader.next(facts.Connected)
        await subscribed(engine, reader)
        seq = engine.publish(bytes(1001))
        engine.publish(b"next")
        gap = await reader.next(facts.Gap)
        assert (gap.first, gap.last) == (seq, seq)
        assert "1001 bytes" in gap.reason
        assert await reader.batches(1) == [b"next"]
        assert following.received.oversized == 1


async def test_an_engine_that_publishes_nothing_is_explained_once(engines: Engines) -> None:
    with bound_port() as port:
        free = port
    where = endpoints.RankEndpoints(0, f"tcp://127.0.0.1:{free}", None)
    async with facts_reader.reading(source.Source(where, silent_after=0.3)) as reader:
        assert "nothing listens" in (await reader.next(facts.Silent)).advice
        await asyncio.sleep(0.5)
        assert len(reader.of(facts.Silent)) == 1
    engine = start(engines, replays=False)
    async with facts_reader.reading(follow(engine, silent_after=0.3)) as reader:
        assert "events are off" in (await reader.next(facts.Silent)).advice


async def test_a_topic_filter_that_matches_nothing_says_so(engines: Engines) -> None:
    engine = start(engines, topic="kv@10.0.0.7@m")
    async with facts_reader.reading(follow(engine, topic="kv-events", silent_after=0.3)) as reader:
        await reader.next(facts.Attached)
        engine.publish(b"unseen")
        assert "--topic" in (await reader.next(facts.Silent)).advice
    async with facts_reader.reading(follow(engine, topic="kv@")) as reader:
        assert await reader.batches(1) == [b"unseen"]


async def test_each_data_parallel_rank_is_a_source_of_its_own(engines: Engines) -> None:
    ranks = publisher.publishers(3, LOOPBACK, LOOPBACK)
    for rank, engine in enumerate(ranks):
        engines.callback(engine.close)
        engine.publish(b"rank %d" % rank)
    plan = endpoints.plan(ranks[0].events, ranks[0].replay, 3)
    assert [where.events for where in plan.ranks] == [engine.events for engine in ranks]
    for where in plan.ranks:
        async with facts_reader.reading(source.Source(where, deadlines=QUICK)) as reader:
            assert await reader.batches(1) == [b"rank %d" % where.rank]


async def test_a_source_that_is_closed_leaves_nothing_behind(engines: Engines) -> None:
    engine = start(engines)
    before = threading.active_count()
    for _ in range(3):
        async with attached(engine):
            assert threading.active_count() == before + 1
    assert threading.active_count() == before


@contextlib.contextmanager
def bound_port() -> Iterator[int]:
    """A port where a socket is bound and nobody answers; free again afterwards."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


@contextlib.asynccontextmanager
async def nonsense() -> AsyncIterator[str]:
    """A ROUTER that answers every request with frames that are no replay."""
    context = zmq.asyncio.Context()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    async def answer() -> None:
        while True:
            frames = await router.recv_multipart()
            await router.send_multipart([frames[0], b"what?"])

    task = asyncio.create_task(answer())
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        context.destroy(linger=0)
