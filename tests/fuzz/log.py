"""Parsers of what comes from NATS: frames, answers, events, `WARMLOG_KV`, subjects, orders."""

import asyncio
import itertools
import weakref
from typing import Any

import msgspec
from nats.errors import ProtocolError

from eventstore import envelope, events, kvwire, store, subjects
from eventstore.jetstream import frames, publisher, reader
from handlers.prefixindex import answers, index, lookup, policies, request, views
from subscribers.http import orders
from subscribers.kvevents import sink
from tests.fuzz import mutate
from tests.fuzz.target import Target, Try
from tests.support.wire import Wire

SECOND = 1_000_000_000


# WARMLOG_KV ----------------------------------------------------------------------------------------------------------


def _group(count: int, *, adapter: str = "", size: int = 16, tiers: bytes = b"\1") -> kvwire.Group:
    return kvwire.Group(adapter, size, kvwire.pack_keys(range(7, 7 + count)), tiers * count)


def _messages() -> list[bytes]:
    stats = kvwire.Stats(1.0, 1 << 30, 0.5, 0.25, 10, 20)
    made: list[kvwire.AnyMessage] = []
    for uid, session in (("u", "s"), ("u", "s2"), ("u2", "s3")):
        made += [
            kvwire.Begin(1, uid, session, 0, 0, 0, "m", "vllm", "complete", "start", {"window": "100ms"}),
            kvwire.Ops(1, uid, session, 1, [_group(1)]),
            kvwire.Ops(1, uid, session, 2, [_group(5, tiers=b"\3"), _group(2, adapter="lora", size=32)]),
            kvwire.Ops(1, uid, session, 3, [_group(3, tiers=b"\0")]),
            kvwire.Chunk(1, uid, session, 4, 0, [_group(8), _group(1, adapter="x")]),
            kvwire.End(1, uid, session, 5, 0, "complete", 9, sum(range(7, 15)) + 7),
            kvwire.End(1, uid, session, 6, 0, "partial", 0, 0),
            kvwire.Beat(1, uid, session, 7, "complete", 9, 91, stats),
            kvwire.Beat(1, uid, session, 8, "partial", 0, 0),
            kvwire.Bye(1, uid, session, 9, "gone"),
        ]
    return [kvwire.encode(message) for message in made]


