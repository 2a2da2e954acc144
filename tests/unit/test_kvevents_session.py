"""What a session says and in which order. Excluded: the real table (test_kvevents_table) and real sinks."""

import asyncio
from collections.abc import Iterator

import pytest

from eventstore import kvwire, store
from subscribers.kvevents import session

WHO = session.Identity(uid="pod-uid", tenant="t", replica="r", model="m", scheme="vllm")


class FakeTable:
    """Keys that are held and keys that changed; everything on T1 under no adapter in blocks of 16."""

    def __init__(self) -> None:
        self.live: set[int] = set()
        self.taken: set[int] = set()
        self.dirty: dict[int, None] = {}

    def put(self, *keys: int) -> None:
        self.live.update(keys)
        self.dirty.update(dict.fromkeys(keys))

    def remove(self, *keys: int) -> None:
        self.live.difference_update(keys)
        self.dirty.update(dict.fromkeys(keys))

    @property
    def pending(self) -> int:
        return len(self.dirty)

    @property
    def count(self) -> int:
        return len(self.taken)

    @property
    def sum(self) -> int:
        return sum(self.taken)

    def take(self, limit: int) -> list[kvwire.Group]:
        keys = list(self.dirty)[:limit]
        for key in keys:
            del self.dirty[key]
            (self.taken.add if key in self.live else self.taken.discard)(key)
        return [group(keys, bytes(int(key in self.live) for key in keys))]

    def drop_pending(self) -> None:
        self.dirty.clear()
        self.taken = set(self.live)

    def held(self, limit: int) -> Iterator[list[kvwire.Group]]:
        keys = sorted(self.live)
        for at in range(0, len(keys), limit):
            part = [key for key in keys[at : at + limit] if key in self.live]
            yield [group(part, b"\1" * len(part))]


def group(keys: list[int], tiers: bytes) -> kvwire.Group:
    return kvwire.Group("", 16, kvwire.pack_keys(keys), tiers)


class Reader:
    """A sink that folds what it is sent the way a server must, and can be away."""

    def __init__(self) -> None:
        self.messages: list[kvwire.AnyMessage] = []
        self.away = 0
        self.delay = 0.001
        self.lose_acks = 0
        self.offset = 100
        self.why: store.StoreError = store.Unavailable("no server")
        self.on_send = lambda: None

    async def send(self, payload: bytes) -> int:
        self.on_send()
        await asyncio.sleep(self.delay)
        if self.away:
            self.away -= 1
            raise self.why
        self.messages.append(kvwire.decode(payload))
        if self.lose_acks:
            self.lose_acks -= 1
            raise store.Unavailable("ack lost")
        return len(self.messages) + self.offset

    def kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.messages]

    def fold(self) -> set[int]:
        """The keys held after all messages; asserts that every digest agrees, and that n has no holes."""
        live: set[int] = set()
        staging: set[int] | None = None
        seen = -1
        for message in self.messages:
            if message.n <= seen:
                continue
            assert message.n == seen + 1
            seen = message.n
            match message:
                case kvwire.Begin():
                    staging = set()
                case kvwire.Ops(groups=groups):
                    for part in groups:
                        for key, tiers in zip(kvwire.unpack_keys(part.keys), part.tiers, strict=True):
                            for target in (live, staging):
                                if target is not None:
                                    (target.add if tiers else target.discard)(key)
                case kvwire.Chunk(groups=groups):
                    assert staging is not None
                    for part in groups:
                        staging.update(kvwire.unpack_keys(part.keys))
                case kvwire.End(count=count, sum=total):
                    assert staging is not None
                    assert (count, total) == (len(staging), sum(staging))
                    live, staging = staging, None
                case kvwire.Beat(count=count, sum=total):
                    assert (count, total) == (len(live), sum(live))
        return live


def start() -> tuple[FakeTable, Reader, session.Session]:
    table, reader = FakeTable(), Reader()
    clock = asyncio.get_running_loop().time
    plan = session.Plan(WHO, "s1", table, clock())
    return table, reader, session.Session(plan, reader, clock=clock)


