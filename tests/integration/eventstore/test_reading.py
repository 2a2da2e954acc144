"""The reader where frames, consumers, servers and messages get lost; and WARMLOG_KV on the same reader."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from eventstore import store, streams, subjects
from eventstore.jetstream import api, connect, provision, reader
from eventstore.jetstream.kvlog import JetStreamKV
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver
from tests.support.eventstores import everything, follow, insist, moment

OPTIONS = connect.Options(name="test")


@pytest.fixture
async def log(nats: natsserver.Server) -> AsyncGenerator[JetStreamStore, None]:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.control_log())
        log = JetStreamStore(made)
        yield log
        await log.close()


async def fill(log: JetStreamStore, count: int, *, size: int = 1) -> None:
    await asyncio.gather(*(log.append(moment(number, text="x" * size)) for number in range(count)))


def sequences(found: list[store.Stored]) -> list[int]:
    return [one.sequence for one in found]


async def consumers(log: JetStreamStore) -> list[str]:
    names: list[str] = (await api.call(log.connection, "CONSUMER.NAMES.WARMLOG"))["consumers"] or []
    return names


def damage(log: JetStreamStore, spoil: Any) -> None:
    """Let `spoil` change the frames of consumers made from now on, as they arrive."""
    tap = log.connection.tap

    async def spoiled(subject: str, take: Any) -> connect.Tap:
        def pass_on(taken: list[Any]) -> None:
            if kept := spoil(taken):
                take(kept)

        return await tap(subject, pass_on)

    log.connection.tap = spoiled  # type: ignore[method-assign]


async def until(true: Callable[[], bool]) -> None:
    """Poll a condition that nothing announces."""
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


async def exhaust(chunks: Any) -> None:
    async for _ in chunks:
        pass


@pytest.mark.parametrize("lost", [[1], [50], [99], [3, 4, 5], [7, 30, 90]], ids=str)
async def test_frames_lost_on_the_way_are_read_again(log: JetStreamStore, lost: list[int]) -> None:
    await fill(log, 100)
    remaining = {f".{number}".encode() for number in lost}

    def spoil(taken: list[Any]) -> list[Any]:
        kept = []
        for frame in taken:
            mark = b"." + frame[1].split(b".")[5] if frame[1] else b""
            if mark in remaining:
                remaining.remove(mark)
            else:
                kept.append(frame)
        return kept

    damage(log, spoil)
    assert sequences(await follow(log, 100)) == list(range(1, 101))
    assert not remaining
    assert log.reader.restarts >= 1
    assert log.reader.holes == 0


async def test_a_lost_last_frame_is_noticed_by_a_read_that_ends(log: JetStreamStore) -> None:
    """Nothing follows that would show the hole, but a heartbeat says how many messages should have come."""
    await fill(log, 10)
    once = [True]

    def spoil(taken: list[Any]) -> list[Any]:
        if once and any(frame[1].split(b".")[5:6] == [b"10"] for frame in taken):
            once.clear()
            return [frame for frame in taken if frame[1].split(b".")[5:6] != [b"10"]]
        return taken

    damage(log, spoil)
    assert sequences(await asyncio.wait_for(everything(log), 20)) == list(range(1, 11))


async def test_a_deleted_consumer_is_made_again(log: JetStreamStore) -> None:
    await fill(log, 5)
    async with contextlib.aclosing(log.read(follow=True)) as chunks:
        found: list[store.Stored] = []
        while chunk := await anext(chunks):  # five messages may come in more than one
            found += chunk
        (name,) = await consumers(log)
        await api.call(log.connection, f"CONSUMER.DELETE.WARMLOG.{name}")
        await fill(log, 6)
        async with asyncio.timeout(5):
            while len(found) < 6:
                found += await anext(chunks)
    assert sequences(found) == list(range(1, 7))


async def test_a_stuck_pull_is_noticed_within_seconds(log: JetStreamStore) -> None:
    """The server says nothing at all, not even heartbeats: a new consumer asks again."""
    await fill(log, 3)
    first: list[bytes] = []

    def spoil(taken: list[Any]) -> list[Any]:
        consumer = next((frame[1].split(b".")[3] for frame in taken if frame[1]), b"")
        first.append(consumer) if not first else None
        return [] if consumer in (b"", first[0]) else taken

    damage(log, spoil)
    began = time.monotonic()
    assert sequences(await asyncio.wait_for(follow(log, 3), 8)) == [1, 2, 3]
    assert 2 < time.monotonic() - began < 5


async def test_pending_messages_that_never_come_are_asked_for_anew(
    log: JetStreamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention may drop what a consumer had counted: without a second look a role would never be caught up."""
    opened = reader._Consumer.open
    wrong = [True]

    async def miscounted(self: Any, **options: Any) -> None:
        await opened(self, **options)
        self.pending = 3 if wrong else self.pending
        wrong.clear()

    monkeypatch.setattr(reader._Consumer, "open", miscounted)
    async with contextlib.aclosing(log.read(follow=True)) as chunks:
        assert await asyncio.wait_for(anext(chunks), 8) == []
    assert log.reader.restarts == 1


