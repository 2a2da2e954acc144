"""Three servers, three replicas, as in production: the stream's leader is killed under load. Nothing acknowledged is
lost, nothing is stored twice, the reader has no hole, and nobody takes the new leader for a lost end."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from eventstore import store, streams
from eventstore.jetstream import api, connect, provision
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver
from tests.support.eventstores import follow, insist, moment


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_ones:
        probes = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[list[natsserver.Server], None]:
    natsserver.require()
    ports = free_ports(3)
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers = [
        natsserver.Server(
            tmp_path / f"n{number}",
            extra=f'server_name: n{number}\ncluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n',
        )
        for number, port in enumerate(ports)
    ]
    try:
        await asyncio.gather(*(server.start() for server in servers))
        yield servers
    finally:
        for server in servers:
            await server.stop()


async def ready(connection: connect.Connection) -> None:
    """The cluster has a leader and the stream is made."""
    while True:
        try:
            return await provision.provision(connection, streams.control_log(replicas=3))
        except store.StoreError:
            await asyncio.sleep(0.1)


async def test_a_leader_killed_under_load_costs_seconds_and_no_event(cluster: list[natsserver.Server]) -> None:
    options = connect.Options(name="test")
    async with await connect.connect([server.url for server in cluster], options, wait=10) as connection:
        await ready(connection)
        log = JetStreamStore(connection, deadline=2.0)
        incarnation = (await log.extent()).incarnation
        acked: dict[int, str] = {}
        found: list[store.Stored] = []
        stop = asyncio.Event()

        async def writer(name: int) -> None:
            last = number = 0
            while not stop.is_set():
                number += 1
                event = moment(number, id=f"{name}:{number}", subject=f"wl.index.{name}")
                last = (await insist(log, event, expected=last)).sequence
                acked[last] = event.id
                await asyncio.sleep(0.001)

        reading = asyncio.ensure_future(follow(log, 10**9, into=found))
        async with asyncio.TaskGroup() as group:
            for name in range(8):
                group.create_task(writer(name))
            await asyncio.sleep(0.5)
            info = await api.stream_info(connection, log.name)
            assert info is not None
            await cluster[int(info["cluster"]["leader"][1])].kill()
            before = len(acked)
            while len(acked) < before + 200:
                await asyncio.sleep(0.05)
            stop.set()
        last = (await log.extent()).last
        while not found or found[-1].sequence < last:
            await asyncio.sleep(0.05)
        reading.cancel()
        assert [one.sequence for one in found] == list(range(1, last + 1))
        assert sorted(acked) == list(range(1, last + 1)), "an acknowledged event was lost, or one was stored twice"
        assert len(set(acked.values())) == len(acked)
        assert (await log.extent()).incarnation == incarnation
        await log.close()
