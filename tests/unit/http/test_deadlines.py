"""What takes too long ends, in virtual time; and the drain. Excluded: what is said in time (test_connection)."""

import asyncio

import looptime
import pytest

from subscribers.http import connection
from tests.support import http_client as client_side
from tests.support.http_client import Client, get, post

LIMITS = connection.Limits(
    head_seconds=5, body_seconds=30, idle_seconds=75, write_seconds=20, linger_seconds=2, body=100_000
)

SLOW = {
    "nothing at all": (b"", 5, None),
    "half a head": (b"GET /healthz HT", 5, b"408 Request Timeout"),
    "a head and half a body": (post(b"x" * 100)[:-1], 30, b"408 Request Timeout"),
    "idle after an answer": (get(b"/healthz"), 75, b"200 OK"),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("sent", "seconds", "answered"), SLOW.values(), ids=SLOW)
async def test_a_connection_ends_when_its_stage_took_too_long(
    sent: bytes, seconds: float, answered: bytes | None
) -> None:
    listener = client_side.listener(limits=LIMITS)
    client = Client(listener)
    client.send(sent)
    await asyncio.sleep(seconds - 0.5)
    assert not client.transport.closed
    assert not client.transport.eof
    await asyncio.sleep(2)
    assert client.transport.closed or client.transport.eof
    written = bytes(client.transport.written)
    assert (answered in written) if answered else not written
    await asyncio.sleep(LIMITS.linger_seconds + 1)
    assert client.transport.closed
    listener.detach()


@pytest.mark.looptime
async def test_bytes_that_trickle_in_do_not_extend_the_time_for_a_head() -> None:
    listener = client_side.listener(limits=LIMITS)
    client = Client(listener)
    for byte in get(b"/healthz", extra=b"X: y\r\n" * 10):
        client.send(bytes([byte]))
        await asyncio.sleep(0.2)
        if client.transport.eof:
            break
    assert client.answer().code == 408
    listener.detach()


@pytest.mark.looptime
async def test_empty_lines_are_no_sign_of_life() -> None:
    listener = client_side.listener(limits=LIMITS)
    client = Client(listener)
    client.send(get(b"/healthz"))
    for _ in range(80):
        client.send(b"\r\n")
        await asyncio.sleep(1)
    assert client.transport.closed
    listener.detach()


@pytest.mark.looptime
async def test_a_client_that_does_not_read_is_cut_off() -> None:
    listener = client_side.listener(limits=LIMITS)
    client = Client(listener, room=100)
    client.send(get(b"/metrics"))
    await asyncio.sleep(19)
    assert not client.transport.aborted
    await asyncio.sleep(3)
    assert client.transport.aborted
    listener.detach()


@pytest.mark.looptime
async def test_a_drain_ends_idle_connections_at_once_and_busy_ones_after_their_answer() -> None:
    listener = client_side.listener(limits=LIMITS)
    idle, busy, stuck = Client(listener), Client(listener), Client(listener)
    idle.send(get(b"/healthz"))
    head, tail = post(b"12345")[:-2], post(b"12345")[-2:]
    busy.send(head)
    stuck.send(head)
    drain = asyncio.create_task(listener.drain(grace=4))
    await asyncio.sleep(1)
    assert [client.transport.closed for client in (idle, busy, stuck)] == [True, False, False]
    busy.send(tail)
    assert busy.answer().headers[b"connection"] == b"close"
    assert busy.transport.closed
    loop = asyncio.get_running_loop()
    assert isinstance(loop, looptime.LoopTimeEventLoop)
    await drain
    assert loop.time() == pytest.approx(4, abs=0.1)
    assert stuck.transport.aborted


@pytest.mark.looptime
async def test_a_drain_answers_what_was_pipelined() -> None:
    listener = client_side.listener(limits=LIMITS)
    client = Client(listener)
    client.send(post(b"x") * 30)
    await listener.drain(grace=4)
    answers = client.answers
    assert len(answers) == 30
    assert [b"connection" in answer.headers for answer in answers] == [False] * 29 + [True]
