"""One HTTP connection, without sockets. Excluded: real transports (tests/integration/http) and random bytes (fuzz)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from subscribers.http import connection, hotpath
from tests.support import http_client as client_side
from tests.support.http_client import Client, post


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
