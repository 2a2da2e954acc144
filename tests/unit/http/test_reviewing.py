"""The listener of reviews, without a socket: order, what arrives meanwhile, clients that leave, and every refusal.

Excluded: the protocol that it shares with port 8080 (test_connection), TLS (tests/integration/webhook)."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from handlers.admission import review
from subscribers.http import reviewing

HOST = b"Host: w\r\n"


class Desk:
    """Answers when it is told to."""

    admitters = ("/mutate", "/validate")

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.waiting: list[Callable[[bytes | Exception], None]] = []

    def begin(self, path: str, body: bytes, told: Callable[[bytes | Exception], None]) -> None:
        self.asked.append((path, body))
        if body == b"bad":
            told(review.Malformed("no AdmissionReview: it is bad"))
        elif body == b"bug":
            raise RuntimeError("secret detail")
        elif body == b"late bug":
            told(RuntimeError("secret detail"))
        else:
            self.waiting.append(told)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.reading = True
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    abort = close


class Client:
    def __init__(self) -> None:
        self.desk = Desk()
        self.times: list[float] = []
        routes = reviewing.Routes(self.desk, timed=self.times.append)
        self.listener = reviewing.Listener(routes, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.listener.loop = asyncio.get_running_loop()
        self.transport = Transport()
        self.connection = self.listener.connect()
        self.connection.connection_made(self.transport)

    async def send(self, data: bytes) -> None:
        buffer = self.connection.get_buffer(-1)
        for piece in (data[at : at + len(buffer)] for at in range(0, len(data), len(buffer))):
            buffer[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))
        await self.turn()

    async def turn(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    async def answer(self, number: int, body: bytes) -> None:
        self.desk.waiting[number](body)
        await self.turn()

    @property
    def bodies(self) -> list[bytes]:
        return [one.split(b"\r\n\r\n")[1].partition(b"HTTP/1.1")[0] for one in self.transport.sent.split(b"date: ")[1:]]

    @property
    def codes(self) -> list[int]:
        return [int(one[:3]) for one in self.transport.sent.split(b"HTTP/1.1 ")[1:] if one[:3].isdigit()]


def post(body: bytes, path: bytes = b"/mutate?timeout=3s", extra: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b" % (path, HOST, extra, len(body), body)


async def test_an_answer_comes_when_it_is_there() -> None:
    client = Client()
    await client.send(post(b"one"))
    assert (client.desk.asked, client.transport.sent) == ([("/mutate", b"one")], b"")
    await client.answer(0, b"answer")
    assert (client.codes, client.bodies) == ([200], [b"answer"])
    assert len(client.times) == 1
    await client.send(post(b"two"))  # its head is known by now
    await client.answer(1, b"again")
    assert client.bodies == [b"answer", b"again"]


async def test_what_comes_meanwhile_waits_its_turn() -> None:
    client = Client()
    await client.send(post(b"one") + post(b"two", b"/validate"))
    await client.send(post(b"three"))
    assert [body for _, body in client.desk.asked] == [b"one"]
    assert not client.transport.reading
    await client.answer(0, b"1")
    assert [body for _, body in client.desk.asked] == [b"one", b"two"]
    await client.answer(1, b"2")
    await client.answer(2, b"3")
    assert client.bodies == [b"1", b"2", b"3"]
    assert client.transport.reading


async def test_a_refusal_waits_for_the_answers_before_it() -> None:
    client = Client()
    await client.send(post(b"one") + b"GET /nothing HTTP/1.1\r\n%b\r\n" % HOST)
    assert client.transport.sent == b""
    await client.answer(0, b"1")
    assert client.codes == [200, 404]


async def test_the_connection_ends_after_the_answer_and_not_before() -> None:
    client = Client()
    await client.send(post(b"one", extra=b"Connection: close\r\n"))
    client.connection.close_if_idle()
    client.connection.expire()
    assert not client.transport.closed
    await client.answer(0, b"1")
    assert client.codes == [200]
    assert client.transport.closed


async def test_a_drain_lets_an_answer_out() -> None:
    client = Client()
    await client.send(post(b"one"))
    draining = asyncio.create_task(client.listener.drain(grace=1.0))
    await client.turn()
    assert not client.transport.closed
    await client.answer(0, b"1")
    assert b"connection: close" in client.transport.sent
    client.connection.connection_lost(None)
    await draining


async def test_a_client_that_leaves_does_not_stop_the_decision() -> None:
    client = Client()
    await client.send(post(b"one"))
    client.connection.connection_lost(None)
    await client.answer(0, b"1")
    assert client.transport.sent == b""
    assert len(client.times) == 1


@pytest.mark.parametrize(
    ("request_", "code", "told"),
    [
        (post(b"bad"), 400, b"no AdmissionReview: it is bad"),
        (post(b"bug"), 500, b"log has the details"),
        (post(b"late bug"), 500, b"log has the details"),
        (post(b"x", b"/other"), 404, b"there is no webhook at /other"),
        (b"GET /mutate HTTP/1.1\r\n%b\r\n" % HOST, 405, b"use POST"),
        (post(b"x", extra=b"Content-Encoding: gzip\r\n"), 415, b"content-encoding"),
        (b"POST /mutate HTTP/1.1\r\n%bContent-Length: 99999999\r\n\r\n" % HOST, 413, b"larger than"),
        (b"POST /mutate HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", 400, b"Host"),
        (b"\x16\x03\x01 plain nonsense\r\n\r\n", 400, b"not an HTTP/1.1 request"),
    ],
)
async def test_refusals_say_what_is_wrong(request_: bytes, code: int, told: bytes) -> None:
    client = Client()
    await client.send(request_)
    assert client.codes == [code]
    assert told in client.transport.sent
    assert b"secret detail" not in client.transport.sent


LARGE = 3 * reviewing.SMALL


async def test_all_clients_together_may_hold_so_much_and_what_ends_is_given_back() -> None:
    client = Client()
    room = client.listener.room
    room.left = LARGE
    await client.send(post(b"x" * LARGE))
    left = room.left
    assert left < reviewing.SMALL + 200
    other = Client()
    other.listener.room = room
    other.connection = other.listener.connect()
    other.connection.connection_made(other.transport)
    await other.send(post(b"small"))
    await other.answer(0, b"1")
    await other.send(post(b"y" * LARGE))
    assert (other.codes, other.bodies) == ([200, 503], [b"1", b'{"error":"too many large reviews; try again"}\n'])
    other.connection.connection_lost(None)
    assert room.left == left
    await client.answer(0, b"1")
    assert room.left == LARGE


async def test_an_answer_gives_nothing_back_of_what_is_still_being_received() -> None:
    client = Client()
    whole = client.listener.room.left
    await client.send(post(b"small") + post(b"x" * LARGE)[:-10])
    held = whole - client.listener.room.left
    assert held > 0
    await client.answer(0, b"1")
    assert whole - client.listener.room.left >= held
    await client.send(b"x" * 10)
    await client.answer(1, b"2")
    assert client.bodies == [b"1", b"2"]
    assert client.listener.room.left == whole


@pytest.mark.parametrize(
    "sent", [post(b"x" * LARGE)[:-10], post(b"x" * LARGE, b"/nothing"), post(b"bad"), post(b"x" * LARGE)]
)
async def test_whatever_becomes_of_a_review_its_room_is_given_back(sent: bytes) -> None:
    client = Client()
    whole = client.listener.room.left
    await client.send(sent)
    client.connection.connection_lost(None)
    if client.desk.waiting:
        assert client.listener.room.left < whole  # it is still being answered
        await client.answer(0, b"1")
    assert client.listener.room.left == whole
