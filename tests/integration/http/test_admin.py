"""Port 8081 and the sinks of subscribers, over real loopback sockets."""

import asyncio
import io
import pathlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence

import aiohttp
import msgspec
import pytest
import structlog

from eventstore import kvwire, memory, store, subjects
from subscribers import metrics
from subscribers.http import admin, hotpath, identity, intake, meters, orders, probes
from subscribers.kvevents import sink


class Index:
    """The smallest index that passes the self-test."""

    def __init__(self) -> None:
        self.entries: list[probes.Entry] = []

    def put(self, entry: probes.Entry) -> None:
        self.entries.append(entry)

    def holders(self, entry: probes.Entry) -> Sequence[str]:
        return [one.replica for one in self.entries]

    def route(self, entry: probes.Entry) -> probes.Route:
        return probes.Route("PREFIX_MATCH", self.holders(entry))

    def remove(self, entry: probes.Entry) -> None:
        self.entries.remove(entry)


class World:
    """A server's admin port with the log and the bus behind it."""

    def __init__(self) -> None:
        self.kv, self.bus, self.box = memory.MemoryKV(), memory.MemoryBus(), orders.OrderBox()
        self.seen: list[tuple[Mapping[str, str], identity.Purpose]] = []
        self.refusal: identity.Refusal | None = None
        self.url = ""
        self.registry = metrics.Registry()

    async def authenticate(
        self, headers: Mapping[str, str], purpose: identity.Purpose
    ) -> identity.Identity | identity.Refusal:
        self.seen.append((headers, purpose))
        return self.refusal or await identity.anonymous(headers, purpose)

    def snapshot(self) -> bytes:
        if self.refusal is None and self.url == "broken":
            raise ZeroDivisionError
        return b'{"replicas":[]}'


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.bus.hear(orders.ALL_ORDERS, made.box.hear)
    server = admin.AdminServer(
        admin.create_app(
            snapshot=made.snapshot,
            probe_index=Index(),
            kv_intake=intake.Intake(made.kv.publish, made.box),
            authenticate=made.authenticate,
            meter=meters.AdminMeter(made.registry),
        ),
        grace=0.2,
        connections=20,
        first_request_seconds=1.0,
    )
    made.url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    yield made
    await server.stop()


@pytest.fixture
async def http(world: World) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(world.url) as session:
        yield session


async def test_the_snapshot_is_its_owners_json(http: aiohttp.ClientSession) -> None:
    async with http.get("/snapshot") as answer:
        assert (answer.status, await answer.json()) == (200, {"replicas": []})


async def test_a_probe_runs_against_the_index(http: aiohttp.ClientSession) -> None:
    async with http.post("/probe", json={"backend": "a/b", "model": "m", "hashScheme": "vllm"}) as answer:
        assert await answer.json() == {"backend": "a/b", "ingest": "ok", "routing": "ok", "t2": "skipped"}


PROBE = b'{"backend":"a/b","model":"m","hashScheme":"vllm"}'
BEGIN = kvwire.encode(kvwire.Begin(kvwire.VERSION, "uid", "s1", 0, 0, 0, "m", "vllm", "complete", "start"))
KV = "/v1/intake/kv/t/r"

REFUSED = {
    "snapshot by POST": ("POST", "/snapshot", b"", 405, "use GET"),
    "snapshot by HEAD": ("HEAD", "/snapshot", b"", 405, ""),
    "probe by GET": ("GET", "/probe", b"", 405, "use POST"),
    "probe with unknown field": ("POST", "/probe", PROBE[:-1] + b',"x":1}', 400, "unknown field"),
    "probe too large": ("POST", "/probe", PROBE + b" " * 4096, 413, "larger than 4096"),
    "no such path": ("GET", "/nope", b"", 404, "see /snapshot"),
    "intake without model": ("POST", KV, BEGIN, 400, "?model="),
    "intake with two models": ("POST", KV + "?model=m&model=n", BEGIN, 400, "?model="),
    "intake of another model": ("POST", KV + "?model=n", BEGIN, 400, "begin says model 'm'"),
    "intake of noise": ("POST", KV + "?model=m", b"\x00", 400, "not a WARMLOG_KV message"),
    "intake of too much": ("POST", KV + "?model=m", b"\x00" * (1024 * 1024 + 1), 413, "larger than 1048576"),
}


@pytest.mark.parametrize(("method", "path", "body", "code", "says"), REFUSED.values(), ids=REFUSED)
async def test_a_bad_request_gets_its_status_and_one_line(
    http: aiohttp.ClientSession, method: str, path: str, body: bytes, code: int, says: str
) -> None:
    async with http.request(method, path, data=io.BytesIO(body)) as answer:
        assert answer.status == code
        if says:
            assert says in (await answer.json())["error"]


