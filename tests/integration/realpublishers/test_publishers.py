"""The publisher classes that vLLM and SGLang released, run as they are, against our source, decoder and table, and
against the simulator that stands in for them everywhere else.

Each module of releases.json speaks for the releases that share it. Excluded: the engines' schedulers, and what depends
on a GPU; what could not be run is in docs/compatibility.md. Rules: TR-01, TR-02, TR-07, KV-01 to KV-03.
"""

import contextlib
from collections.abc import Iterator

import pytest
import zmq

from enginesim import forms, publisher
from subscribers.kvevents import decode, endpoints, facts, replay, source, table
from tests.integration.realpublishers import scenario
from tests.support import enginefiles, facts_reader, realengine, serverview

TOPIC = "kv@engine-0@model"
QUICK = replay.Deadlines(quiet=2.0, total=5.0)
SECONDS_MS = 5_000


@pytest.fixture(scope="module")
def launched() -> Iterator[dict[str, realengine.Engine]]:
    """Processes that were started ahead, by release."""
    engines: dict[str, realengine.Engine] = {}
    yield engines
    for engine in engines.values():
        engine.kill()


@pytest.fixture(params=range(len(enginefiles.RELEASES)), ids=map(str, enginefiles.RELEASES), scope="module")
def engine(request: pytest.FixtureRequest, launched: dict[str, realengine.Engine]) -> Iterator[realengine.Engine]:
    """A process with the module of one release. The next one starts meanwhile: its imports take longer than a test."""
    release, *ahead = enginefiles.RELEASES[request.param : request.param + 2]
    ours = launched.pop(str(release), None) or realengine.launch(release)
    for following in ahead:
        if not enginefiles.missing(following):
            launched[str(following)] = realengine.launch(following)
    try:
        ours.answer()
        yield ours
    finally:
        ours.kill()


@pytest.fixture
def form(engine: realengine.Engine) -> forms.Form:
    return forms.form(engine.release.form)


def publish(engine: realengine.Engine, number: int, batches: list[scenario.Batch], form: forms.Form) -> None:
    engine.publish(number, [(batch.ts, [scenario.said(event, form) for event in batch.events]) for batch in batches])


def test_the_classes_have_the_fields_of_the_simulators_form(engine: realengine.Engine, form: forms.Form) -> None:
    """KV-01, KV-02: by name and in this order, for arrays have nothing else."""
    assert engine.fields("BlockStored") == form.stored
    assert engine.fields("BlockRemoved") == form.removed
    assert engine.fields("AllBlocksCleared") == ()
    rank = {"vllm": "data_parallel_rank", "sglang": "attn_dp_rank"}[form.kind]
    assert engine.fields("KVEventBatch") == ("ts", "events", *([rank] if form.batch_rank else []))
    salted = form.kind == "sglang" and (0, 5, 18) <= form.version < (0, 5, 20)
    assert engine.fields("BlockStoredWithMetadata") == ((*form.stored, "metadata") if salted else None)


async def test_a_late_joiner_reads_every_rank_from_its_first_batch_on(
    engine: realengine.Engine, form: forms.Form
) -> None:
    """Half of the story is over when the subscriber comes. TR-07: rank 1 is at the next port, of both sockets."""
    ranks = engine.start(ranks=2 if form.batch_rank else 1, topic=TOPIC)
    stories = [scenario.Story(form, rank).batches() for rank in range(len(ranks.numbers))]
    half = len(stories[0]) // 2
    for number, story in zip(ranks.numbers, stories, strict=True):
        publish(engine, number, story[:half], form)
    async with contextlib.AsyncExitStack() as stack:
        readers = []
        for where in endpoints.plan(ranks.events, ranks.replay, len(ranks.numbers)).ranks:
            followed = source.Source(where, topic=TOPIC, deadlines=QUICK)
            readers.append(await stack.enter_async_context(facts_reader.reading(followed)))
        for reader in readers:
            assert await reader.next(facts.Attached) == facts.Attached(0, True)
        for number, story in zip(ranks.numbers, stories, strict=True):
            publish(engine, number, story[half:], form)
        for rank, (reader, story) in enumerate(zip(readers, stories, strict=True)):
            payloads = await reader.batches(len(story))
            assert [batch.seq for batch in reader.of(facts.Batch)] == list(range(len(story)))
            assert [batch.replayed for batch in reader.of(facts.Batch)][:half] == [True] * half
            assert not reader.of(facts.Gap)
            agree(payloads, story, form, rank)


def agree(payloads: list[bytes], story: list[scenario.Batch], form: forms.Form, rank: int) -> None:
    """With the simulator byte for byte; with the story in what a subscriber's table holds after every batch."""
    number, name = scenario.ADAPTER
    ours = table.Table(table.Settings(lora_adapter_names={number: name}))
    plain = set().union(*(batch.held for batch in story))
    for payload, batch in zip(payloads, story, strict=True):
        assert payload == form.batch(batch.ts, batch.events, rank)
        read = decode.decode(payload)
        assert (read.ts, read.problems) == (batch.ts, ())
        assert read.rank == (rank if form.batch_rank else None)
        assert read.form == ("none" if not batch.events else "map" if form.maps else "array")
        ours.apply_batch(read.events, read.ts)
        view = serverview.settled(ours)
        assert {at: tiers for at, tiers in view.items() if at in plain} == batch.held
        assert len(view) - len(batch.held) == batch.hidden


# Frames ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


