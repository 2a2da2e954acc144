"""Replay of a million events into a fold, against counting the same bytes off the wire: `python -m tests.bench.replay`.

Half of the events are objects as observed, half edges of replicas, 400 to 800 bytes each. The fold decodes each one and
keeps the newest per subject. WARMLOG_BENCH_EVENTS sets another number.
"""

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from eventstore import envelope, events, replay, store, streams, subjects
from eventstore.jetstream import connect, provision
from eventstore.jetstream.store import JetStreamStore
from tests.bench import rawnats
from tests.bench.row import Row
from tests.support import natsserver

COUNT = int(os.environ.get("WARMLOG_BENCH_EVENTS", "1000000"))
ROUNDS = 3
BAR = 0.25
_INCARNATION = "20261130T071727.123456789.0"


def seen(number: int) -> envelope.Envelope:
    name = f"policy-{number % 5000}"
    labels = {f"example.com/label-{at}": f"value-{number % (at + 7)}" for at in range(number % 8)}
    data = events.ObjectSeen(
        uid=f"5d0c3c52-7c0b-4a3e-9d0e-{number % 5000:012d}",
        resource_version=str(number),
        shape=1,
        object={
            "name": name,
            "namespace": f"team-{number % 50}",
            "generation": number % 100,
            "labels": labels,
            "spec": {"ttlSeconds": 300, "models": ["llama-3-70b"], "maxBlocks": number},
        },
    )
    subject = subjects.object_subject("cachepolicies.inferencecache.io", f"team-{number % 50}", name)
    return _event(data, f"object.seen:{number}", subject, number)


def observed(number: int) -> envelope.Envelope:
    data = events.ReplicaObserved(
        tenant=f"team-{number % 50}",
        replica=f"llama-3-70b-{number % 400}",
        model="meta-llama/Meta-Llama-3-70B-Instruct",
        scheme="vllm-v1",
        uid=f"5d0c3c52-7c0b-4a3e-9d0e-{number % 400:012d}",
        session=f"5d0c3c52-{number}",
        edge="statistics",
        kv_sequence=number,
        kv_incarnation=_INCARNATION,
        blocks=number % 100_000,
        statistics={"hit_rate": 0.5, "pressure": 0.25},
    )
    subject = subjects.replica_subject(data.tenant, data.replica)
    return _event(data, f"replica.observed:{number}", subject, number)


def _event(data: events.Event, id: str, subject: str, number: int) -> envelope.Envelope:
    time_ns = 1_796_024_000_000_000_000 + number * 1000
    return events.event(
        data, id=id, source="/warmlog/server", subject=subject, time_ns=time_ns, actor="server/warmlog-0"
    )


def load(port: int, count: int) -> tuple[int, int]:
    """Store `count` events as an append does, header included. Returns the smallest and the largest body."""
    sizes = []

    def frames(start: int, end: int) -> Iterator[bytes]:
        for number in range(start, end):
            event = observed(number) if number % 2 else seen(number)
            body = msgspec.json.encode(event)
            sizes.append(len(body))
            headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % event.id.encode()
            yield b"HPUB %b _INBOX.raw.a %d %d\r\n%b%b\r\n" % (
                event.subject.encode(),
                len(headers),
                len(headers) + len(body),
                headers,
                body,
            )

    for start in range(0, count, 50_000):
        rawnats.publish(port, list(frames(start, min(start + 50_000, count))))
    return min(sizes), max(sizes)


World = dict[str, tuple[int, events.Event]]


def fold(world: World, stored: store.Stored) -> World:
    found = events.decode(stored)
    if isinstance(found, events.Decoded):
        world[stored.subject] = (stored.sequence, found.data)
    return world


async def replayed(log: store.EventStore, count: int) -> float:
    began = time.perf_counter()
    world, how = await replay.replay(log, fold, {}, until=count)
    assert (how.first, how.last) == (1, count)
    assert len(world) > 1000 or count < 10_000
    return time.perf_counter() - began


async def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        server = await natsserver.Server(Path(directory)).start()
        try:
            return await measure(server, COUNT)
        finally:
            await server.stop()


async def measure(server: natsserver.Server, count: int) -> list[Row]:
    ours, wire = [], []
    async with await connect.connect(server.url, connect.Options(name="bench"), wait=5) as connection:
        await provision.provision(connection, streams.control_log(max_bytes=8 << 30))
        small, large = await asyncio.to_thread(load, server.port, count)
        assert 400 <= small <= large <= 800, (small, large)
        log = JetStreamStore(connection)
        gc.collect()
        for _ in range(ROUNDS):
            mark = b"$JS.ACK.WARMLOG.raw."
            wire.append(count / await asyncio.to_thread(rawnats.count, server.port, "WARMLOG", count, mark))
            ours.append(count / await replayed(log, count))
        await log.close()
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, wire, strict=True))
    return [
        Row(f"{count:,} events of {small}-{large} B counted off the wire", statistics.median(wire), "events/s"),
        Row(f"{count:,} events replayed into a fold", statistics.median(ours), "events/s"),
        Row("replay / wire", ratio, "ratio", BAR, ratio >= BAR),
    ]


if __name__ == "__main__":
    import uvloop

    for row in uvloop.run(rows()):
        print(row)