async def running(voice: session.Session, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(voice.run(), seconds)


@pytest.mark.looptime
async def test_a_session_begins_with_a_keyframe_even_an_empty_one() -> None:
    _, reader, voice = start()
    await running(voice, 1)
    assert reader.kinds() == ["Begin", "End"]


@pytest.mark.looptime
async def test_later_begins_repeat_the_rank_of_the_first() -> None:
    _, reader, voice = start()
    await running(voice, 1)
    voice.hear(kvwire.Control("keyframe", "s1"))
    await running(voice, 1)
    begins = [message for message in reader.messages if isinstance(message, kvwire.Begin)]
    assert [(begin.frame, begin.rank) for begin in begins] == [(0, 0), (1, 101)]


@pytest.mark.looptime
async def test_a_stream_that_lost_the_sessions_first_begin_is_told_a_new_one() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    reader.offset = 50  # restored from before the session began at 101
    table.put(1)
    voice.changed()
    await running(voice, 1)
    begins = [message for message in reader.messages if isinstance(message, kvwire.Begin)]
    assert [(begin.rank, begin.reason) for begin in begins] == [(0, "start"), (0, "regressed")]
    voice.hear(kvwire.Control("keyframe", "s1"))
    await running(voice, 1)
    last = [message for message in reader.messages if isinstance(message, kvwire.Begin)][-1]
    assert last.rank == reader.messages.index(begins[1]) + 1 + 50
    assert reader.fold() == {1}


@pytest.mark.looptime
async def test_a_full_disk_is_waited_out_like_any_outage() -> None:
    table, reader, voice = start()
    table.put(1)
    reader.away, reader.why = 3, store.StreamFull("no space left")
    await running(voice, 3)
    assert reader.fold() == {1}


@pytest.mark.looptime
async def test_the_return_of_the_log_is_noticed_within_a_second_however_long_it_was_away() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    reader.away = 1_000
    table.put(1)
    voice.changed()
    await running(voice, 60)
    reader.away = 0
    await running(voice, 1.1)
    assert reader.fold() == {1}


@pytest.mark.looptime
async def test_heartbeats_carry_n_and_the_digest_every_five_seconds() -> None:
    table, reader, voice = start()
    table.put(5, 6)
    await running(voice, 21)
    assert reader.kinds().count("Beat") == 4
    assert reader.fold() == {5, 6}


@pytest.mark.looptime
async def test_a_busy_engine_starves_neither_the_keyframe_nor_the_heartbeat() -> None:
    table, reader, voice = start()
    table.put(*range(6_000))
    table.take(20_000)
    fresh = iter(range(6_000, 10_000_000))

    def busy() -> None:
        key = next(fresh)
        table.put(key)
        table.remove(max(0, key - 5_000))
        voice.changed()

    reader.on_send = busy
    reader.delay = 0.004
    await running(voice, 6)
    assert "End" in reader.kinds()
    assert reader.kinds().count("Beat") == 1
    assert len(reader.messages) > 500
    reader.on_send = lambda: None
    await running(voice, 1)
    assert reader.fold() == table.live


@pytest.mark.looptime
async def test_a_lost_ack_is_sent_again_with_the_same_number() -> None:
    table, reader, voice = start()
    reader.lose_acks = 3
    table.put(1)
    await running(voice, 4)
    assert reader.fold() == {1}
    assert [message.n for message in reader.messages][:4] == [0, 0, 0, 0]


@pytest.mark.looptime
async def test_an_outage_of_any_length_ends_in_a_keyframe_and_bounds_what_waits() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    reader.away = 1_000
    for number in range(20_000):
        table.put(number)
        voice.changed()
        assert table.pending <= kvwire.MAX_KEYS
    await running(voice, 1)
    reader.away = 0
    await running(voice, 8)
    assert "outage" in [message.reason for message in reader.messages if isinstance(message, kvwire.Begin)]
    assert reader.fold() == set(range(20_000))


@pytest.mark.looptime
async def test_a_keyframe_asked_for_during_an_outage_does_not_hide_that_changes_were_given_up() -> None:
    """At `asked` the old content goes on counting until the end; removals that were given up would be credited."""
    table, reader, voice = start()
    table.put(*range(5_000))
    await running(voice, 1)
    reader.away = 3
    table.remove(*range(5_000))
    voice.plan.keyframe_asked("asked")
    voice.changed()
    await running(voice, 5)
    last = [message for message in reader.messages if isinstance(message, kvwire.Begin)][-1]
    assert last.reason == "outage"
    assert reader.fold() == set()


@pytest.mark.looptime
async def test_a_fenced_session_stops_at_once_and_other_sessions_orders_are_not_ours() -> None:
    _, _, voice = start()
    await running(voice, 1)
    voice.hear(kvwire.Control("fenced", "another"))
    await running(voice, 1)
    voice.hear(kvwire.Control("fenced", "s1", "session s2 began later"))
    with pytest.raises(session.Fenced, match="s2 began later"):
        await voice.run()


@pytest.mark.looptime
async def test_the_last_flush_sends_what_is_in_flight_and_pending_then_says_goodbye() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    reader.away = 1
    table.put(1)
    voice.changed()
    await running(voice, 0.0015)
    table.put(2)
    await voice.finish("stopped")
    assert reader.kinds()[-1] == "Bye"
    assert reader.fold() == {1, 2}


@pytest.mark.looptime
async def test_keyframes_repeat_when_changes_outnumber_what_is_held_and_stay_under_five_percent() -> None:
    table, reader, voice = start()
    for number in range(700):
        reader.on_send = lambda: None
        keys = range(number * 64, number * 64 + 64)
        table.put(*keys)
        table.remove(*(max(0, key - 64) for key in keys))
        voice.changed()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(voice.run(), 0.1)
    frames = [message for message in reader.messages if isinstance(message, kvwire.Chunk)]
    told = sum(
        len(part.tiers) for message in reader.messages if isinstance(message, kvwire.Ops) for part in message.groups
    )
    framed = sum(len(part.tiers) for message in frames for part in message.groups)
    assert "interval" in [message.reason for message in reader.messages if isinstance(message, kvwire.Begin)]
    assert framed <= told * 0.05


# The window in which changes gather ---------------------------------------------------------------------------------


async def drip(table: FakeTable, voice: session.Session, count: int, every: float) -> None:
    """Changes one by one, each a new key, from 1 on."""
    for key in range(1, count + 1):
        table.put(key)
        voice.changed()
        await asyncio.sleep(every)


def told(reader: Reader) -> list[int]:
    """Keys in each message of changes."""
    return [
        sum(len(part.tiers) for part in message.groups)
        for message in reader.messages
        if isinstance(message, kvwire.Ops)
    ]


@pytest.mark.looptime
async def test_a_change_waits_a_window_and_no_longer() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    for key in (1, 2, 3):
        table.put(key)
        voice.changed()
        await asyncio.sleep(session.WINDOW * 0.9)
        assert key not in reader.fold()
        await asyncio.sleep(session.WINDOW * 0.1 + reader.delay * 1.5)
        assert key in reader.fold()
        await asyncio.sleep(session.WINDOW)
    speaking.cancel()


@pytest.mark.looptime
async def test_a_burst_after_a_quiet_time_is_one_message() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    await drip(table, voice, 20, session.WINDOW / 25)
    await asyncio.sleep(session.WINDOW)
    assert told(reader) == [20]
    speaking.cancel()


@pytest.mark.looptime
async def test_changes_that_follow_each_other_share_a_message_per_window_and_none_waits_longer() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    await drip(table, voice, 100, session.WINDOW / 10)
    await asyncio.sleep(session.WINDOW + 2 * reader.delay)
    assert reader.fold() == set(range(1, 101))
    assert 7 <= len(told(reader)) <= 10  # the next window opens with the ack, which takes a fifth of one
    speaking.cancel()


@pytest.mark.looptime
async def test_waiting_changes_wake_nobody_until_their_window_is_over() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    asked = 0
    ask = voice.plan.next

    def counted(now: float) -> session.Body | None:
        nonlocal asked
        asked += 1
        return ask(now)

    voice.plan.next = counted  # type: ignore[method-assign]
    speaking = asyncio.ensure_future(voice.run())
    await drip(table, voice, 1000, session.WINDOW / 100)
    assert asked <= 3 * len(told(reader)) + 3
    speaking.cancel()


@pytest.mark.looptime
async def test_many_changes_wait_for_no_window_and_are_not_given_up_for_it() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    for burst in range(8):
        table.put(*range(burst * 1000, burst * 1000 + 1000))
        voice.changed()
        await asyncio.sleep(2 * reader.delay)
    await asyncio.sleep(2 * session.WINDOW)
    assert reader.fold() == set(range(8000))
    assert reader.kinds().count("Begin") == 1
    speaking.cancel()


@pytest.mark.looptime
async def test_a_keyframe_and_a_fence_wait_for_no_window() -> None:
    table, reader, voice = start()
    table.put(1)
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    table.put(2)
    voice.changed()
    await asyncio.sleep(0)  # its window is open
    table.put(3)
    voice.plan.want_keyframe("cleared")
    voice.changed()
    await asyncio.sleep(4 * reader.delay)
    assert reader.fold() == {1, 2, 3}
    assert reader.kinds()[-1] == "End"
    table.put(4)
    voice.changed()
    voice.hear(kvwire.Control("fenced", "s1", "enough"))
    await asyncio.sleep(1.5 * reader.delay)
    assert isinstance(speaking.exception(), session.Fenced)


@pytest.mark.looptime
async def test_without_a_window_every_change_goes_with_the_next_ack() -> None:
    table, reader = FakeTable(), Reader()
    clock = asyncio.get_running_loop().time
    voice = session.Session(session.Plan(WHO, "s1", table, clock(), window=0.0), reader, clock=clock)
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    await drip(table, voice, 5, 2 * reader.delay)
    assert told(reader) == [1, 1, 1, 1, 1]
    speaking.cancel()


# Room for a reader that is faster than the log ---------------------------------------------------------------------


async def catch_up(table: FakeTable, voice: session.Session, count: int) -> None:
    """Changes as fast as they come, 100 at a time, as a consumer does."""
    for at in range(0, count, 100):
        table.put(*range(at, at + 100))
        voice.changed()
        if table.pending >= session.CROWDED:
            await voice.room()


@pytest.mark.looptime
async def test_catching_up_waits_for_acks_and_needs_no_keyframe() -> None:
    table, reader, voice = start()
    reader.delay = 0.1
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    await catch_up(table, voice, 50_000)
    await asyncio.sleep(1)
    assert reader.kinds().count("Begin") == 1
    assert reader.fold() == set(range(50_000))
    speaking.cancel()


@pytest.mark.looptime
async def test_a_log_that_is_away_or_slow_is_not_waited_for() -> None:
    table, reader, voice = start()
    await running(voice, 1)
    speaking = asyncio.ensure_future(voice.run())
    reader.delay = 30.0  # no answer for longer than anybody waits
    began = asyncio.get_running_loop().time()
    await catch_up(table, voice, 20_000)
    assert asyncio.get_running_loop().time() - began <= 2 * session.ROOM_WITHIN
    reader.away, reader.delay = 1_000, 0.001
    await asyncio.sleep(40)  # now it is known to be away
    began = asyncio.get_running_loop().time()
    await catch_up(table, voice, 20_000)
    assert asyncio.get_running_loop().time() == began
    reader.away = 0
    await asyncio.sleep(5)
    assert [message.count for message in reader.messages if isinstance(message, kvwire.End)][-1] == 20_000
    speaking.cancel()
