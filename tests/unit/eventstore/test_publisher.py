"""The publisher's table of what is pending: bounds, deadlines, resends. The connection is a list, time is virtual."""

import asyncio
from typing import Any

import pytest

from eventstore import store
from eventstore.jetstream import publisher
from tests.support.wire import Wire

pytestmark = pytest.mark.looptime


@pytest.fixture
async def wire() -> Wire:
    return Wire()


def made(wire: Wire, **bounds: int) -> publisher.Publisher:
    return publisher.Publisher(wire, **bounds)  # type: ignore[arg-type]


def start(
    publish: publisher.Publisher, *, resend: bool = True, within: float = 5.0, body: bytes = b"body", **more: Any
) -> Any:
    deadline = asyncio.get_running_loop().time() + within
    return asyncio.ensure_future(publish.publish("wl.a", body, deadline=deadline, resend=resend, **more))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_ends_the_wait(wire: Wire) -> None:
    publish = made(wire)
    one = start(publish, headers=b"NATS/1.0\r\nA: b\r\n\r\n")
    await settle()
    assert wire.frames == [b"wl.a _INBOX.x.1 18 22\r\nNATS/1.0\r\nA: b\r\n\r\nbody\r\n"]
    wire.answer(0)
    ack = await one
    assert (ack.seq, ack.duplicate, ack.error, ack.tries) == (9, False, None, 1)
    assert publish.counters() == (0, 0)


async def test_frames_of_one_turn_go_out_in_one_write_and_answers_find_their_message(wire: Wire) -> None:
    publish = made(wire)
    await publish.start()
    writes: list[bytes] = []
    write = wire.write
    wire.write = lambda data: (writes.append(data), write(data))[1]  # type: ignore[method-assign]
    many = [start(publish, body=b"%d" % number) for number in range(10)]
    await settle()
    assert len(writes) == 1
    for number in reversed(range(10)):
        wire.answer(number, b'{"seq":%d}' % number)
    assert [(await one).seq for one in many] == list(range(10))


@pytest.mark.parametrize("bounds", [{"in_flight": 3}, {"in_flight_bytes": 60}], ids=["messages", "bytes"])
async def test_what_is_in_flight_is_bounded_and_the_rest_waits_in_order(wire: Wire, bounds: dict[str, int]) -> None:
    publish = made(wire, **bounds)
    many = [start(publish, body=b"%d" % number) for number in range(9)]
    await settle()
    assert len(wire.frames) == 3
    for number in range(9):
        wire.answer(number, b'{"seq":%d}' % number)
        await settle()
        assert publish.counters().pending <= 3
    assert [(await one).seq for one in many] == list(range(9))


async def test_without_an_answer_the_same_bytes_are_sent_again_until_the_deadline(wire: Wire, looptime: Any) -> None:
    publish = made(wire)
    with pytest.raises(store.Unavailable, match=r"wl\.a: no answer .* after 3 tries; the message may be stored"):
        await start(publish)
    assert looptime == pytest.approx(5, abs=0.1)
    assert len(wire.frames) == 3  # at 0, 1 and 3 seconds
    assert len(set(wire.frames)) == 1
    assert publish.counters() == (0, 2)


async def test_a_late_answer_to_a_resent_message_counts_once(wire: Wire) -> None:
    publish = made(wire)
    one = start(publish)
    await asyncio.sleep(1.5)
    wire.answer(0)
    wire.answer(1, b'{"seq":77,"duplicate":true}')
    ack = await one
    assert (ack.seq, ack.tries) == (9, 2)


async def test_a_message_without_an_id_is_sent_once(wire: Wire) -> None:
    publish = made(wire)
    one = start(publish, resend=False, within=4)
    with pytest.raises(store.Unavailable, match="after 1 tries"):
        await one
    assert len(wire.frames) == 1


async def test_a_message_without_an_id_fails_at_once_when_the_connection_that_carried_it_is_renewed(
    wire: Wire, looptime: Any
) -> None:
    publish = made(wire)
    one = start(publish, resend=False, within=4)
    await asyncio.sleep(0.5)
    wire.come_back()
    with pytest.raises(store.Unavailable, match="the connection ended before an answer came; the message may be"):
        await one
    assert looptime == pytest.approx(0.5)
    assert len(wire.frames) == 1
    assert publish.counters().pending == 0


@pytest.mark.parametrize("resend", [True, False])
async def test_what_could_not_be_sent_in_an_outage_is_sent_when_it_is_over(wire: Wire, resend: bool) -> None:
    publish = made(wire)
    wire.up = False
    one = start(publish, resend=resend)
    await asyncio.sleep(2)
    assert wire.frames == []
    wire.come_back()
    await settle()
    wire.answer(0)
    assert (await one).tries == 1


