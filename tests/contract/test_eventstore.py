"""What every event store does, in memory and on a real nats-server. Excluded: settings of streams (provisioning),
credentials and broken connections below the protocol (integration/eventstore)."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore import envelope, events, store
from tests.support.eventstores import SHORT, Memory, everything, follow, insist, jetstream, moment


@pytest.fixture(params=["memory", "jetstream"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any, None]:
    if request.param == "memory":
        yield Memory()
        return
    async with jetstream(tmp_path) as made:
        yield made


async def test_an_empty_log_has_no_last_and_nothing_to_read(bench: Any) -> None:
    log = await bench.store()
    extent = await log.extent()
    assert (extent.first, extent.last) == (1, 0)
    assert await log.last("wl.moment") is None
    assert await log.last_before("wl.moment", sequence=10) is None
    assert await everything(log) == []


async def test_what_is_appended_is_read_back_in_order_with_the_stream_s_time(bench: Any) -> None:
    log = await bench.store()
    wanted = [moment(number, subject=f"wl.index.{number % 3}") for number in range(50)]
    appended = [await log.append(event) for event in wanted]
    found = await everything(log)
    assert [one.sequence for one in appended] == [one.sequence for one in found] == list(range(1, 51))
    assert [msgspec.json.decode(one.body, type=envelope.Envelope) for one in found] == wanted
    assert [one.subject for one in found] == [event.subject for event in wanted]
    assert all(earlier.time_ns <= later.time_ns for earlier, later in itertools.pairwise(found))
    assert await everything(log, after=47) == found[47:]
    assert await everything(log, subject="wl.index.1") == [one for one in found if one.subject == "wl.index.1"]
    assert await everything(log, subject="wl.index.*", after=10) == found[10:]
    assert await log.last("wl.index.1") == found[49]


async def test_the_last_before_a_sequence_or_a_time_is_found(bench: Any) -> None:
    log = await bench.store()
    for number in range(6):
        await log.append(moment(number, subject="wl.moment" if number % 2 else "wl.watch"))
        await asyncio.sleep(0.002)
    found = await everything(log)
    assert await log.last_before("wl.moment", sequence=5) == found[3]
    assert await log.last_before("wl.moment", sequence=6) == found[5]
    assert await log.last_before("wl.moment", sequence=1) is None
    assert await log.last_before("wl.moment", time_ns=found[3].time_ns) == found[3]
    assert await log.last_before("wl.moment", time_ns=found[3].time_ns - 1) == found[1]
    assert await log.last_before("wl.moment", time_ns=1) is None
    assert await log.last_before("wl.moment", time_ns=2**62) == found[5]


async def test_the_same_fact_inside_the_window_is_stored_once_although_another_saw_it_later(bench: Any) -> None:
    log = await bench.store()
    first = await log.append(moment(1))
    again = await log.append(msgspec.structs.replace(moment(1), actor="another", source="/elsewhere"))
    assert first == store.Appended(1, False)
    assert again == store.Appended(1, True)
    assert len(await everything(log)) == 1


async def test_the_same_fact_after_the_window_is_stored_once_when_it_has_an_expectation(bench: Any) -> None:
    log = await bench.store(window=SHORT)
    await log.append(moment(1), expected=0)
    await asyncio.sleep(SHORT * 2.5)
    assert await log.append(moment(1), expected=0) == store.Appended(1, True)
    assert len(await everything(log)) == 1


async def test_the_same_id_without_an_expectation_is_a_new_event_after_the_window(bench: Any) -> None:
    log = await bench.store(window=SHORT)
    await log.append(moment(1))
    await asyncio.sleep(SHORT * 2.5)
    assert await log.append(moment(1)) == store.Appended(2, False)


@pytest.mark.parametrize("expected", [None, 0], ids=["without expectation", "with expectation"])
async def test_one_id_for_two_facts_is_an_alarm(bench: Any, expected: int | None) -> None:
    log = await bench.store()
    await log.append(moment(1, id="same"), expected=expected)
    with pytest.raises(store.IdentityAlarm, match="the id same is taken by a different event at sequence 1"):
        await log.append(moment(2, id="same"), expected=expected)
    assert len(await everything(log)) == 1


async def test_of_two_racing_writers_one_wins_and_the_other_is_told(bench: Any) -> None:
    log = await bench.store()
    outcomes = await asyncio.gather(
        *(log.append(moment(number), expected=0) for number in range(20)), return_exceptions=True
    )
    won = [one for one in outcomes if isinstance(one, store.Appended)]
    lost = [one for one in outcomes if isinstance(one, store.Conflict)]
    assert won == [store.Appended(1, False)]
    assert len(lost) == 19
    assert all((one.expected, one.last) == (0, 1) for one in lost)


async def test_a_stale_object_after_a_newer_one_is_refused(bench: Any) -> None:
    """The watcher's world holds sequence 1 for the subject; another watcher has appended 2 since."""
    log = await bench.store()
    await log.append(moment(1), expected=0)
    await log.append(moment(2), expected=1)
    with pytest.raises(store.Conflict) as refused:
        await log.append(moment(3), expected=1)
    assert refused.value.last == 2
    assert await log.append(moment(3), expected=2) == store.Appended(3, False)


