"""One HTTP connection, without sockets. Excluded: real transports (tests/integration/http) and random bytes (fuzz)."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import structlog

from subscribers.http import connection, hotpath
from tests.support import http_client as client_side
from tests.support.http_client import Client, get, post


@pytest.fixture
async def listener() -> AsyncIterator[hotpath.Listener]:
    made = client_side.listener(limits=connection.Limits(body=100_000, connections=3))
    yield made
    made.detach()


async def test_a_lookup_is_answered_as_json(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(post(b"12345"))
    answer = client.answer()
    assert (answer.code, answer.body) == (200, b'{"json":5}')
    assert answer.headers[b"content-type"] == b"application/json"
    assert answer.headers[b"date"].endswith(b" GMT")
    assert not client.transport.closed


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 50])
async def test_a_request_in_pieces_is_the_same_request(listener: hotpath.Listener, piece: int) -> None:
    client = Client(listener)
    client.send(post(b"x" * 20) + post(b"y" * 30), piece=piece)
    assert [answer.body for answer in client.answers] == [b'{"json":20}', b'{"json":30}']


async def test_packed_tokens_come_with_their_query(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(post(b"\x01\0\0\0", path=b"/v1/lookup?model_id=m", kind=b"application/x-u32le"))
    assert client.answer().body == b'{"packed":4,"query":"model_id=m"}'


async def test_pipelined_requests_are_answered_in_order_over_several_turns(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(b"".join(post(b"x" * size) for size in range(50)))
    assert len(client.answers) == connection.ANSWERS_PER_TURN
    assert not client.transport.reading
    for _ in range(10):
        await asyncio.sleep(0)
    assert [answer.body for answer in client.answers] == [b'{"json":%d}' % size for size in range(50)]
    assert client.transport.reading


REFUSED = {
    "unknown path": (get(b"/nope"), 404, "there is no /nope here"),
    "wrong method for a lookup": (get(b"/v1/lookup"), 405, "use POST"),
    "wrong method for health": (post(b"", path=b"/healthz"), 405, "use GET, HEAD"),
    "method of our own invention": (get(b"/metrics", method=b"DELETE"), 405, "use GET, HEAD"),
    "no length": (get(b"/v1/lookup", method=b"POST", extra=b"Content-Type: application/json\r\n"), 411, "needs a body"),
    "another type": (post(b"{}", kind=b"application/x-www-form-urlencoded"), 415, "send application/json"),
    "another charset": (post(b"{}", kind=b"application/json; charset=latin-1"), 415, "is not understood"),
    "compressed": (post(b"{}", extra=b"Content-Encoding: gzip\r\n"), 415, "send the body as it is"),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "Host header is missing"),
    "two hosts": (get(b"/healthz", extra=b"Host: other\r\n"), 400, "more than one Host"),
    "malformed question": (post(b"malformed"), 400, "it says malformed"),
    "target that is no URL": (get(b"http://:"), 400, "not a URL"),
}


@pytest.mark.parametrize(("request_bytes", "code", "says"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_request_gets_one_line_and_the_connection_goes_on(
    listener: hotpath.Listener, request_bytes: bytes, code: int, says: str
) -> None:
    client = Client(listener)
    client.send(request_bytes + get(b"/healthz"))
    refused, healthy = client.answers
    assert refused.code == code
    assert says in error_of(refused)
    assert healthy.body == b"ok\n"


FATAL = {
    "another expectation": (post(b"{}", extra=b"Expect: tea\r\n"), 417, "only 100-continue"),
    "upgrade with a body": (
        post(b"12345", extra=b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
        501,
        "send the request without it",
    ),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01", 400, "not an HTTP/1.1 request"),
    "HTTP/2 by prior knowledge": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "not an HTTP/1.1 request"),
    "length and chunks at once": (
        post(b"0\r\n\r\n", extra=b"Transfer-Encoding: chunked\r\n"),
        400,
        "not an HTTP/1.1 request",
    ),
    "two lengths": (post(b"12345", extra=b"Content-Length: 6\r\n"), 400, "not an HTTP/1.1 request"),
    "negative length": (b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400, "not an HTTP"),
    "folded header": (get(b"/healthz", extra=b"A: b\r\n c\r\n"), 400, "not an HTTP/1.1 request"),
    "body over the limit": (post(b"x" * 100_001), 413, "larger than 100000 bytes"),
    "chunks over the limit": (
        b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"fff0\r\n%b\r\n" % (b"x" * 0xFFF0) * 2,
        413,
        "larger than 100000 bytes",
    ),
    "endless header": (b"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 20_000, 431, "larger than 16384 bytes"),
    "endless path": (b"GET /" + b"x" * 20_000, 431, "larger than 16384 bytes"),
    "many headers": (get(b"/healthz", extra=b"".join(b"X%d: y\r\n" % n for n in range(9000))), 431, "16384 bytes"),
    "endless trailer": (
        b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\nX: " + b"x" * 90_000,
        431,
        "larger than 16384 bytes",
    ),
    "unknown path with a long body": (post(b"x" * 70_000, path=b"/nope"), 404, "there is no /nope"),
    "refused before 100-continue": (post(b"x", path=b"/nope", extra=b"Expect: 100-continue\r\n"), 404, "no /nope"),
    "strange transfer coding": (
        b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
        "only chunked",
    ),
}


@pytest.mark.parametrize(("request_bytes", "code", "says"), FATAL.values(), ids=FATAL)
async def test_a_request_whose_end_cannot_be_trusted_ends_the_connection(
    listener: hotpath.Listener, request_bytes: bytes, code: int, says: str
) -> None:
    client = Client(listener)
    client.send(request_bytes)
    client.send(get(b"/healthz"))
    answer = client.answer()
    assert answer.code == code
    assert says in error_of(answer)
    assert answer.headers[b"connection"] == b"close"
    assert client.transport.eof, "our side must be closed, and theirs read on, so that the answer arrives"
    assert not client.transport.closed


async def test_405_names_what_is_allowed(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(get(b"/v1/lookup"))
    assert client.answer().headers[b"allow"] == b"POST"


async def test_head_is_answered_as_get_without_the_body(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(get(b"/healthz", method=b"HEAD"))
    raw = bytes(client.transport.written)
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: 3\r\n" in raw
    assert raw.endswith(b"\r\n\r\n")


async def test_chunks_make_one_body_and_trailers_count_for_nothing(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(
        b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3;name=value\r\nabc\r\n4\r\ndefg\r\n0\r\nContent-Type: text/plain\r\n\r\n" + post(b"after")
    )
    assert [answer.body for answer in client.answers] == [b'{"json":7}', b'{"json":5}']


async def test_expect_100_is_granted_before_the_body_and_in_order(listener: hotpath.Listener) -> None:
    client = Client(listener)
    head, _, body = post(b"12345", extra=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    client.send(get(b"/healthz") + head + b"\r\n\r\n")
    assert bytes(client.transport.written).endswith(b"ok\nHTTP/1.1 100 Continue\r\n\r\n")
    client.send(body)
    assert bytes(client.transport.written).endswith(b'{"json":5}')


@pytest.mark.parametrize(
    "request_bytes",
    [get(b"/healthz", extra=b"Connection: close\r\n"), b"GET /healthz HTTP/1.0\r\n\r\n"],
    ids=["asked for", "HTTP/1.0"],
)
async def test_a_connection_that_is_to_end_ends_after_its_answer(
    listener: hotpath.Listener, request_bytes: bytes
) -> None:
    client = Client(listener)
    client.send(request_bytes + get(b"/readyz"))
    answer = client.answer()
    assert (answer.body, answer.headers[b"connection"]) == (b"ok\n", b"close")
    assert client.transport.closed


async def test_an_upgrade_is_answered_as_if_not_asked_for(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(get(b"/healthz", extra=b"Connection: Upgrade\r\nUpgrade: h2c\r\n") + b"\x00\x00\x00")
    assert client.answer().body == b"ok\n"
    assert client.transport.closed


async def test_the_absolute_form_of_a_target_is_understood(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(get(b"http://h:8080/healthz?x=1"))
    assert client.answer().code == 200


async def test_a_bug_in_a_handler_is_500_and_the_connection_goes_on(listener: hotpath.Listener) -> None:
    client = Client(listener)
    with structlog.testing.capture_logs() as logs:
        client.send(post(b"bug") + get(b"/healthz"))
    assert [answer.code for answer in client.answers] == [500, 200]
    assert error_of(client.answers[0]) == "internal error; the server's log has the details"
    assert [entry["event"] for entry in logs] == ["a handler failed"]


async def test_a_client_that_does_not_read_is_not_answered_further(listener: hotpath.Listener) -> None:
    client = Client(listener, room=30_000)
    client.send(get(b"/metrics") * 100)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(client.transport.written) < 50_000, "about one answer over what it takes"
    assert not client.transport.reading
    client.transport.take_all()
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(client.answers) == 100
    assert client.transport.reading


async def test_a_client_that_closed_its_side_gets_all_its_answers(listener: hotpath.Listener) -> None:
    client = Client(listener)
    client.send(post(b"x") * 20)
    assert client.connection.eof_received(), "kept open for what waits"
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(client.answers) == 20
    assert client.transport.closed


async def test_at_the_limit_the_longest_idle_connection_gives_way(listener: hotpath.Listener) -> None:
    clients = [Client(listener) for _ in range(3)]
    for at, client in enumerate(clients):
        client.connection.idle_since = [2.0, 1.0, 3.0][at]
    newcomer = Client(listener)
    assert [client.transport.closed for client in clients] == [False, True, False]
    newcomer.send(get(b"/healthz"))
    assert newcomer.answer().code == 200


async def test_with_all_connections_busy_a_newcomer_is_told_when_to_return(listener: hotpath.Listener) -> None:
    for _ in range(3):
        Client(listener).send(b"GET /hea")
    newcomer = Client(listener)
    answer = newcomer.answer()
    assert (answer.code, answer.headers[b"retry-after"]) == (503, b"1")
    flood = [Client(listener) for _ in range(5)]
    assert flood[-1].transport.aborted, "beyond twice the limit nobody is told anything"


def error_of(answer: client_side.Answer) -> str:
    """The one line of an error, which is all there is in the body."""
    said = msgspec.json.decode(answer.body, type=dict[str, str])
    assert list(said) == ["error"]
    assert "\n" not in said["error"]
    return said["error"]