async def test_a_chunked_body_is_bounded_too(http: aiohttp.ClientSession, world: World) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"\x00" * 65536

    async with http.post(KV, params={"model": "m"}, data=endless()) as answer:
        assert answer.status == 413
    assert (await world.kv.extent()).last == 0


async def test_a_bug_is_500_without_a_traceback(http: aiohttp.ClientSession, world: World) -> None:
    world.url = "broken"
    with structlog.testing.capture_logs() as logs:
        async with http.get("/snapshot") as answer:
            assert (answer.status, await answer.json()) == (
                500,
                {"error": "internal error; the server's log has the details"},
            )
    assert logs[0]["event"] == "an admin handler failed"


CHALLENGES: list[tuple[identity.Code, list[str]]] = [(401, ["Bearer"]), (403, []), (503, [])]


async def test_a_401_says_which_scheme_would_do(http: aiohttp.ClientSession, world: World) -> None:
    for code, challenge in CHALLENGES:
        world.refusal = identity.Refusal(code, "because")
        async with http.get("/snapshot") as answer:
            assert (answer.status, answer.headers.getall("www-authenticate", [])) == (code, challenge)


@pytest.mark.parametrize("path", ["/snapshot", "/probe", KV + "?model=m"])
async def test_every_endpoint_asks_who_is_there_first(http: aiohttp.ClientSession, world: World, path: str) -> None:
    world.refusal = identity.Refusal(403, "you are somebody else")
    method = "GET" if path == "/snapshot" else "POST"
    async with http.request(method, path, data=BEGIN, headers={"authorization": "Bearer x"}) as answer:
        assert (answer.status, await answer.json()) == (403, {"error": "you are somebody else"})
    ((headers, purpose),) = world.seen
    assert headers["Authorization"] == "Bearer x"
    assert purpose == {"/snapshot": "snapshot", "/probe": "probe"}.get(path, "intake")
    assert (await world.kv.extent()).last == 0


async def test_answers_are_counted_by_route_and_never_by_what_a_client_wrote(
    http: aiohttp.ClientSession, world: World
) -> None:
    for path in ("/snapshot", "/v1/intake/kv/secret/r", "/secret"):
        async with http.get(path) as answer:
            await answer.read()
    text = world.registry.render().decode()
    assert 'warmlog_admin_answers_total{route="/snapshot",code="200"} 1' in text
    assert 'warmlog_admin_answers_total{route="other",code="404"} 1' in text
    assert "secret" not in text