async def test_a_hung_server_is_waited_for(nats: natsserver.Server, log: JetStreamStore) -> None:
    await fill(log, 3)
    found: list[store.Stored] = []
    reading = asyncio.ensure_future(follow(log, 6, into=found))
    await until(lambda: len(found) == 3)
    nats.suspend()
    await asyncio.sleep(3)
    nats.resume()
    for number in range(3, 6):
        await insist(log, moment(number))
    await asyncio.wait_for(reading, 10)
    assert sequences(found) == list(range(1, 7))


async def test_kills_under_load_lose_and_double_nothing(nats: natsserver.Server, log: JetStreamStore) -> None:
    """Three kill -9 while eight writers append and one reader follows."""
    acked: dict[int, str] = {}
    found: list[store.Stored] = []
    stop = asyncio.Event()

    async def writer(name: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            event = moment(number, id=f"{name}:{number}", subject=f"wl.index.{name}")
            acked[(await insist(log, event)).sequence] = event.id

    reading = asyncio.ensure_future(follow(log, 10**9, into=found))
    async with asyncio.TaskGroup() as group:
        for name in range(8):
            group.create_task(writer(name))
        for _ in range(3):
            await asyncio.sleep(0.3)
            await nats.kill()
            await nats.start()
            await log.connection.wait_connected(5)
        await asyncio.sleep(0.3)
        stop.set()
    last = (await log.extent()).last
    await until(lambda: bool(found) and found[-1].sequence >= last)
    reading.cancel()
    assert sequences(found) == list(range(1, last + 1))
    assert sorted(acked) == list(range(1, last + 1)), "an acknowledged event was lost, or one was stored twice"
    assert len(set(acked.values())) == len(acked)


async def test_what_retention_dropped_is_told_and_reading_goes_on(nats: natsserver.Server) -> None:
    holes: list[reader.Hole] = []
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log(max_bytes=20_000))
        kv = JetStreamKV(made)
        kv.reader = reader.Reader(made, kv.name, store.KVMessage, reader.Settings(on_hole=holes.append))
        subject = subjects.kv_subject("t", "m", "r")
        for _ in range(100):
            await kv.publish(subject, b"x" * 1000)
        extent = await kv.extent()
        assert extent.first > 50
        found = [one async for chunk in kv.read(after=10) for one in chunk]
        assert [one.sequence for one in found] == list(range(extent.first, 101))
        assert holes == [reader.Hole("WARMLOG_KV", 11, extent.first - 1, "retention")]
        assert len([one async for chunk in kv.read() for one in chunk]) == len(found)
        assert len(holes) == 1, "a read from the very beginning misses nothing"
        await kv.close()


async def test_a_message_missing_inside_the_stream_is_looked_at_twice_and_told(nats: natsserver.Server) -> None:
    holes: list[reader.Hole] = []
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log())
        kv = JetStreamKV(made)
        kv.reader = reader.Reader(made, kv.name, store.KVMessage, reader.Settings(on_hole=holes.append))
        for _ in range(10):
            await kv.publish(subjects.kv_subject("t", "m", "r"), b"x")
        for sequence in (4, 5, 8):
            await api.call(made, "STREAM.MSG.DELETE.WARMLOG_KV", {"seq": sequence})
        found = [one async for chunk in kv.read() for one in chunk]
        assert [one.sequence for one in found] == [1, 2, 3, 6, 7, 9, 10]
        assert [(hole.first, hole.last, hole.why) for hole in holes] == [(4, 5, "missing"), (8, 8, "missing")]
        await kv.close()