async def test_an_expectation_concerns_its_subject_alone(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1, subject="wl.a"), expected=0)
    await log.append(moment(2, subject="wl.b"), expected=0)
    assert (await log.append(moment(3, subject="wl.a"), expected=1)).sequence == 3


@pytest.mark.parametrize("expected", [None, 0], ids=["without expectation", "with expectation"])
async def test_a_lost_ack_stores_once(bench: Any, expected: int | None) -> None:
    log = await bench.store()
    await bench.lose_next_ack(log)
    assert (await insist(log, moment(1), expected=expected)).sequence == 1
    assert len(await everything(log)) == 1


async def test_a_lost_ack_is_recognised_although_another_event_followed_on_the_subject(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1), expected=0)
    await log.append(moment(2), expected=1)
    assert await log.append(moment(1), expected=0) == store.Appended(1, True)


async def test_an_event_over_256_kib_is_refused_before_it_is_sent(bench: Any) -> None:
    log = await bench.store()
    with pytest.raises(store.TooLarge, match="262144"):
        await log.append(moment(1, text="x" * envelope.MAX_BYTES))
    fits = envelope.MAX_BYTES - len(msgspec.json.encode(moment(1, text="")))
    assert (await log.append(moment(1, text="x" * fits))).sequence == 1
    assert (await everything(log))[0].body.endswith(b"xxx" + b'"}}')


BAD = {
    "id with a line break": ({"id": "a\r\nNats-Rollup: all"}, "control characters"),
    "empty id": ({"id": ""}, "empty"),
    "id with an outer space": ({"id": " a"}, "outer spaces"),
    "wildcard": ({"subject": "wl.>"}, "cannot be a subject"),
    "subject with a space": ({"subject": "wl.a 5\r\nPUB x 0"}, "cannot be a subject"),
    "empty subject": ({"subject": ""}, "cannot be a subject"),
}


@pytest.mark.parametrize(("change", "says"), BAD.values(), ids=BAD)
async def test_what_could_break_the_protocol_is_refused(bench: Any, change: dict[str, str], says: str) -> None:
    log = await bench.store()
    with pytest.raises(store.Refused, match=says):
        await log.append(msgspec.structs.replace(moment(1), **change))
    assert await everything(log) == []


async def test_a_full_log_refuses_with_a_line_for_the_operator_and_keeps_its_past(bench: Any) -> None:
    log = await bench.store(max_bytes=20_000)
    filling = asyncio.gather(*(log.append(moment(number, text="x" * 500)) for number in range(100)))
    with pytest.raises(store.StreamFull, match=r"takes no more .*give it room"):
        await filling
    found = await everything(log)
    assert found[0].sequence == 1
    assert len(found) > 10


def gone(number: int) -> envelope.Envelope:
    data = events.ObjectGone(uid="u", resource_version=str(number) + "x" * 500)
    return events.event(data, id=f"gone:{number}", source="/t", subject="wl.object.pods.a.b", time_ns=1, actor="t")


def seen(number: int) -> envelope.Envelope:
    data = events.ObjectSeen(uid="u", resource_version=str(number) + "x" * 500, shape=1, object={})
    return events.event(data, id=f"seen:{number}", source="/t", subject="wl.object.pods.a.b", time_ns=1, actor="t")


async def filled(log: Any, make: Any) -> tuple[int, store.StreamFull]:
    """How many were taken, and why no more."""
    for number in range(100):
        try:
            await log.append(make(number))
        except store.StreamFull as error:
            return number, error
    raise AssertionError("the log took everything")


async def test_a_nearly_full_log_sheds_by_class_and_keeps_a_reserve(bench: Any) -> None:
    log = await bench.store(max_bytes=60_000)
    moments, why = await filled(log, lambda number: moment(number, text="x" * 500))
    assert isinstance(why, store.Shed)
    others, why = await filled(log, seen)
    assert isinstance(why, store.Shed)
    reserve, why = await filled(log, gone)
    assert not isinstance(why, store.Shed)
    assert moments > others > 0
    assert reserve > 0
    assert "nats stream edit" in str(why) or bench.name == "memory"


