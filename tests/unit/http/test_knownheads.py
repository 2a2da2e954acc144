"""A request whose head is known is answered as if it had been parsed. Excluded: real sockets."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from subscribers.http import connection, hotpath, knownheads, routes
from tests.support import http_client

BODY = b'{"token_ids": [1, 2, 3]}'


class Nobody(knownheads.KnownHeads):
    """Remembers nothing: every request is parsed."""

    def remember(self, buffer: memoryview, size: int, head: routes.Head, handler: routes.Handler) -> None:
        return


class NoParser:
    def feed_data(self, data: memoryview) -> None:
        raise AssertionError("parsed")


def unparsed(client: http_client.Client) -> None:
    """From now on nothing may be parsed."""
    client.connection._parser = NoParser()  # type: ignore[assignment]


async def test_the_second_request_with_a_head_is_not_parsed_whatever_its_length() -> None:
    client = http_client.Client(http_client.listener())
    client.send(http_client.post(BODY))
    unparsed(client)
    client.send(http_client.post(BODY))
    client.send(http_client.post(BODY * 100))
    assert [answer.body for answer in client.answers] == [b'{"json":%d}' % size for size in (24, 24, 2400)]
    assert [answer.code for answer in client.answers] == [200] * 3


async def test_heads_are_known_to_every_connection_of_a_listener() -> None:
    listener = http_client.listener()
    http_client.Client(listener).send(http_client.post(BODY))
    another = http_client.Client(listener)
    unparsed(another)
    another.send(http_client.post(b"x" * 8))
    assert another.answer().body == b'{"json":8}'


async def test_packed_questions_keep_their_query() -> None:
    client = http_client.Client(http_client.listener())

    def ask(query: bytes) -> bytes:
        kind = routes.PACKED_TYPE
        return http_client.post(b"abcd", path=b"/v1/lookup?" + query, kind=kind)

    for query in (b"model_id=a", b"model_id=b"):
        client.send(ask(query))
    unparsed(client)
    client.send(ask(b"model_id=a"))
    assert client.answers[-1].body == b'{"packed":4,"query":"model_id=a"}'


async def test_what_a_known_head_leads_to_may_still_be_malformed_or_a_bug_and_is_counted() -> None:
    counted: list[tuple[bytes, int]] = []

    class Meter(hotpath.Meter):
        def answered(self, path: bytes, code: int) -> None:
            counted.append((path, code))

    client = http_client.Client(http_client.listener(meter=Meter()))
    client.send(http_client.post(BODY))
    unparsed(client)
    client.send(http_client.post(b"malformed"))
    client.send(http_client.post(b"bug"))
    assert [answer.code for answer in client.answers] == [200, 400, 500]
    assert counted == [(b"/v1/lookup", code) for code in (200, 400, 500)]


async def test_a_draining_listener_ends_the_connection_after_a_known_head_too() -> None:
    listener = http_client.listener()
    client = http_client.Client(listener)
    client.send(http_client.post(BODY))
    listener.draining = True
    unparsed(client)
    client.send(http_client.post(BODY))
    assert client.answers[-1].headers[b"connection"] == b"close"
    assert client.transport.closed


async def test_a_body_over_the_limit_is_refused_under_a_known_head_too() -> None:
    client = http_client.Client(http_client.listener(limits=connection.Limits(body=100)))
    client.send(http_client.post(b"x" * 100))
    client.send(http_client.post(b"x" * 101))
    assert [answer.code for answer in client.answers] == [200, 413]


@pytest.mark.parametrize(
    "request_",
    [
        http_client.get(b"/healthz"),
        http_client.get(b"/healthz", method=b"HEAD"),
        b"GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
        b"HEAD /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
        b"POST /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
        b"POST /v1/lookup HTTP/1.0\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\nx",
        http_client.post(b"x", extra=b"Connection: close\r\n"),
        http_client.post(b"x", extra=b"Expect: 100-continue\r\n"),
        http_client.post(b"", extra=b""),
        http_client.post(b"x", extra=b"x: " + b"y" * knownheads.LONGEST + b"\r\n"),
        http_client.post(b"x").replace(b"Content-Length", b"CONTENT-LENGTH"),
        http_client.post(b"x") * 2,
        b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\nx\r\n0\r\n\r\n",
    ],
)
async def test_what_is_not_remembered(request_: bytes) -> None:
    listener = http_client.listener()
    client = http_client.Client(listener)
    client.send(request_)
    assert client.transport.written
    assert len(listener.heads) == 0


async def test_a_request_in_pieces_is_parsed_and_what_follows_is_known_again() -> None:
    listener = http_client.listener()
    client = http_client.Client(listener)
    client.send(http_client.post(BODY), piece=7)
    assert len(listener.heads) == 0
    client.send(http_client.post(BODY))
    client.send(http_client.post(BODY), piece=50)
    unparsed(client)
    client.send(http_client.post(BODY))
    assert len(client.answers) == 4


async def test_heads_that_change_with_every_request_are_bounded() -> None:
    listener = http_client.listener()
    client = http_client.Client(listener)
    for number in range(3 * knownheads.MOST):
        client.send(http_client.post(BODY, extra=b"traceparent: %d\r\n" % number))
        assert len(listener.heads) <= knownheads.MOST
    assert len(client.answers) == 3 * knownheads.MOST


_lines = strategies.sampled_from(
    [
        b"Host: h\r\n",
        b"host: h\r\n",
        b"Content-Type: application/json\r\n",
        b"content-type: application/x-u32le\r\n",
        b"Content-Length: %d\r\n",
        b"content-length: %d\r\n",
        b"content-length:  %d\r\n",
        b"x-content-length: %d\r\n",
        b"content-length: 0%d\r\n",
        b"content-length: +%d\r\n",
        b"content-length: %d \r\n",
        b"Connection: keep-alive\r\n",
        b"Connection: close\r\n",
        b"Connection: upgrade\r\nUpgrade: h2c\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"content-encoding: identity\r\n",
        b"expect: 100-continue\r\n",
        b" folded: %d\r\n",
    ]
)
_bodies = strategies.sampled_from([b"", b"x", b"malformed", BODY, b"\r\n\r\n", b"1\r\nx\r\n0\r\n\r\n", b"z" * 300])
_usual = [b"Host: h\r\n", b"Content-Type: application/json\r\n", b"content-length: %d\r\n"]


@strategies.composite
def _requests(draw: Any) -> bytes:
    lines = draw(strategies.one_of(strategies.just(_usual), strategies.lists(_lines, max_size=6)))
    method = draw(strategies.sampled_from([b"POST", b"POST", b"POST", b"GET", b"HEAD"]))
    target = draw(
        strategies.sampled_from([b"/v1/lookup", b"/v1/lookup?a=b", b"/healthz", b"/no", b"http://h/v1/lookup"])
    )
    version = draw(strategies.sampled_from([b"1.1", b"1.1", b"1.1", b"1.0"]))
    body = draw(_bodies)
    said = len(body) + draw(strategies.sampled_from([0, 0, 0, 0, -1, 1]))
    head = b"".join(line % max(0, said) if b"%d" in line else line for line in lines)
    start = draw(strategies.sampled_from([b"", b"", b"", b"\r\n"]))
    return b"%b%b %b HTTP/%b\r\n%b\r\n%b" % (start, method, target, version, head, body)


@hypothesis.given(
    sent=strategies.lists(
        strategies.tuples(strategies.lists(_requests(), min_size=1, max_size=2), strategies.integers(1, 3)), max_size=6
    ),
    piece=strategies.sampled_from([65536, 65536, 40]),
)
@hypothesis.settings(deadline=None)
async def test_answers_are_those_of_a_listener_that_parses_everything(
    sent: list[tuple[list[bytes], int]], piece: int
) -> None:
    plain = http_client.listener()
    plain.heads = Nobody(1 << 20)
    knowing = http_client.listener()
    # One Date header for both: two listeners made at either side of a full second differ in theirs.
    knowing.writer = plain.writer
    clients = [http_client.Client(plain), http_client.Client(knowing)]
    for each, times in sent:
        for _ in range(times):
            for client in clients:
                client.send(b"".join(each), piece=piece)
    one, other = clients
    assert one.transport.written == other.transport.written
    assert (one.connection.stage, one.transport.closed) == (other.connection.stage, other.transport.closed)