async def test_a_slow_caller_bounds_what_waits_for_him(log: JetStreamStore) -> None:
    await fill(log, 3000, size=2000)
    settings = reader.Settings(batch=100, max_bytes=64 << 10)
    slow = reader.Reader(log.connection, log.name, store.Stored, settings)
    before = log.connection.client.stats["in_bytes"]
    async with contextlib.aclosing(slow.read()) as chunks:
        got = sequences(await anext(chunks))
        waiting = 0

        def count(taken: list[Any]) -> None:
            nonlocal waiting
            waiting += sum(len(frame[3]) for frame in taken)

        taps = log.connection.client.splitter.taps
        sid = next(reversed(taps))
        take = taps[sid]
        taps[sid] = lambda taken: (count(taken), take(taken))[1]
        await asyncio.sleep(0.5)
        assert waiting <= 2 * (64 << 10)
        async for chunk in chunks:
            got += sequences(chunk)
    assert got == list(range(1, 3001))
    assert before <= log.connection.client.stats["in_bytes"]


async def test_ended_reads_leave_no_consumer_behind(log: JetStreamStore) -> None:
    await fill(log, 10)
    for _ in range(3):
        await everything(log)
        await follow(log, 5)
    await asyncio.sleep(0.1)
    assert await consumers(log) == []
    assert len(log.connection.client.splitter.taps) == 1, "the publisher's alone"


async def test_a_read_that_does_not_follow_gives_up_when_no_server_comes_back(
    nats: natsserver.Server, log: JetStreamStore
) -> None:
    await fill(log, 3)
    impatient = reader.Reader(log.connection, log.name, store.Stored, reader.Settings(patience=0.3))
    await nats.kill()
    with pytest.raises(store.Unavailable):
        [chunk async for chunk in impatient.read()]


async def test_a_stream_that_was_made_anew_is_another_one(log: JetStreamStore) -> None:
    await fill(log, 5)
    before = await log.extent()
    async with contextlib.aclosing(log.read(follow=True)) as chunks:
        while await anext(chunks):
            pass
        await api.call(log.connection, "STREAM.DELETE.WARMLOG")
        await provision.provision(log.connection, streams.control_log())
        with pytest.raises(store.Regressed) as told:
            await asyncio.wait_for(exhaust(chunks), 10)
    assert told.value.known == store.Position(before.incarnation, 5)
    assert told.value.found.incarnation != before.incarnation


# WARMLOG_KV ---------------------------------------------------------------------------------------------------------


async def test_kv_messages_are_published_and_followed_across_a_kill(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log())
        kv = await JetStreamKV.open(made)
        found: list[store.KVMessage] = []

        async def reading() -> None:
            async with contextlib.aclosing(kv.read(follow=True)) as chunks:
                async for chunk in chunks:
                    found.extend(chunk)
                    if len(found) >= 20:
                        return

        task = asyncio.ensure_future(reading())
        wanted = [(subjects.kv_subject(f"t{number % 3}", "m", "r"), b"\x93%d" % number) for number in range(20)]
        for number, (subject, payload) in enumerate(wanted):
            if number == 10:
                await nats.kill()
                with pytest.raises(store.Unavailable, match="nothing was sent"):
                    await kv.publish(subject, payload, deadline=0.2)
                await nats.start()
                await made.wait_connected(5)
            assert await kv.publish(subject, payload) == number + 1
        await asyncio.wait_for(task, 10)
        assert [(one.subject, one.payload) for one in found] == wanted
        assert [one.sequence for one in found] == list(range(1, 21))
        await kv.close()


async def test_kv_publish_is_not_sent_a_second_time(nats: natsserver.Server) -> None:
    """No answer for two seconds: the message carries no id, so it must not be sent again."""
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log())
        kv = JetStreamKV(made)
        await kv.publisher.start()
        nats.suspend()
        with pytest.raises(store.Unavailable, match="after 1 tries; the message may be stored"):
            await kv.publish(subjects.kv_subject("t", "m", "r"), b"x", deadline=1.6)
        nats.resume()
        assert await kv.publish(subjects.kv_subject("t", "m", "r"), b"y", deadline=5) == 2, "one x, then y"
        await kv.close()


async def test_kv_control_messages_are_not_stored(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log())
        kv = JetStreamKV(made)
        with pytest.raises(store.Unavailable):
            await kv.publish(subjects.kv_control_subject("t", "r"), b"{}", deadline=1)
        assert (await kv.extent()).last == 0
        await kv.close()