def _index() -> Try:
    known = index.Index(cap=2_000)
    clock = itertools.count(1)
    places = [subjects.kv_subject("t", "m", name) for name in ("r", "r2", "a.b")]
    places += ["wlkv.1.t.r", "wlkv.99.t.r", "wlkv.1.%ZZ.r", "x"]
    asked = request.LookupRequest(tenant_id="t", model_id="m", hash_scheme="vllm", chain=[7, 8, 9], explain=True)

    def one(payload: bytes) -> bool:
        number = next(clock)
        now = number * SECOND // 100
        subject = places[number % 3 if number % 16 else number // 16 % len(places)]
        try:
            message = kvwire.decode(payload)
        except kvwire.WireError:
            message = None
        if message is not None and number % 4:
            # Half of what decodes continues its session, so that what it says is looked at.
            replica = next((one for one in known.fleet.values() if one.session == message.session), None)
            if replica is not None:
                payload = kvwire.encode(msgspec.structs.replace(message, n=min(replica.n + 1, 2**63)))
                subject = replica.subject
        known.apply(number, now, subject, payload)
        if number % 64 == 0:
            known.tick(now)
            answers.encode(lookup.decide(known, known.policies, asked, now).response)
        if number % 2048 == 0:
            msgspec.json.encode(views.snapshot(known))
            msgspec.json.encode(views.summary(known, shard="0", incarnation="i"))
            sum(map(len, known.dump()))
        return message is not None

    return one


# The control log -----------------------------------------------------------------------------------------------------


def _events() -> list[bytes]:
    documents: list[dict[str, Any]] = [
        {
            "kind": "CachePolicy",
            "metadata": {"name": "p", "namespace": "t"},
            "spec": {
                "eviction": "LFU",
                "evictionTTL": "1h30m",
                "routingFloorScore": "0.25",
                "minimumMatchedTokens": 16,
                "strategy": {"requireChain": True},
                "affinityRouting": "Disabled",
            },
        },
        {"metadata": {"name": "t", "namespace": "t"}, "spec": {"tenantID": "t", "quota": {"maxIndexEntries": 5}}},
    ]
    said: list[tuple[str, events.Event]] = [
        ("wl.settings.server", events.SettingsSeen(role="server", instance="i", version="1", settings={"a": "b"})),
        *(
            (_object(plural), events.ObjectSeen(uid="u", resource_version="1", shape=1, object=document))
            for plural, document in zip(policies.KINDS, documents, strict=True)
        ),
        (_object(policies.KINDS[0]), events.ObjectGone(uid="u", resource_version="1")),
        (subjects.kind_subject(policies.KINDS[0]), events.KindListed(list_version="1", shape=1, count=1)),
        (
            "wl.replica.t.r",
            events.ReplicaObserved(
                tenant="t",
                replica="r",
                model="m",
                scheme="vllm",
                uid="u",
                session="s",
                edge="statistics",
                kv_sequence=5,
                kv_incarnation="i",
                statistics={"hit_rate": 0.5},
            ),
        ),
        (
            "wl.index.0",
            events.IndexSummarised(
                shard="0",
                kv_sequence=1,
                kv_incarnation="i",
                blocks=1,
                replicas=[events.ReplicaSummary("t", "r", "m", "complete", 1, "2026-11-30T00:00:00Z", 0.5, 3)],
            ),
        ),
        ("wl.moment", events.Moment(kv_sequence=1, kv_incarnation="i")),
    ]
    return [
        msgspec.json.encode(events.event(data, id="x", source="/s", subject=subject, time_ns=1, actor="a", cause="c"))
        for subject, data in said
    ]


def _object(plural: str) -> str:
    return subjects.object_subject(plural, "t", "p")


def _log() -> Try:
    found = msgspec.json.Decoder(envelope.Envelope)
    places = [found.decode(body).subject for body in _events()]
    governed = policies.UNKNOWN
    clock = itertools.count(1)

    def one(body: bytes) -> bool:
        nonlocal governed
        number = next(clock)
        subject = next((place for place in places if place.encode() in body), places[number % len(places)])
        decoded = events.decode(store.Stored(number, number, subject, body))
        if isinstance(decoded, events.Undecodable):
            return False
        governed = policies.fold(governed, subject, decoded.data)
        governed.of("t")
        if number % 256 == 0:
            governed = policies.UNKNOWN
        return True

    return one


# NATS ----------------------------------------------------------------------------------------------------------------

FRAMES = [
    b'INFO {"server_id":"x","version":"2.12.0"}\r\n',
    b"PING\r\nPONG\r\n+OK\r\n",
    b"-ERR 'Permissions Violation for Publish to \"wl.x\"'\r\n",
    b"MSG wl.a 1 5\r\nhello\r\n",
    b"MSG wl.a 1 $JS.ACK.S.C.1.7.7.1700000000000000000.0 3\r\nabc\r\nMSG b 9 0\r\n\r\n",
    b"HMSG wl.a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b"HMSG wl.a 1 r.x 25 30\r\nNATS/1.0\r\nA: bcdefgh\r\n\r\nhello\r\n",
]


class _Behind:
    def __init__(self) -> None:
        self.taken = bytearray()

    def reset(self) -> None: ...

    async def parse(self, data: bytes = b"") -> None:
        self.taken += data


def _frames() -> Try:
    def parsed(raw: bytes, cut: int) -> tuple[list[frames.Frame], bytes, bool]:
        behind = _Behind()
        taken: list[frames.Frame] = []
        splitter = frames.Splitter(behind, on_error=lambda line: None)
        splitter.taps[b"1"] = taken.extend
        for piece in (raw[:cut], raw[cut:]):
            try:
                splitter.parse(piece).send(None)
            except StopIteration:
                pass
            except ProtocolError:
                return taken, bytes(behind.taken), False
        return taken, bytes(behind.taken), True

    def one(raw: bytes) -> bool:
        whole = parsed(raw, len(raw))
        pieces = parsed(raw, len(raw) // 2)
        assert pieces == whole or not whole[2], "how the bytes were cut changed what they say"
        return whole[2]

    return one


ACKS = [
    b'{"stream":"WARMLOG","seq":7}',
    b'{"stream":"WARMLOG","seq":7,"duplicate":true}',
    b'{"stream":"WARMLOG","seq":0,"domain":"d"}',
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"}}',
    b"",
]


def _acks() -> Try:
    loop = asyncio.new_event_loop()
    wire = Wire()

    async def prepare() -> publisher.Publisher:
        made = publisher.Publisher(wire)  # type: ignore[arg-type]
        await made.start()
        return made

    made = loop.run_until_complete(prepare())

    async def answered(body: bytes) -> bool:
        waiting = made.send("wl.x", b"", headers=b"", deadline=loop.time() + 60, resend=False)
        token = max(made._pending, key=lambda one: int(one, 16))
        made._answers([(b"_INBOX.x." + token, b"", b"", body)])
        if not waiting.done():
            made._forget(token)
            return False
        error = waiting.result().error
        if error is not None:
            str(publisher.as_api_error(error))
        return True

    def one(body: bytes) -> bool:
        wire.frames.clear()
        return loop.run_until_complete(answered(body))

    weakref.finalize(one, loop.close)
    return one


POSITIONS = [
    b"$JS.ACK.S.C.1.7.7.1700000000000000000.0",
    b"$JS.ACK.d.hash.S.C.1.7.7.1700000000000000000.0",
    b"$JS.ACK.d.hash.S.C.1.7.7.1700000000000000000.0.random",
    b"$JS.ACK.S.C.1.8.8.1700000000000000000.0",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 6\r\nNats-Last-Stream: 6\r\n\r\n",
    b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 1\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
]


def _positions() -> Try:
    wire = Wire()
    wire.life = 1  # type: ignore[attr-defined]

    def one(raw: bytes) -> bool:
        consumer = reader._Consumer(wire, "S", reader.Settings(), store.Stored)  # type: ignore[arg-type]
        consumer.sequence = consumer._delivered = 6
        first: frames.Frame = (b"wl.x", POSITIONS[0], b"", b"")
        taken: list[frames.Frame]
        if raw.startswith(b"NATS"):
            taken = [(b"_INBOX.x.1", b"", raw, b"")]
        else:
            taken = [first, (b"wl.x", raw, b"", b"")] if len(raw) % 2 else [(raw[:9], raw, b"", b"")]
        try:
            consumer._sort_out(taken)
        except reader._Lost:
            return False
        return True

    return one


# Subjects and orders -------------------------------------------------------------------------------------------------

SUBJECTS = [subjects.kv_subject("team.a", "m", "engine-0@1").encode(), b"wlkv.63._.%5F", b"wlkv.0.t.r", b"%C3%A9", b"_"]


def _subjects() -> Try:
    def one(raw: bytes) -> bool:
        text = raw.decode("utf-8", "surrogateescape")
        understood = False
        try:
            assert subjects.escape(subjects.unescape(text)) == text
            understood = True
        except subjects.SubjectError:
            pass
        try:
            place = subjects.parse_kv_subject(text)
            assert 0 <= place.partition < subjects.PARTITIONS
            understood = True
        except subjects.SubjectError:
            pass
        return understood

    return one


CONTROLS = [
    msgspec.json.encode(kvwire.Control("keyframe", "s", "gap")),
    msgspec.json.encode(kvwire.Control("fenced", "s2")),
    b'{"sequence":7,"orders":[{"order":"fenced","session":"s","reason":"r"}]}',
    b'{"error":"the log is full"}',
]


def _orders() -> Try:
    box = orders.OrderBox()

    def one(payload: bytes) -> bool:
        box.hear(payload)
        for session in ("s", "s2"):
            box.take(session)
        for code in (413, 404, 503, 400):
            str(sink.refusal(code, payload))
        try:
            sink._answer_decoder.decode(payload)
        except msgspec.MsgspecError:
            return False
        return True

    return one


TARGETS = [
    Target("WARMLOG_KV messages into the index", _messages(), mutate.MSGPACK, _index, renew=50_000),
    Target("events of the control log, policies", _events(), mutate.JSON, _log),
    Target("frames of the NATS protocol", FRAMES, mutate.TEXT, _frames),
    Target("JetStream's acknowledgements", ACKS, mutate.JSON, _acks),
    Target("positions and statuses of a consumer", POSITIONS, mutate.TEXT, _positions),
    Target("subjects", SUBJECTS, mutate.TEXT, _subjects),
    Target("orders and the intake's answers", CONTROLS, mutate.JSON, _orders),
]
