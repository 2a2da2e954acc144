"""Webhooks behind real TLS on loopback: what is trusted, what is sent, how a call fails and how it says so."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from devkube import certificates
from devkube.admission.call import Caller, CallFailed
from tests.integration.devkube.webhookserver import Server


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path, echo, ("hook.acme.svc",)).running() as found:
        yield found


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    found = Caller()
    yield found
    await found.close()


async def failure(caller: Caller, client: dict, seconds: int = 5) -> str:
    with pytest.raises(CallFailed) as caught:
        await caller.post(client, b"{}", seconds)
    return str(caught.value)


async def test_a_url_is_called(server: Server, caller: Caller) -> None:
    assert await caller.post(server.client(), b'{"a":1}', 7) == b'{"a":1}'
    (seen,) = server.seen
    assert (seen.path, seen.query_string, seen.content_type) == ("/mutate", "timeout=7s", "application/json")


async def test_connections_are_kept(server: Server, caller: Caller) -> None:
    for _ in range(3):
        await caller.post(server.client(), b"{}", 5)
    assert len(server.connections) == 1


async def test_a_service_is_called_where_it_is_mapped_and_must_prove_its_name(server: Server) -> None:
    caller = Caller({"acme/hook": f"127.0.0.1:{server.port}", "acme/other": f"127.0.0.1:{server.port}"})
    try:
        service = {"namespace": "acme", "name": "hook", "path": "/mutate", "port": 443}
        await caller.post({"service": service, "caBundle": server.bundle}, b"{}", 5)
        assert server.seen[0].headers["Host"] == "hook.acme.svc:443"
        other = {"service": {**service, "name": "other"}, "caBundle": server.bundle}
        told = await failure(caller, other)
        assert told.startswith(
            'failed to call webhook: Post "https://other.acme.svc:443/mutate?timeout=5s": tls: failed to verify '
            "certificate: "
        )
        assert "other.acme.svc" in told
    finally:
        await caller.close()


async def test_only_the_bundle_is_trusted(server: Server, caller: Caller) -> None:
    other = base64.b64encode(certificates.issue().authority).decode()
    told = await failure(caller, server.client(caBundle=other))
    assert "tls: failed to verify certificate: " in told
    told = await failure(caller, server.client(caBundle=""))
    assert "tls: failed to verify certificate: " in told
    assert server.seen == []


async def test_the_server_itself_may_be_in_the_bundle(server: Server, caller: Caller, tmp_path: Path) -> None:
    """As self-signed certificates of webhooks usually are."""
    leaf = base64.b64encode((tmp_path / "server.crt").read_bytes()).decode()
    assert await caller.post(server.client(caBundle=leaf), b"{}", 5) == b"{}"


async def test_nobody_is_there(server: Server, caller: Caller, unused_tcp_port: int) -> None:
    told = await failure(caller, server.client(url=f"https://127.0.0.1:{unused_tcp_port}/mutate"))
    assert told == (
        f'failed to call webhook: Post "https://127.0.0.1:{unused_tcp_port}/mutate?timeout=5s": '
        f"dial tcp 127.0.0.1:{unused_tcp_port}: connect: connection refused"
    )


async def test_a_host_nobody_knows(server: Server, caller: Caller) -> None:
    told = await failure(caller, server.client(url="https://webhook.invalid/mutate"))
    assert "dial tcp webhook.invalid:443: connect: " in told


async def test_plain_http_behind_https(caller: Caller, server: Server) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        told = await failure(caller, server.client(url=f"https://127.0.0.1:{port}/x"))
    assert told.startswith(f'failed to call webhook: Post "https://127.0.0.1:{port}/x?timeout=5s": ')


async def test_one_that_hangs_up(tmp_path: Path, caller: Caller) -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with Server(tmp_path, hang_up).running() as server:
        told = await failure(caller, server.client())
        assert (
            told
            == f'failed to call webhook: Post "https://127.0.0.1:{server.port}/mutate?timeout=5s": Server disconnected'
        )


async def test_a_slow_one_is_given_up(tmp_path: Path, caller: Caller) -> None:
    release = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with Server(tmp_path, slow).running() as server:
        told = await failure(caller, server.client(), seconds=1)
        release.set()
    assert told.endswith('/mutate?timeout=1s": context deadline exceeded')


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, "", "the server responded with the status code 404"),
        (500, "boom", 'the server responded with the status code 500 ("boom")'),
        (403, "go away", 'the server responded with the status code 403 ("go away")'),
        (418, "", "the server responded with the status code 418"),
    ],
)
async def test_what_it_answers_otherwise(tmp_path: Path, caller: Caller, status: int, body: str, told: str) -> None:
    async def other(request: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    async with Server(tmp_path, other).running() as server:
        assert await failure(caller, server.client()) == f"failed to call webhook: {told}"


async def test_an_endless_answer(tmp_path: Path, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devkube.admission.call._LONGEST", 1000)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 500)
        except (ConnectionError, asyncio.CancelledError):
            return response

    async with Server(tmp_path, endless).running() as server:
        told = await failure(caller, server.client())
    assert told == "failed to call webhook: its answer is longer than 1000 bytes"


async def test_a_webhook_that_was_restarted_is_found_again(server: Server, caller: Caller, tmp_path: Path) -> None:
    other = Server(tmp_path / "b", echo)
    async with other.running():
        await caller.post(other.client(), b"{}", 5)
    # The same port, a new process of it: the kept connection is dead.
    async with other.running():
        assert await caller.post(other.client(), json.dumps({"again": 1}).encode(), 5) == b'{"again": 1}'
