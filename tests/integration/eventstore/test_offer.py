"""Events that are offered: on their way without a task, told in the turn in which JetStream answers."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from eventstore import envelope, events, store
from eventstore.jetstream.store import JetStreamStore
from tests.support.eventstores import JetStream, everything, jetstream, moment


def gone(number: int, *, padding: str = "") -> envelope.Envelope:
    """An event that is never shed."""
    return events.event(
        events.ObjectGone(uid=f"{number}{padding}"),
        id=f"object.gone:{number}",
        source="/test",
        subject="wl.object.pods.ml.p",
        time_ns=time.time_ns(),
        actor="test",
    )


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[JetStream, None]:
    async with jetstream(tmp_path) as made:
        yield made


async def opened(bench: JetStream, *, deadline: float = 3.0) -> JetStreamStore:
    """One that looked at its stream and appended already, as the first append does."""
    log = await bench.store(deadline=deadline)
    await log.append(gone(0))
    return log


async def offered(log: JetStreamStore, event: envelope.Envelope) -> bool:
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    assert log.offer(event, told.set_result)
    return await told


async def test_it_is_stored_in_order_with_what_is_appended(bench: JetStream) -> None:
    log = await opened(bench)
    told: list[bool] = []
    for number in range(1, 100):
        assert log.offer(gone(number), told.append)
    assert (await log.append(gone(100))).sequence == 101
    assert told == [True] * 99
    assert [one.sequence for one in await everything(log)] == list(range(1, 102))
    assert log.offer(gone(101), told.append), "what was acknowledged out of turn raises no doubt about the stream"


async def test_before_the_first_look_at_the_stream_nothing_is_taken(bench: JetStream) -> None:
    log = await bench.store()
    assert not log.offer(gone(1), pytest.fail)
    assert await everything(log) == []


async def test_what_may_be_shed_and_what_is_refused_is_for_append_to_say(bench: JetStream) -> None:
    log = await opened(bench)
    assert not log.offer(moment(1), pytest.fail)
    assert not log.offer(gone(1, padding="x" * envelope.MAX_BYTES), pytest.fail)
    with pytest.raises(store.TooLarge):
        await log.append(gone(1, padding="x" * envelope.MAX_BYTES))
    assert len(await everything(log)) == 1


async def test_what_is_there_already_is_told_as_unknown_and_appended_once(bench: JetStream) -> None:
    log = await opened(bench)
    assert not await offered(log, gone(0))
    assert (await log.append(gone(0))).duplicate
    assert await offered(log, gone(1))
    assert len(await everything(log)) == 2


async def test_a_lost_ack_is_sent_for_again(bench: JetStream) -> None:
    log = await opened(bench)
    await bench.lose_next_ack(log)
    assert not await offered(log, gone(1)), "the second answer says that it is a duplicate"
    assert (await log.append(gone(1))).duplicate
    assert len(await everything(log)) == 2


async def test_an_outage_longer_than_the_deadline_is_told_and_nothing_is_doubled(bench: JetStream) -> None:
    log = await opened(bench, deadline=0.3)
    told: list[bool] = []
    async with bench.outage(log):
        for number in range(1, 50):
            assert log.offer(gone(number), told.append)
        while len(told) < 49:
            await asyncio.sleep(0.05)
    assert told == [False] * 49
    await log.connection.wait_connected(5)
    for number in range(1, 50):
        await log.append(gone(number))
    assert len(await everything(log)) == 50


async def test_a_stream_that_went_back_is_noticed_by_what_was_offered(bench: JetStream) -> None:
    log = await opened(bench)
    await bench.mark(log)
    await log.append(gone(1))
    assert await offered(log, gone(2))
    await bench.return_to_mark(log)
    assert not log.offer(gone(3), pytest.fail), "after a reconnect `append` looks first"
    with pytest.raises(store.Regressed):
        await log.append(gone(3), expected=3)
    await log.append(gone(3))
    assert await offered(log, gone(4))


async def test_closing_tells_whoever_waits(bench: JetStream) -> None:
    log = await opened(bench)
    told: list[bool] = []
    async with bench.outage(log):
        assert log.offer(gone(1), told.append)
        await log.close()
        assert told == [False]
        assert not log.offer(gone(2), pytest.fail)


@pytest.mark.parametrize("way", ["offer", "append"])
async def test_a_loss_is_noticed_though_what_waited_has_filled_it_up_again(bench: JetStream, way: str) -> None:
    """What waits is sent before anybody can look: the stream is as long again by then."""
    log = await opened(bench)
    before = await log.extent()
    await bench.mark(log)
    for number in range(1, 11):
        await log.append(gone(number))
    waiting: list[asyncio.Future[Any]] = []
    told: list[bool] = []
    async with bench.outage(log):
        bench.server.restore(bench.backup)
        for number in range(100, 150):
            if way == "offer":
                assert log.offer(gone(number), told.append)
            else:
                waiting.append(asyncio.ensure_future(log.append(gone(number))))
        await asyncio.sleep(0)
    await log.connection.wait_connected(5)
    await asyncio.gather(*waiting)
    while way == "offer" and len(told) < 50:
        await asyncio.sleep(0.02)
    assert (await log.extent()).last > 11, "longer than it ever was"
    with pytest.raises(store.Regressed):
        await log.append(gone(200), expected=11)
    assert (await log.extent()).incarnation != before.incarnation
    await log.append(gone(200))
    assert await offered(log, gone(201)), "and no second alarm"
    await log.append(gone(202), expected=(await log.extent()).last)
