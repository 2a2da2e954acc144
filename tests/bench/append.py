"""Acknowledged appends with ids against a raw socket that pipelines the same bodies: `python -m tests.bench.append`."""

import asyncio
import gc
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from eventstore import envelope, events, streams
from eventstore.jetstream import connect, provision
from eventstore.jetstream.store import JetStreamStore
from tests.bench import rawnats
from tests.bench.row import Row
from tests.support import natsserver

COUNT = 10_000
ROUNDS = 9
TASKS = 512
BAR = 0.25


def event(number: int) -> envelope.Envelope:
    data = events.Moment(kv_sequence=number, kv_incarnation="20261130T071727.123456789.0")
    return events.event(
        data,
        id=f"moment:20261130T071727.123456789.0:{number}",
        source="/warmlog/server",
        subject="wl.moment",
        time_ns=1_796_024_000_000_000_000 + number,
        actor="server/warmlog-0",
    )


async def append_all(log: JetStreamStore, wanted: list[envelope.Envelope]) -> float:
    """Seconds for all acks, from tasks that each append one after another."""
    waiting = iter(wanted)

    async def writer() -> None:
        for one in waiting:
            await log.append(one)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(TASKS):
            group.create_task(writer())
    return time.perf_counter() - began


async def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        server = await natsserver.Server(Path(directory)).start()
        try:
            return await measure(server)
        finally:
            await server.stop()


async def measure(server: natsserver.Server) -> list[Row]:
    ours, raw = [], []
    async with await connect.connect(server.url, connect.Options(name="bench"), wait=5) as connection:
        await provision.provision(connection, streams.control_log(max_bytes=8 << 30))
        log = JetStreamStore(connection)
        for number in range(ROUNDS):
            wanted = [event(number * COUNT + one) for one in range(COUNT)]
            frames = [rawnats.frame("wl.watch", msgspec.json.encode(one)) for one in wanted]
            gc.freeze()  # a role's input does not lie around by the ten thousand
            raw.append(COUNT / await asyncio.to_thread(rawnats.publish, server.port, frames))
            ours.append(COUNT / await append_all(log, wanted))
        await log.close()
    # Of neighbours in time: what else runs on the machine weighs on both.
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, raw, strict=True))
    return [
        Row("raw pipelined PUB + ack, no ids", statistics.median(raw), "msg/s"),
        Row("acknowledged append with ids", statistics.median(ours), "events/s"),
        Row("append / raw", ratio, "ratio", BAR, ratio >= BAR),
    ]


if __name__ == "__main__":
    import uvloop

    for row in uvloop.run(rows()):
        print(row)
