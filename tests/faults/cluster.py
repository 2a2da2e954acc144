"""Three nats-servers on loopback, as in production, under load: what a dead or hung leader costs.

    python -m tests.faults.cluster --rounds 10      # the table of docs/cluster.md

Writers append to `WARMLOG` (with expectations, as roles do) and publish to `WARMLOG_KV` (one message in flight each, as
a subscriber does). A round ends when both streams have taken messages for a while after the fault. The pause of a
stream is the longest time in which nobody's message was acknowledged; before the fault it is milliseconds.

Not here: what is right afterwards (test_cluster.py asks; `Load.check` says).
"""

import argparse
import asyncio
import contextlib
import itertools
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import structlog

from eventstore import kvwire, store, streams, subjects
from eventstore.jetstream import api, connect, kvlog, provision
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver
from tests.support.eventstores import insist, moment

T = TypeVar("T")
Fault = Literal["kill -9", "SIGSTOP"]
STREAMS = (streams.CONTROL_LOG, streams.KV_LOG)
APPENDERS = PUBLISHERS = 8
SETTLE = 150  # messages that each stream must take after the fault


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_ones:
        probes = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Cluster:
    """Three servers n0, n1, n2; `connection` is to any of them."""

    def __init__(self, directory: Path, *, token: str | None = None) -> None:
        self.token = token
        ports = free_ports(3)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.servers = [
            natsserver.Server(
                directory / f"n{number}",
                token=token,
                extra=f"server_name: n{number}\n"
                f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n',
            )
            for number, port in enumerate(ports)
        ]
        self.connection: connect.Connection

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Cluster"]:
        try:
            await asyncio.gather(*(server.start() for server in self.servers))
            options = connect.Options(name="test", token=self.token)
            async with await connect.connect(self.urls, options, wait=10) as self.connection:
                for wanted in (streams.control_log(replicas=3), streams.kv_log(replicas=3, max_bytes=1 << 28)):
                    await patiently(lambda wanted=wanted: provision.provision(self.connection, wanted))  # type: ignore[misc]
                yield self
        finally:
            for server in self.servers:
                await server.stop()

    async def leader(self, stream: str) -> natsserver.Server:
        async def ask() -> natsserver.Server:
            info = await api.stream_info(self.connection, stream)
            name = (info or {}).get("cluster", {}).get("leader", "")
            if not name:
                raise store.Unavailable(f"{stream} has no leader")
            return self.servers[int(name[1:])]

        return await patiently(ask)

    async def whole(self, within: float = 30.0) -> None:
        """Until every copy of both streams is current: only then does the next fault leave a quorum."""
        async with asyncio.timeout(within):
            for stream in STREAMS:
                while True:
                    info = await patiently(lambda stream=stream: api.stream_info(self.connection, stream))  # type: ignore[misc]
                    copies = (info or {}).get("cluster", {}).get("replicas", [])
                    if len(copies) == 2 and all(copy["current"] and not copy.get("offline") for copy in copies):
                        break
                    await asyncio.sleep(0.1)


async def patiently(ask: Callable[[], Awaitable[T]], within: float = 30.0) -> T:
    """While a cluster elects, nobody answers."""
    until = time.monotonic() + within
    while True:
        try:
            return await ask()
        except store.StoreError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