async def test_clients_that_only_connect_are_bounded_and_ended(world: World) -> None:
    port = int(world.url.rpartition(":")[2])
    clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(21)]
    turned_away = await clients[-1][0].read(-1)
    assert turned_away.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in turned_away
    clients[0][1].write(b"GET /snapshot HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await clients[0][0].readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    clients[1][1].write(b"GET /snapsh")
    assert await asyncio.wait_for(clients[1][0].read(-1), 4) == b""
    assert await clients[2][0].read(-1) == b""
    assert not clients[0][0].at_eof(), "a client that asked something is aiohttp's"
    for _, writer in clients:
        writer.close()
        await writer.wait_closed()


async def test_a_port_in_use_is_one_line_that_names_it(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = admin.AdminServer(aiohttp.web.Application())
        with pytest.raises(hotpath.ListenError, match=f"127.0.0.1:{taken.getsockname()[1]}"):
            await server.start("127.0.0.1", taken.getsockname()[1])


# Sinks: one suite for both ways --------------------------------------------------------------------------------------

WHO = {"tenant": "team.a/b c%", "model": "org/model:v1 ü", "replica": "engine-0@1"}


@pytest.fixture(params=["nats", "intake"])
async def way(request: pytest.FixtureRequest, world: World) -> AsyncIterator[sink.Sink]:
    made: sink.Sink
    if request.param == "nats":
        made = sink.NatsSink(world.kv, world.bus, **WHO)
    else:
        made = sink.IntakeSink(world.url, **WHO)
    yield made
    await made.close()


def begin() -> bytes:
    return kvwire.encode(kvwire.Begin(kvwire.VERSION, "uid", "s1", 0, 0, 0, WHO["model"], "vllm", "complete", "start"))


async def test_a_message_arrives_unchanged_whichever_way_it_goes(way: sink.Sink, world: World) -> None:
    assert [await way.send(begin()), await way.send(begin())] == [1, 2]
    ((first, _),) = [batch async for batch in world.kv.read()]
    assert first.payload == begin()
    assert subjects.parse_kv_subject(first.subject) == (
        subjects.partition_of(WHO["tenant"], WHO["model"]),
        WHO["tenant"],
        WHO["replica"],
    )


async def test_an_order_reaches_the_subscriber_with_its_next_message_at_the_latest(
    way: sink.Sink, world: World
) -> None:
    heard: list[kvwire.Control] = []
    await way.listen(heard.append)
    order = kvwire.Control("keyframe", "s1", "gap")
    subject = subjects.kv_control_subject(WHO["tenant"], WHO["replica"])
    await world.bus.send(subject, b"not an order")
    await world.bus.send(subject, msgspec.json.encode(order))
    await way.send(begin())
    assert heard == [order]


async def test_a_log_that_is_away_is_unavailable_whichever_way(way: sink.Sink, world: World) -> None:
    world.kv.faults.outage = True
    with pytest.raises(store.Unavailable):
        await way.send(begin())
    world.kv.faults.outage = False
    assert await way.send(begin()) >= 1


# The intake's client alone -------------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = sink.IntakeSink(f"http://127.0.0.1:{port}", **WHO)
    with pytest.raises(store.Unavailable, match="does not answer"):
        await gone.send(begin())
    await gone.close()


async def test_a_server_that_never_answers_is_unavailable_in_time() -> None:
    ended = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()
        await writer.wait_closed()
        ended.set()

    async with await asyncio.start_server(silence, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        slow = sink.IntakeSink(f"http://127.0.0.1:{port}", timeout=0.2, **WHO)
        with pytest.raises(store.Unavailable, match="does not answer"):
            await slow.send(begin())
        await slow.close()
        await ended.wait()


async def test_the_token_is_sent_and_read_again_when_its_file_changed(world: World, tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    with structlog.testing.capture_logs() as logs:
        through = sink.IntakeSink(world.url, token_file=str(token), **WHO)
    assert "prefer https" in logs[0]["event"]
    with pytest.raises(store.Unavailable, match="cannot be read"):
        await through.send(begin())
    token.write_text("first\n")
    await through.send(begin())
    new = tmp_path / "new"
    new.write_text("other\n")
    new.replace(token)
    await through.send(begin())
    assert [headers["Authorization"] for headers, _ in world.seen] == ["Bearer first", "Bearer other"]
    token.write_text("two words\nand a line\n")
    with pytest.raises(store.Unavailable, match="holds no token"):
        await through.send(begin())
    await through.close()


CODES = {
    301: store.Misconfigured,
    400: store.Refused,
    401: store.Unavailable,
    403: store.Misconfigured,
    404: store.Misconfigured,
    413: store.TooLarge,
    422: store.Refused,
    429: store.Unavailable,
    500: store.Unavailable,
    503: store.Unavailable,
}


@pytest.mark.parametrize(("code", "error"), CODES.items())
@pytest.mark.parametrize("body", [b'{"error":"because"}', b"because", b"\xff\xfe because"])
def test_what_an_answer_means_for_the_sender(code: int, error: type[store.StoreError], body: bytes) -> None:
    found = sink.refusal(code, body)
    assert type(found) is error
    assert f"answered {code}" in str(found)
    assert "because" in str(found)


@pytest.mark.parametrize("url", ["nats://h:4222", "http://", "h:80", "http://user:pass@h"])
def test_a_url_that_is_no_intake_is_refused_at_start(url: str) -> None:
    with pytest.raises(store.Misconfigured, match="no intake URL"):
        sink.IntakeSink(url, **WHO)


def test_a_ca_file_that_is_none_is_refused_at_start(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(store.Misconfigured, match="CA file"):
        sink.IntakeSink("https://h", ca_file=str(tmp_path / "ca.pem"), **WHO)


@pytest.mark.parametrize(
    "sent", ["t0ken-c4n4ry\0", "t0ken-c4n4ry" * 1000, "x\r\n t0ken-c4n4ry"], ids=["nul", "huge", "folded"]
)
async def test_a_token_in_a_request_that_cannot_be_read_is_in_no_log(
    world: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], sent: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(world.url.rpartition(":")[2]))
    writer.write(f"GET /snapshot HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {sent}\r\n\r\n".encode())
    assert b" 400 " in await asyncio.wait_for(reader.readline(), 5)
    writer.close()
    said = capfd.readouterr()
    assert "c4n4ry" not in caplog.text + said.out + said.err
