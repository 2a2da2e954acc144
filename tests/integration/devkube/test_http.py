"""The HTTP side on real sockets with TLS: sizes, compression, streams and how they end."""

import asyncio
import contextlib
import gzip
import io
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from devkube import certificates, http
from devkube.builtin.catalog import builtin_resources
from devkube.clock import Clock
from devkube.faults import Faults
from devkube.kinds import Catalog
from devkube.requests import ADMIN, Answer, Event, Listing, Request, Stream

NODE = b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","resourceVersion":"3"}}'


class Verbs:
    """Lists as many Nodes as `limit` says; a watch tells of one Node at once and of more when `more` is set."""

    def __init__(self) -> None:
        self.more = asyncio.Event()
        self.bodies: list[bytes] = []
        self.watching = 0
        self.cancelled = asyncio.Event()

    async def handle(self, request: Request) -> Answer | Stream:
        self.bodies.append(request.body)
        if request.verb == "list":
            listed = Listing(request.resource, {"resourceVersion": "9"}, [NODE] * int(request.query.get("limit", 1)))
            return Answer(200, listed, request.resource)
        if request.verb == "watch":
            return self.events()
        if request.name == "slow":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.name == "broken":
            raise ZeroDivisionError("secret")
        request.warnings.append("careful")
        return Answer(200, NODE, request.resource)

    async def events(self) -> AsyncGenerator[Sequence[Event], None]:
        self.watching += 1
        try:
            yield [Event("ADDED", NODE)]
            while True:
                await self.more.wait()
                self.more.clear()
                yield [Event("MODIFIED", NODE)] * 3
        finally:
            self.watching -= 1


class Api:
    def __init__(
        self, server: http.HttpServer, verbs: Verbs, session: aiohttp.ClientSession, port: int, trust: ssl.SSLContext
    ) -> None:
        self.server, self.verbs, self.session, self.port, self.trust = server, verbs, session, port, trust


def made(verbs: Any) -> http.HttpServer:
    return http.HttpServer(
        Catalog(builtin_resources()),
        verbs,
        Clock(),
        authenticate=lambda headers: ADMIN,
        authorize=lambda user, route: None,
        faults=Faults(),
    )


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    files = certificates.write(certificates.issue(), tmp_path)
    verbs = Verbs()
    server = made(verbs)
    port = await server.start("127.0.0.1", 0, http.tls(files))
    trust = ssl.create_default_context(cafile=str(files.authority))
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(
        f"https://127.0.0.1:{port}", connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(20)
    ) as session:
        yield Api(server, verbs, session, port, trust)
    await server.stop()


async def test_an_object_with_its_warnings(api: Api) -> None:
    async with api.session.get("/api/v1/nodes/n") as answer:
        assert answer.status == 200
        assert answer.headers["Warning"] == '299 - "careful"'
        assert answer.headers["Cache-Control"] == "no-cache, private"
        assert await answer.read() == NODE


@pytest.mark.parametrize("count", [0, 1, 10_000])
async def test_a_list_of_any_size(api: Api, count: int) -> None:
    async with api.session.get("/api/v1/nodes", params={"limit": count}, headers={"Accept-Encoding": ""}) as answer:
        assert "Content-Encoding" not in answer.headers
        assert len(msgspec.json.decode(await answer.read())["items"]) == count