async def test_an_event_is_found_by_its_sequence(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1))
    await log.append(moment(2))
    found = await log.get(2)
    assert found == (await everything(log))[1]
    assert [await log.get(number) for number in (0, 3)] == [None, None]


async def test_following_yields_an_empty_list_whenever_it_has_caught_up(bench: Any) -> None:
    log = await bench.store()
    async with contextlib.aclosing(log.read(follow=True)) as chunks:
        assert await anext(chunks) == []
        for number in (1, 2):
            await log.append(moment(number))
            assert [one.sequence for one in await anext(chunks)] == [number]
            assert await anext(chunks) == []


async def test_reading_ends_at_the_end_of_the_time_of_the_call(bench: Any) -> None:
    log = await bench.store()
    for number in range(10):
        await log.append(moment(number))
    found: list[store.Stored] = []
    async for chunk in log.read():
        found += chunk
        if len(found) <= 10:
            await log.append(moment(100 + len(found)))
    assert [one.sequence for one in found] == list(range(1, 11))


async def test_following_goes_on_after_an_outage_without_a_hole(bench: Any) -> None:
    log = await bench.store()
    found: list[store.Stored] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(follow(log, 40, into=found))
        for number in range(20):
            await insist(log, moment(number))
        async with bench.outage(log):
            pass
        for number in range(20, 40):
            await insist(log, moment(number))
    assert [one.sequence for one in found] == list(range(1, 41))


async def test_an_append_during_an_outage_is_unavailable_and_the_same_event_is_stored_once_afterwards(
    bench: Any,
) -> None:
    log = await bench.store(**({"deadline": 0.3} if bench.name == "jetstream" else {}))
    await log.append(moment(1))
    async with bench.outage(log):
        with pytest.raises(store.Unavailable):
            await log.append(moment(2))
    assert (await insist(log, moment(2))).sequence == 2
    assert len(await everything(log)) == 2


async def exhaust(chunks: Any) -> None:
    async for _ in chunks:
        pass


# An end that regressed -----------------------------------------------------------------------------------------------


async def test_an_end_below_what_was_acknowledged_raises_the_incarnation_and_is_told_once(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1))
    before = await log.extent()
    await bench.mark(log)
    await log.append(moment(2))
    await bench.return_to_mark(log)
    with pytest.raises(store.Regressed, match="fold it again from its start") as told:
        await log.append(moment(3), expected=2)
    assert told.value.known == store.Position(before.incarnation, 2)
    after = await log.extent()
    assert (after.last, after.incarnation) == (1, told.value.found.incarnation)
    assert after.incarnation != before.incarnation
    assert after.incarnation.rpartition(".")[2] == "1"
    assert await log.append(moment(3), expected=1) == store.Appended(2, False)


async def test_an_event_that_stands_for_itself_is_appended_after_a_lost_end_and_the_next_expectation_is_told(
    bench: Any,
) -> None:
    log = await bench.store()
    await log.append(moment(1))
    await bench.mark(log)
    await log.append(moment(2))
    await bench.return_to_mark(log)
    assert await log.append(moment(3)) == store.Appended(2, False)
    assert (await log.extent()).incarnation.endswith(".1")
    with pytest.raises(store.Regressed):
        await log.append(moment(4), expected=2)
    assert await log.append(moment(4), expected=2) == store.Appended(3, False)


async def test_a_reader_that_saw_the_lost_end_is_told(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1))
    before = await log.extent()
    await bench.mark(log)
    await log.append(moment(2))
    async with contextlib.aclosing(log.read(follow=True)) as chunks:
        seen = 0
        while seen < 2:
            seen += len(await anext(chunks))
        await bench.return_to_mark(log)
        with pytest.raises(store.Regressed):
            await exhaust(chunks)
    assert (await log.extent()).incarnation != before.incarnation


async def test_of_two_roles_that_find_the_same_loss_one_raises_the_incarnation(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1))
    known = store.Position((await log.extent()).incarnation, 7)
    outcomes = await asyncio.gather(*(log.verify(known) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(one, store.Regressed) for one in outcomes)
    assert (await log.extent()).incarnation.endswith(".1")


async def test_a_position_that_holds_is_verified_and_one_of_another_incarnation_is_not(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1))
    extent = await log.extent()
    assert await log.verify(store.Position(extent.incarnation, 1)) == extent
    with pytest.raises(store.Regressed):
        await log.verify(store.Position("20200101T000000.0", 1))
    assert await log.extent() == extent


async def test_reading_from_a_position_that_is_not_there_is_told_and_changes_nothing(bench: Any) -> None:
    log = await bench.store()
    await log.append(moment(1))
    before = await log.extent()
    with pytest.raises(store.Regressed):
        await everything(log, after=99)
    assert await log.extent() == before