async def test_a_kv_message_over_the_server_s_limit_is_refused_before_it_is_sent(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log())
        kv = JetStreamKV(made)
        with pytest.raises(store.TooLarge, match="takes at most 1048576"):
            await kv.publish(subjects.kv_subject("t", "m", "r"), bytes(1_048_577))
        assert await kv.publish(subjects.kv_subject("t", "m", "r"), bytes(1_000_000)) == 1
        assert made.life == 1
        await kv.close()


# Following with a pause between pulls -------------------------------------------------------------------------------

LONG = 1.0  # seconds of a pause that a busy machine does not blur


@contextlib.asynccontextmanager
async def paused(nats: natsserver.Server, pause: float) -> AsyncGenerator[JetStreamKV, None]:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.kv_log())
        kv = JetStreamKV(made)
        kv.reader = reader.Reader(made, kv.name, store.KVMessage, reader.Settings(pause=pause))
        await kv.publisher.start()
        yield kv
        await kv.close()


async def say(kv: JetStreamKV, number: int) -> int:
    return await kv.publish(subjects.kv_subject("t", "m", "r"), b"%d" % number)


async def test_after_quiet_a_message_comes_at_once_and_the_next_ones_together(nats: natsserver.Server) -> None:
    async with paused(nats, LONG) as kv, contextlib.aclosing(kv.read(follow=True)) as chunks:
        assert await anext(chunks) == []
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(1.5 * LONG)
        began = time.monotonic()
        await say(kv, 0)
        assert [one.payload for one in await asyncio.wait_for(waiting, 5)] == [b"0"]
        assert time.monotonic() - began < LONG / 2, "nobody waits for a pause that is over"
        found: list[list[bytes]] = []
        for number in range(1, 7):
            await say(kv, number)
        async with asyncio.timeout(10):
            while sum(map(len, found)) < 6:
                found.append([one.payload for one in await anext(chunks)])
        assert [payload for chunk in found for payload in chunk] == [b"%d" % number for number in range(1, 7)]
        assert max(map(len, found)) >= 5, "the next pull may take the first of them alone, the one after it the rest"


async def test_a_history_longer_than_a_pull_is_followed_without_a_hole(nats: natsserver.Server) -> None:
    async with paused(nats, 0.01) as kv:
        kv.reader = reader.Reader(
            kv.connection, kv.name, store.KVMessage, reader.Settings(pause=0.01, batch=7, max_bytes=2000)
        )
        for number in range(200):
            await say(kv, number)
        found: list[bytes] = []
        async with asyncio.timeout(20), contextlib.aclosing(kv.read(follow=True)) as chunks:
            async for chunk in chunks:
                assert len(chunk) <= 7
                found += [one.payload for one in chunk]
                if chunk and len(found) == 200:
                    await say(kv, 200)
                if len(found) == 201:
                    break
        assert found == [b"%d" % number for number in range(201)]
        assert kv.reader.restarts == 0


async def test_a_paused_reader_outlives_the_expiry_of_its_pulls(
    nats: natsserver.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_EXPIRES", 0.5)
    monkeypatch.setattr(reader, "_HEARTBEAT", 0.2)
    async with paused(nats, 0.01) as kv, contextlib.aclosing(kv.read(follow=True)) as chunks:
        assert await anext(chunks) == []
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(1.8)  # three pulls came to nothing
        await say(kv, 0)
        assert [one.payload for one in await asyncio.wait_for(waiting, 5)] == [b"0"]
        assert kv.reader.restarts == 0


@pytest.mark.parametrize("lost", [[2], [5], [2, 3, 4]], ids=str)
async def test_with_a_pause_lost_frames_are_read_again(nats: natsserver.Server, lost: list[int]) -> None:
    """Numbers of the frames that are lost: those of messages, or of the status that ends a pull."""
    async with paused(nats, 0.01) as kv:
        seen = 0

        def spoil(taken: list[Any]) -> list[Any]:
            nonlocal seen
            first, seen = seen, seen + len(taken)
            return [one for number, one in enumerate(taken, first) if number not in lost]

        damage(kv, spoil)  # type: ignore[arg-type]
        found: list[bytes] = []
        async with asyncio.timeout(30), contextlib.aclosing(kv.read(follow=True)) as chunks:
            assert await anext(chunks) == []
            for number in range(10):
                await say(kv, number)
            async for chunk in chunks:
                found += [one.payload for one in chunk]
                if len(found) == 10:
                    break
        assert found == [b"%d" % number for number in range(10)]