class Wire:
    """Raw sockets to one publisher, real or simulated."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", events: str, replays: str) -> None:
        self._context = context
        self._replays = replays.replace("*", "127.0.0.1")
        self._events = context.socket(zmq.SUB)
        self._events.subscribe(b"")
        self._events.connect(events.replace("*", "127.0.0.1"))

    def close(self) -> None:
        self._events.close(linger=0)

    def live(self) -> list[bytes] | None:
        """The next event frames, None when there are none at once."""
        return self._events.recv_multipart() if self._events.poll(20) else None

    def replies(self, *requests: list[bytes]) -> list[list[bytes]]:
        """Everything that comes back for these requests, to the end marker."""
        with self._context.socket(zmq.DEALER) as dealer:
            dealer.connect(self._replays)
            for request in requests:
                dealer.send_multipart(request)
            replies: list[list[bytes]] = []
            while not replies or replies[-1][-2] != publisher.END:
                assert dealer.poll(SECONDS_MS), f"no end after {len(replies)} replies"
                replies.append(dealer.recv_multipart())
            return replies


def test_frames_and_replays_are_the_simulators(
    engine: realengine.Engine, form: forms.Form, context: "zmq.Context[zmq.Socket[bytes]]"
) -> None:
    """TR-01, TR-02: with a buffer of three batches, after five."""
    ranks = engine.start(topic=TOPIC, buffer_steps=3)
    simulated = publisher.Publisher(
        replay="tcp://127.0.0.1:0", topic=TOPIC, buffer_steps=3, replay_topic=form.replay_topic
    )
    story = scenario.Story(form).batches()
    told = iter(story * 50)

    def both_publish() -> None:
        batch = next(told)
        publish(engine, ranks.numbers[0], [batch], form)
        simulated.publish(form.batch(batch.ts, batch.events))

    with contextlib.ExitStack() as stack:
        stack.callback(simulated.close)
        real = stack.enter_context(contextlib.closing(Wire(context, ranks.events, ranks.replay)))
        ours = stack.enter_context(contextlib.closing(Wire(context, simulated.events, simulated.replay or "")))
        for _ in range(5):
            both_publish()
        held = real.replies([b"", bytes(8)])
        assert [int.from_bytes(reply[-2], "big", signed=True) for reply in held] == [2, 3, 4, -1]
        assert {len(reply) for reply in held} == {4 if form.replay_topic else 3}
        assert ours.replies([b"", bytes(8)]) == held
        ignored = [[bytes(8)], [b"", bytes(8), b""]]
        later = [*ignored, [b"", (4).to_bytes(8, "big")]]
        assert real.replies(*later) == ours.replies(*later) == held[-2:]
        unchecked = [b"no delimiter", b"\x04"]
        assert real.replies(unchecked) == ours.replies(unchecked) == held[-2:]

        seen: list[dict[bytes, list[bytes]]] = [{}, {}]
        while not seen[0].keys() & seen[1].keys():  # a subscription takes a moment to reach a publisher
            both_publish()
            for wire, frames in zip((real, ours), seen, strict=True):
                while (got := wire.live()) is not None:
                    frames[got[1]] = got
        for number in seen[0].keys() & seen[1].keys():
            assert seen[0][number] == seen[1][number]
            assert seen[0][number][0] == TOPIC.encode()


# Lives ----------------------------------------------------------------------------------------------------------------

NEWEST = [[each for each in enginefiles.RELEASES if each.engine == kind][-1] for kind in ("vllm", "sglang")]


@pytest.mark.parametrize("release", NEWEST, ids=str)
async def test_an_engine_killed_and_started_again_at_its_ports_is_a_new_life(release: enginefiles.Release) -> None:
    form = forms.form(release.form)
    story = scenario.Story(form).batches()
    with realengine.running(release) as first:
        ranks = first.start()
        publish(first, ranks.numbers[0], story[:3], form)
        followed = source.Source(endpoints.plan(ranks.events, ranks.replay).ranks[0], deadlines=QUICK)
        async with facts_reader.reading(followed) as reader:
            await reader.batches(3)
            first.kill()
            await reader.next(facts.Disconnected)
            with realengine.running(release) as second:
                again = second.start(at=ranks)
                publish(second, again.numbers[0], story[:2], form)
                life = await reader.next(facts.NewLife, within=10.0)
                assert (life.seq, life.complete) == (0, True)
                payloads = await reader.batches(2)
                assert payloads == [form.batch(batch.ts, batch.events) for batch in story[:2]]


async def heard(engine: realengine.Engine, ranks: realengine.Ranks) -> None:
    """A source without a topic of its own reads what is published there."""
    form = forms.form(engine.release.form)
    story = scenario.Story(form).batches()[:4]
    followed = source.Source(endpoints.plan(ranks.events, ranks.replay).ranks[0], deadlines=QUICK)
    async with facts_reader.reading(followed) as reader:
        await reader.next(facts.Connected)
        publish(engine, ranks.numbers[0], story, form)
        assert await reader.batches(4) == [form.batch(batch.ts, batch.events) for batch in story]


async def test_a_subscriber_that_knows_no_topic_hears_an_engine_that_has_one() -> None:
    with realengine.running(NEWEST[0]) as engine:
        await heard(engine, engine.start(topic=TOPIC))


async def test_an_engine_that_was_told_to_bind_a_host_is_heard_there() -> None:
    """SGLang from 0.5.22 on. Every other engine connects when its endpoint names a host, and nobody can dial it."""
    with realengine.running(NEWEST[1]) as engine:
        await heard(engine, engine.start(host="127.0.0.1", bind=True))