async def test_an_outage_longer_than_the_deadline_says_that_nothing_was_sent(wire: Wire) -> None:
    publish = made(wire)
    wire.up = False
    with pytest.raises(store.Unavailable, match=r"wl\.a: NATS is away; nothing was sent"):
        await start(publish)
    wire.come_back()
    await settle()
    assert wire.frames == []


async def test_a_reconnect_sends_again_at_once(wire: Wire, looptime: Any) -> None:
    publish = made(wire)
    one = start(publish)
    await settle()
    wire.come_back()
    await settle()
    assert len(wire.frames) == 2
    wire.answer(1)
    assert (await one).tries == 2
    assert looptime == 0


async def test_waiting_for_a_place_ends_at_the_deadline(wire: Wire, looptime: Any) -> None:
    publish = made(wire, in_flight=1)
    first = start(publish, within=60)
    await settle()
    with pytest.raises(store.Unavailable, match="this one was not sent in time"):
        await start(publish, within=2)
    assert looptime == pytest.approx(2, abs=0.1)
    wire.answer(0)
    assert (await first).seq == 9


async def test_a_cancelled_caller_frees_his_place(wire: Wire) -> None:
    publish = made(wire, in_flight=1)
    first, second, third = start(publish), start(publish), start(publish)
    await settle()
    second.cancel()
    first.cancel()
    await asyncio.sleep(0.2)
    assert len(wire.frames) == 2
    wire.answer(1)
    assert (await third).seq == 9
    assert publish.counters().pending == 0


async def test_a_place_that_was_given_to_a_cancelled_caller_goes_to_the_next(wire: Wire) -> None:
    publish = made(wire, in_flight=1)
    first, second, third = start(publish), start(publish), start(publish)
    await settle()
    wire.answer(0)  # gives the place to the second …
    second.cancel()  # … who is cancelled before he runs
    await settle()
    assert len(wire.frames) == 2
    wire.answer(1)
    await asyncio.gather(first, third)


async def test_a_refused_subject_fails_what_is_pending_on_it(wire: Wire, looptime: Any) -> None:
    publish = made(wire)
    one = start(publish)
    await settle()
    for call in wire.on_violation:
        call("wl.other", "no")
    assert not one.done()
    for call in wire.on_violation:
        call("wl.a", 'Permissions Violation for Publish to "wl.a"')
    with pytest.raises(store.Misconfigured, match=r"NATS refuses wl\.a .*grant it to role test"):
        await one
    assert looptime == 0


async def test_an_empty_answer_says_that_nobody_listens(wire: Wire) -> None:
    publish = made(wire)
    one = start(publish)
    await settle()
    wire.answer(0, b"")
    assert (await one).error is publisher.NOBODY


async def test_an_answer_that_is_not_jetstream_s_is_ignored(wire: Wire) -> None:
    publish = made(wire)
    one = start(publish)
    await settle()
    wire.answer(0, b"hello")
    wire.take([(b"_INBOX.x.zzz", b"", b"", b"{}")])
    wire.answer(0)
    assert (await one).seq == 9


async def test_stopping_fails_what_waits_and_forgets_the_connection(wire: Wire) -> None:
    publish = made(wire, in_flight=1)
    first, second = start(publish), start(publish)
    await settle()
    await publish.stop()
    for one in (first, second):
        with pytest.raises(store.Unavailable, match="the log was closed"):
            await one
    assert (wire.on_connect, wire.on_violation, wire.ended) == ([], [], 1)
    await publish.stop()
    assert wire.ended == 1
    with pytest.raises(store.Unavailable, match="the log was closed; the message was not sent"):
        await start(publish)


async def test_whoever_was_let_in_and_could_not_send_does_not_keep_the_others_out(wire: Wire, looptime: Any) -> None:
    publish = made(wire, in_flight=3)
    many = [start(publish, within=60.0, body=b"%d" % number) for number in range(9)]
    await settle()
    wire.fault = store.Misconfigured("not permitted")
    for number in range(3):
        wire.answer(number)
    await settle()
    wire.fault = None
    await asyncio.sleep(0.2)
    failed = [one for one in many if one.done() and isinstance(one.exception(), store.Misconfigured)]
    sent = len(wire.frames)
    while not all(one.done() for one in many):
        for number in range(3, len(wire.frames)):
            wire.answer(number)
        await asyncio.sleep(0.1)
    assert (len(failed), sent) == (3, 6)
    assert not publish.crowded
    assert looptime < 1


async def test_what_the_server_never_takes_is_refused_and_not_sent(wire: Wire) -> None:
    publish = made(wire)
    wire.max_payload = 100
    for body, headers in ((b"x" * 101, b""), (b"x" * 90, b"NATS/1.0\r\n\r\n")):
        with pytest.raises(store.TooLarge, match=r"wl\.a: 10[12] bytes, the NATS server takes at most 100"):
            await start(publish, body=body, headers=headers)
    assert wire.frames == []
    assert publish.counters().pending == 0
