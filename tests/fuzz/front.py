"""Parsers of what comes from clients and from people: HTTP, questions, intake bodies, manifests, flags, moments."""

import asyncio
import pathlib
import tempfile
import weakref
from datetime import UTC, datetime

import msgspec

from eventstore import kvwire, subjects
from handlers import goduration
from handlers.prefixindex import index, keys, request
from subscribers.http import connection, intake, lookups, orders, probes, routes
from subscribers.kvevents import endpoints
from tests.fuzz import mutate
from tests.fuzz.target import Target, Try
from tests.support import http_client
from tests.support.http_client import get, post
from warmlog import flags, manifests, when
from warmlog import lookup as tool

# HTTP ----------------------------------------------------------------------------------------------------------------

REQUESTS = [
    post(b"12345"),
    post(b"malformed"),
    post(b"\x00\x01\x02\x03", kind=b"application/x-u32le", path=b"/v1/lookup?model_id=m&model_id=n"),
    get(b"/healthz") + get(b"/readyz"),
    get(b"http://h:1/metrics", method=b"HEAD"),
    get(b"/healthz", extra=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    get(b"/healthz", extra=b"Connection: close\r\n"),
    post(b"x" * 300, extra=b"Expect: 100-continue\r\n"),
    b"POST /v1/lookup HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
]
_HTTP = (
    *mutate.TEXT,
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"HTTP/1.1",
    b"HTTP/9.9",
    b"\r\n\r\n",
    b"Host: x\r\n",
)


def _connections() -> Try:
    loop = asyncio.new_event_loop()
    limits = connection.Limits(body=250, head=400)

    async def make() -> http_client.hotpath.Listener:
        return http_client.listener(limits=limits)

    listener = loop.run_until_complete(make())

    async def serve(raw: bytes) -> bool:
        client = http_client.Client(listener)
        client.send(raw, piece=1 + len(raw) // 2)
        for _ in range(3):
            await asyncio.sleep(0)
        said = bytes(client.transport.written)
        assert not said or said.startswith(b"HTTP/1.1 "), said[:80]
        if not client.transport.closed:
            client.connection.expire()
            await asyncio.sleep(0)
            client.transport.abort()
        await asyncio.sleep(0)
        return b"HTTP/1.1 200" in said

    def one(raw: bytes) -> bool:
        return loop.run_until_complete(serve(raw))

    weakref.finalize(one, loop.close)
    return one


# Questions -----------------------------------------------------------------------------------------------------------

TOKENS = keys.pack_tokens(list(range(64)))
HELD = keys.chain(TOKENS, 16)
QUESTIONS = [
    msgspec.json.encode({"tenant_id": "t", "model_id": "m", "hash_scheme": "vllm", **fields})
    for fields in (
        {"token_ids": list(range(64)), "explain": True},
        {"block_hashes": [keys.to_wire(key).hex() for key in HELD], "block_token_counts": [16] * 4},
        {"block_hashes": ["AAAAAAAAAAA=", "_-8"], "block_token_counts": ["16", 16], "slo": {"ttft_ms": "50"}},
        {"prefix_hash": "00000000000000aa", "prefix_token_count": 64, "adapter_id": "x"},
        {"prompt_text": "hello", "slo": None, "token_ids": None},
        {"tenantId": "t", "modelId": "m", "tokenIds": [1, 2], "blockHashes": []},
    )
]
QUERIES = [
    b"tenant_id=t&model_id=m&hash_scheme=vllm&explain=true&slo.ttft_ms=50",
    b"model_id=a%2Fb&tenant_id=%C3%A9&adapter_id=+x&ttft_ms=5&explain=0",
    b"",
]


def _asked_index() -> index.Index:
    known = index.Index()
    group = kvwire.Group("", 16, kvwire.pack_keys(HELD), b"\1\2\4\7")
    place = subjects.kv_subject("t", "m", "r")
    for number, message in enumerate(
        (
            kvwire.Begin(1, "u", "s", 0, 0, 0, "m", "vllm", "complete", "start"),
            kvwire.Chunk(1, "u", "s", 1, 0, [group]),
            kvwire.End(1, "u", "s", 2, 0, "complete", len(HELD), sum(HELD) & kvwire.MASK64),
            kvwire.Beat(
                1, "u", "s", 3, "complete", len(HELD), sum(HELD) & kvwire.MASK64, kvwire.Stats(1.0, 0, 0.5, 0.25)
            ),
        ),
        1,
    ):
        known.apply(number, number, place, kvwire.encode(message))
    return known


def _questions() -> Try:
    known = _asked_index()
    edge = lookups.LookupEdge(
        lookups.over(known, now_ns=lambda: 10),
        credit=known.credit,
        meter=_Quiet(),
        clock=lambda: 0,  # type: ignore[arg-type]
    )

    def one(body: bytes) -> bool:
        try:
            said = edge.json(body)
        except routes.Malformed:
            return False
        msgspec.json.decode(said)
        return True

    return one


class _Quiet:
    """meters.LookupMeter that counts nothing."""

    def malformed(self, transport: str) -> None: ...

    def answered(self, transport: str, reason: str, seconds: float) -> None: ...


def _packed() -> Try:
    known = _asked_index()
    edge = lookups.LookupEdge(
        lookups.over(known, now_ns=lambda: 10),
        credit=known.credit,
        meter=_Quiet(),
        clock=lambda: 0,  # type: ignore[arg-type]
    )

    def one(raw: bytes) -> bool:
        query, _, tokens = raw.partition(b"\n")
        understood = False
        for body in (tokens, TOKENS):
            try:
                edge.packed(body, query)
                understood = True
            except routes.Malformed:
                pass
        return understood

    return one


def _parameters() -> Try:
    def one(query: bytes) -> bool:
        try:
            found = lookups.parameters(query)
        except routes.Malformed:
            return False
        request.LookupRequest(model_id=found.get("model_id", ""))
        return True

    return one


# Port 8081 -----------------------------------------------------------------------------------------------------------

INTAKE = [
    kvwire.encode(kvwire.Begin(1, "u", "s", 0, 0, 0, "m", "vllm", "complete", "start")),
    kvwire.encode(kvwire.Ops(1, "u", "s", 1, [kvwire.Group("", 16, kvwire.pack_keys([7]), b"\1")])),
    kvwire.encode(kvwire.Beat(1, "u", "s", 2, "complete", 0, 0)),
]


def _intake() -> Try:
    async def publish(subject: str, payload: bytes, *, deadline: float = 0.0) -> int:
        return 1

    taker = intake.Intake(publish, orders.OrderBox())
    models = ("m", "", "org/model", "m" * 300)
    seen = 0

    def one(body: bytes) -> bool:
        nonlocal seen
        seen += 1
        name = body[:20].decode("utf-8", "replace") if seen % 4 == 0 else "r"
        try:
            taker.accept("t", name, models[seen // 4 % 4 if seen % 8 == 0 else 0], body).send(None)
        except StopIteration as done:
            return bool(done.value.code == 200)
        raise AssertionError("the intake waits for something")

    return one


PROBES = [
    b'{"backend":"ns/name","model":"m","hashScheme":"vllm"}',
    b'{"backend":"b","model":"m","hashScheme":"v","backendType":"x"}',
]


def _probes() -> Try:
    def one(body: bytes) -> bool:
        try:
            probes.read(body)
        except probes.Malformed:
            return False
        return True

    return one


# Manifests and policies ----------------------------------------------------------------------------------------------

_HEAD = b"apiVersion: inferencecache.io/v1alpha1\n"
MANIFESTS = [
    _HEAD
    + b"kind: CachePolicy\nmetadata: {name: p, namespace: t}\nspec: {evictionTTL: 1h30m, routingFloorScore: '0.25'}\n",
    _HEAD
    + b"kind: CachePolicy\nmetadata: {name: p}\nspec:\n  minimumMatchedTokens: 16\n  strategy: {requireChain: true}\n",
    _HEAD + b"kind: CacheTenant\nmetadata: {name: t}\nspec: {tenantID: t, quota: {maxIndexEntries: 9}}\n",
    b"---\n---\n# nothing\n",
    b'{"apiVersion": "inferencecache.io/v1alpha1", "kind": "CachePolicy", "metadata": {"name": "p"}, "spec": {}}',
]
_YAML = (
    *mutate.TEXT,
    *(
        b": ",
        b"- ",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!python/object:os.system ",
        b"!!binary ",
        b"!!timestamp ",
        b"2001-99-99",
        b"? ",
    ),
    *(
        b"[" * 60,
        b"{" * 60,
        b"- " * 60,
        b"|\n",
        b">-\n",
        b"'",
        b'"',
        b"%YAML 9.9\n---\n",
        b"...\n",
        b"0o777",
        b".inf",
        b"1:2:3",
    ),
)


def _manifests() -> Try:
    folder = tempfile.TemporaryDirectory()
    where = pathlib.Path(folder.name)
    path = where / "a.yaml"

    def one(raw: bytes) -> bool:
        path.write_bytes(raw)
        try:
            found = manifests.read(where)
        except manifests.ManifestError as refused:
            if "\n" in str(refused):
                raise AssertionError("the refusal is more than one line") from refused
            return False
        for each in found:
            assert each.uid
            assert each.version
        return bool(found)

    weakref.finalize(one, folder.cleanup)
    return one


# Flags and moments ---------------------------------------------------------------------------------------------------

MOMENTS = [
    b"1234",
    b"20261130T071727.1.0:55",
    b"-90s",
    b"-1h30m",
    b"03:12",
    b"3:12:01.25",
    b"2026-11-30T03:12:00Z",
    b"2026-11-30",
]


def _moments() -> Try:
    now = datetime(2026, 11, 30, 3, 12, tzinfo=UTC)

    def one(raw: bytes) -> bool:
        try:
            found = when.parse(raw.decode("utf-8", "surrogateescape"), now)
        except ValueError:
            return False
        assert isinstance(found, when.Sequence | when.Time)
        return True

    return one


FLAGS = [
    b"100ms",
    b"1h30m",
    b"0",
    b"true",
    b"512Mi",
    b"2G",
    b"127.0.0.1:8080",
    b":8080",
    b"[::1]:80",
    b"1,2,3",
    b"1..256",
    b"-5",
]
ENDPOINTS = [b"tcp://*:5557", b"tcp://[::]:5557", b"tcp://h:65535", b"ipc:///tmp/x"]


def _flags() -> Try:
    readers = (
        flags.duration,
        flags.boolean,
        flags.size,
        flags.address,
        flags.at_least(0),
        flags.at_least(-5),
        tool.token_ids,
    )

    def one(raw: bytes) -> bool:
        text = raw.decode("utf-8", "surrogateescape")
        understood = False
        for read in readers:
            if read is tool.token_ids and "@" in text:
                continue  # that names a file
            try:
                read(text)
                understood = True
            except ValueError:
                pass
        goduration.nanoseconds(text)
        try:
            endpoints.plan(text, text if len(raw) % 2 else None, 1 + len(raw) % 3)
            understood = True
        except endpoints.EndpointError:
            pass
        return understood

    return one


TARGETS = [
    Target("HTTP connections", REQUESTS, _HTTP, _connections),
    Target("questions in JSON", QUESTIONS, mutate.JSON, _questions),
    Target("questions, packed", [one + b"\n" + TOKENS[:32] for one in QUERIES], mutate.TEXT, _packed),
    Target("query parameters", QUERIES, mutate.TEXT, _parameters),
    Target("intake bodies", INTAKE, mutate.MSGPACK, _intake),
    Target("self-test requests", PROBES, mutate.JSON, _probes),
    Target("manifests in YAML", MANIFESTS, _YAML, _manifests),
    Target("moments", MOMENTS, mutate.TEXT, _moments),
    # A range of token ids may stand for a million of them.
    Target("flags and endpoints", FLAGS + ENDPOINTS, mutate.TEXT, _flags, most=64 << 20),
]
