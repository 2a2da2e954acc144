"""Any bytes in any pieces: the server answers or closes, and stays able to serve the next client."""

import asyncio
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subscribers.http import connection
from tests.support import http_client as client_side
from tests.support.http_client import Client, get, post

CHUNKED = (
    b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n0\r\n\r\n"
)
GOOD = [
    post(b"12345"),
    post(b"malformed"),
    post(b"\x00\x01\x02\x03", kind=b"application/x-u32le", path=b"/v1/lookup?model_id=m&model_id=n"),
    get(b"/healthz"),
    get(b"/metrics", method=b"HEAD"),
    get(b"*", method=b"OPTIONS"),
    get(b"h:1", method=b"CONNECT"),
    get(b"/healthz", extra=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    get(b"/healthz", extra=b"Connection: close\r\n"),
    post(b"x" * 300, extra=b"Expect: 100-continue\r\n"),
    CHUNKED,
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A few good requests in a row with some bytes overwritten, dropped or doubled."""
    raw = bytearray(b"".join(draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=5))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw) - 1))
        what = draw(st.sampled_from(["set", "drop", "double", "noise"]))
        if what == "set":
            raw[at] = draw(st.integers(0, 255))
        elif what == "drop":
            del raw[at]
        elif what == "double":
            raw[at:at] = raw[at : at + draw(st.integers(1, 40))]
        else:
            raw[at:at] = draw(st.binary(max_size=20))
        if not raw:
            return b""
    return bytes(raw)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(raw=st.one_of(st.binary(max_size=500), mutated()), cuts=st.lists(st.integers(1, 200), max_size=6))
def test_any_bytes_are_answered_or_the_connection_waits_or_ends(raw: bytes, cuts: list[int]) -> None:
    asyncio.run(any_bytes(raw, cuts))


async def any_bytes(raw: bytes, cuts: list[int]) -> None:
    listener = client_side.listener(limits=connection.Limits(body=250, head=400))
    client, at = Client(listener), 0
    for size in [*cuts, len(raw)]:
        if raw[at : at + size]:
            client.send(raw[at : at + size])
        at += size
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    stage = client.connection.stage
    assert client.transport.closed or client.transport.eof or stage is not connection.Stage.LAST
    assert not client.connection._queue, "nothing waits for ever"
    assert not bytes(client.transport.written) or bytes(client.transport.written).startswith(b"HTTP/1.1 ")
    if stage is not connection.Stage.IDLE and not client.transport.closed:
        client.connection.expire()
        assert client.transport.written or client.transport.closed
    other = Client(listener)
    other.send(get(b"/healthz"))
    assert other.answer().body == b"ok\n"
    listener.detach()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(raw=mutated(), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_how_the_bytes_were_cut_makes_no_difference_to_what_is_answered(raw: bytes, cuts: list[int]) -> None:
    assert asyncio.run(transcript(raw, [len(raw)])) == asyncio.run(transcript(raw, cuts))


async def transcript(raw: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    """Everything that was answered to bytes delivered in pieces, without dates; and whether the connection ended."""
    listener = client_side.listener()
    client, at = Client(listener), 0
    for size in [*cuts, len(raw)]:
        if raw[at : at + size]:
            client.send(raw[at : at + size])
        at += size
    for _ in range(5):
        await asyncio.sleep(0)
    listener.detach()
    ended = client.transport.closed or client.transport.eof
    return re.sub(rb"date: [^\r]+\r\n", b"", bytes(client.transport.written)), ended