@pytest.mark.parametrize("form", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
async def test_large_answers_are_compressed_when_asked(api: Api, form: str) -> None:
    headers = {"Accept-Encoding": "gzip", "Accept": form}
    async with api.session.get("/api/v1/nodes", params={"limit": 10_000}, headers=headers) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        packed = await answer.read()
    found = msgspec.json.decode(gzip.decompress(packed))
    assert len(found.get("items") or found["rows"]) == 10_000
    assert len(packed) < 200_000
    async with api.session.get("/api/v1/nodes", params={"limit": 10}, headers=headers) as answer:
        assert "Content-Encoding" not in answer.headers


async def test_a_head_is_an_answer_without_body_and_not_for_objects(api: Api) -> None:
    """As upstream: objects have no HEAD."""
    for path, code in (("/healthz", 200), ("/openapi/v2", 200), ("/api/v1/nodes/n", 405)):
        async with api.session.head(path, headers={"Accept-Encoding": "gzip"}) as answer:
            assert (answer.status, await answer.read()) == (code, b""), path


async def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not(api: Api) -> None:
    headers = {"Content-Type": "application/json"}
    async with api.session.post("/api/v1/nodes", data=io.BytesIO(b"x" * http.BODY_LIMIT), headers=headers) as answer:
        assert answer.status == 200
    assert len(api.verbs.bodies[-1]) == http.BODY_LIMIT
    async with api.session.post(
        "/api/v1/nodes", data=io.BytesIO(b"x" * (http.BODY_LIMIT + 1)), headers=headers
    ) as answer:
        status = msgspec.json.decode(await answer.read())
        assert (answer.status, status["reason"]) == (413, "RequestEntityTooLarge")
        assert "3145728" in status["message"]


async def test_a_body_whose_chunks_are_none_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port, ssl=api.trust)
    writer.write(b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asyncio.sleep(0.1)
    writer.write(b"no length\r\n")
    async with asyncio.timeout(5):
        answer = await reader.readuntil(b"400}")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"the body cannot be read to its end" in answer


async def test_a_bug_is_a_500_that_tells_nothing_of_it(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    async with api.session.get("/api/v1/nodes/broken") as answer:
        status = msgspec.json.decode(await answer.read())
    assert (answer.status, status["reason"]) == (500, "InternalError")
    assert "secret" not in status["message"]
    assert "secret" in caplog.text


async def test_a_query_with_a_key_twice_counts_the_first(api: Api) -> None:
    async with api.session.get("/api/v1/nodes?limit=2&limit=5") as answer:
        assert len(msgspec.json.decode(await answer.read())["items"]) == 2


async def test_a_watch_tells_at_once_and_ends_properly_when_the_server_stops(api: Api) -> None:
    async with api.session.get("/api/v1/nodes", params={"watch": "1"}) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert msgspec.json.decode(await answer.content.readline())["type"] == "ADDED"
        api.verbs.more.set()
        assert msgspec.json.decode(await answer.content.readline())["type"] == "MODIFIED"
        stopping = asyncio.create_task(api.server.stop())
        rest = await answer.content.read()  # a broken end of chunks would raise
        assert [msgspec.json.decode(line)["type"] for line in rest.splitlines()] == ["MODIFIED"] * 2
        await stopping
    assert api.verbs.watching == 0


async def test_a_watch_whose_client_goes_is_closed_though_nothing_happens(api: Api) -> None:
    async with api.session.get("/api/v1/nodes", params={"watch": "1"}) as answer:
        await answer.content.readline()
        assert api.verbs.watching == 1
        answer.close()
    async with asyncio.timeout(5):
        while api.verbs.watching:
            await asyncio.sleep(0.01)


async def test_a_client_that_goes_cancels_what_it_asked_for(api: Api) -> None:
    asked = asyncio.create_task(api.session.get("/api/v1/nodes/slow"))
    while not api.verbs.bodies:
        await asyncio.sleep(0.01)
    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asked
    async with asyncio.timeout(5):
        await api.verbs.cancelled.wait()


async def test_cut_connections_are_seen_as_such(api: Api) -> None:
    async with api.session.get("/api/v1/nodes", params={"watch": "1"}) as answer:
        await answer.content.readline()
        assert api.server.cut() >= 1
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_a_port_that_is_taken_is_told(api: Api, tmp_path: Path) -> None:
    files = certificates.write(certificates.issue(), tmp_path)
    other = made(api.verbs)
    with pytest.raises(OSError, match="choose another --port"):
        await other.start("127.0.0.1", api.port, http.tls(files))