class Acks:
    """When the messages of one stream were acknowledged, and what each was."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.said: dict[int, str] = {}

    def add(self, sequence: int, what: str) -> None:
        self.times.append(time.monotonic())
        self.said[sequence] = what

    def pause(self, since: float) -> float:
        """The longest time without an acknowledgement, in seconds, from just before `since` on."""
        times = [at for at in self.times if at >= since - 0.5]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


class Load:
    """Use as `async with Load(cluster).running()`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.acks = {stream: Acks() for stream in STREAMS}
        self.again = 0  # KV messages that were sent again, because nobody said whether they were stored
        self.read: dict[str, list[store.Stored | store.KVMessage]] = {stream: [] for stream in STREAMS}
        self.incarnations: dict[str, str] = {}
        self._stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Everything writes and reads; at the end all is read that was written."""
        connection = self.cluster.connection
        self.log, self.kv = JetStreamStore(connection, deadline=2.0), kvlog.JetStreamKV(connection)
        for stream, one in zip(STREAMS, (self.log, self.kv), strict=True):
            self.incarnations[stream] = (await patiently(one.extent)).incarnation
        readers = [
            asyncio.ensure_future(self._read(streams.CONTROL_LOG, self.log.read(follow=True))),
            asyncio.ensure_future(self._read(streams.KV_LOG, self.kv.read(follow=True))),
        ]
        try:
            async with asyncio.TaskGroup() as writers:
                for name in range(APPENDERS):
                    writers.create_task(self._append(name))
                for name in range(PUBLISHERS):
                    writers.create_task(self._publish(f"r{name}"))
                try:
                    yield self
                finally:
                    self._stop.set()
            async with asyncio.timeout(30):
                for stream, one in zip(STREAMS, (self.log, self.kv), strict=True):
                    last = (await patiently(one.extent)).last
                    while not self.read[stream] or self.read[stream][-1].sequence < last:
                        await asyncio.sleep(0.02)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            await self.log.close()
            await self.kv.close()

    async def _read(
        self, stream: str, chunks: AsyncGenerator[list[store.Stored] | list[store.KVMessage], None]
    ) -> None:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                self.read[stream] += chunk

    async def _append(self, name: int) -> None:
        last = number = 0
        while not self._stop.is_set():
            number += 1
            event = moment(number, id=f"{name}:{number}", subject=f"wl.index.{name}")
            last = (await insist(self.log, event, expected=last)).sequence
            self.acks[streams.CONTROL_LOG].add(last, event.id)
            await asyncio.sleep(0.002)

    async def _publish(self, name: str) -> None:
        """As a session does: one message at a time, the same again until it is acknowledged."""
        subject = subjects.kv_subject("t", "m", name)
        for n in itertools.count():
            payload = kvwire.encode(kvwire.Beat(1, "u", name, n, "complete", 0, 0))
            while True:
                try:
                    sequence = await self.kv.publish(subject, payload)
                    break
                except store.Unavailable:
                    self.again += 1
                    await asyncio.sleep(0.05)
            self.acks[streams.KV_LOG].add(sequence, f"{name}:{n}")
            if self._stop.is_set():
                return
            await asyncio.sleep(0.002)

    async def more(self, count: int = SETTLE, within: float = 40.0) -> None:
        """Until each stream has acknowledged so many more messages."""
        wanted = {stream: len(acks.said) + count for stream, acks in self.acks.items()}
        async with asyncio.timeout(within):
            while any(len(self.acks[stream].said) < number for stream, number in wanted.items()):
                await asyncio.sleep(0.02)

    async def check(self) -> list[str]:
        """What is wrong; after `running` has ended. Acknowledged means: there, once, unchanged, in the same life."""
        wrong = []
        log = {one.sequence: msgspec.json.decode(one.body)["id"] for one in self.read[streams.CONTROL_LOG]}  # type: ignore[union-attr]
        acked = self.acks[streams.CONTROL_LOG].said
        wrong += [
            f"WARMLOG: {id} was acknowledged at {at}, there lies {log.get(at)}"
            for at, id in acked.items()
            if log.get(at) != id
        ]
        if len(set(log.values())) != len(log):
            wrong.append("WARMLOG: an event is stored twice")
        if sorted(log) != list(range(1, len(log) + 1)):
            wrong.append("WARMLOG: the reader has a hole, or something twice")
        held: dict[int, str] = {}
        for one in self.read[streams.KV_LOG]:
            said = kvwire.decode(one.payload)  # type: ignore[union-attr]
            held[one.sequence] = f"{said.session}:{said.n}"
        acked = self.acks[streams.KV_LOG].said
        wrong += [
            f"WARMLOG_KV: {what} was acknowledged at {at}, there lies {held.get(at)}"
            for at, what in acked.items()
            if held.get(at) != what
        ]
        doubled = len(held) - len(set(held.values()))
        if doubled > self.again:
            wrong.append(f"WARMLOG_KV: {doubled} messages are stored twice, {self.again} were sent again")
        for stream, one in zip(STREAMS, (self.log, self.kv), strict=True):
            if (now := (await patiently(one.extent)).incarnation) != self.incarnations[stream]:
                wrong.append(
                    f"{stream}: a change of leaders was taken for a lost end: {self.incarnations[stream]}, {now}"
                )
        return wrong


async def strike(cluster: Cluster, load: Load, fault: Fault, stream: str) -> dict[str, float]:
    """The leader of a stream is killed or stopped, comes back, and all is whole; the pauses of both streams."""
    await load.more(100)
    leader = await cluster.leader(stream)
    since = time.monotonic()
    if fault == "kill -9":
        await leader.kill()
    else:
        leader.suspend()
    try:
        await load.more()
    finally:
        if fault == "kill -9":
            await leader.start()
        else:
            leader.resume()
    pauses = {name: acks.pause(since) for name, acks in load.acks.items()}
    await cluster.whole()
    return pauses


async def _rounds(rounds: int, fault: Fault) -> tuple[dict[str, list[float]], int, list[str]]:
    pauses: dict[str, list[float]] = {stream: [] for stream in STREAMS}
    with tempfile.TemporaryDirectory() as folder:
        async with Cluster(Path(folder)).running() as cluster:
            load = Load(cluster)
            async with load.running():
                for number in range(rounds):
                    for name, pause in (await strike(cluster, load, fault, STREAMS[number % 2])).items():
                        pauses[name].append(pause)
                    told = ", ".join(f"{name} {found[-1]:.1f} s" for name, found in pauses.items())
                    print(f"{fault} round {number + 1}: {told}", file=sys.stderr, flush=True)
            wrong = await load.check()
            return pauses, sum(len(acks.said) for acks in load.acks.values()), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="for each fault")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    faults: tuple[Fault, ...] = ("kill -9", "SIGSTOP")
    print("| leader | rounds | stream | pause p50 | longest | acknowledged | lost, doubled, wrong |")
    print("|---|--:|---|--:|--:|--:|--:|")
    failed = 0
    for fault in faults:
        pauses, acknowledged, wrong = asyncio.run(_rounds(given.rounds, fault))
        for stream, found in pauses.items():
            print(
                f"| {fault} | {given.rounds} | `{stream}` | {statistics.median(found):.1f} s | {max(found):.1f} s "
                f"| {acknowledged:,} | {len(wrong)} |",
                flush=True,
            )
        for line in wrong[:10]:
            print(line, file=sys.stderr)
        failed += len(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
