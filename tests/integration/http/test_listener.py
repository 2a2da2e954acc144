"""Port 8080 over real sockets, on asyncio's loop and on uvloop. Excluded: the protocol's details (tests/unit/http)."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from subscribers import metrics
from subscribers.http import connection, hotpath, meters
from tests.support import http_client as client_side
from tests.support.http_client import get, post

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
LIMITS = connection.Limits(body=1_000_000, head_seconds=0.4, idle_seconds=2, connections=20, linger_seconds=0.5)


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run a scenario to its end on the loop of this parameter."""

    def run_on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scenario(), 20))

    return run_on_loop


class Served:
    """A listener on a free port."""

    def __init__(self) -> None:
        self.registry = metrics.Registry()
        self.listener = client_side.listener(limits=LIMITS, meter=meters.HttpMeter(self.registry))
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Served":
        self.listener.detach()  # start() attaches again
        self.port = await self.listener.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await self.listener.drain(grace=1)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def say(self, request: bytes) -> bytes:
        """One request on a connection of its own; everything until the server closes."""
        reader, writer = await self.dial()
        writer.write(request)
        return await reader.read(-1)


Run = Callable[[Callable[[], Awaitable[None]]], None]


def test_many_clients_keep_their_connections_and_get_their_own_answers(run: Run) -> None:
    async def client(served: Served, size: int) -> None:
        reader, writer = await served.dial()
        for turn in range(30):
            writer.write(post(b"x" * (size + turn)))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(b'{"json":%d}' % (size + turn))) == b'{"json":%d}' % (size + turn)

    async def scenario() -> None:
        async with Served() as served:
            async with asyncio.TaskGroup() as group:
                for size in range(100, 2000, 100):
                    group.create_task(client(served, size))
            assert 'path="lookup",code="200"} 570' in served.registry.render().decode()

    run(scenario)


def test_a_large_body_in_many_reads_arrives_whole(run: Run) -> None:
    async def scenario() -> None:
        async with Served() as served:
            said = await served.say(post(b"x" * 999_999, extra=b"Connection: close\r\n"))
            assert said.endswith(b'{"json":999999}')

    run(scenario)


def test_a_client_that_sends_too_much_still_sees_why_it_was_refused(run: Run) -> None:
    async def scenario() -> None:
        async with Served() as served:
            said = await served.say(post(b"x" * 1_000_001))
            assert said.startswith(b"HTTP/1.1 413 ")
            assert b"larger than 1000000 bytes" in said

    run(scenario)


def test_a_slow_loris_is_told_and_cut_off(run: Run) -> None:
    async def scenario() -> None:
        async with Served() as served:
            reader, writer = await served.dial()
            started = asyncio.get_running_loop().time()
            said = b""
            for byte in get(b"/" + b"x" * 200):
                writer.write(bytes([byte]))
                with contextlib.suppress(TimeoutError):
                    said += await asyncio.wait_for(reader.read(65536), 0.05)
                    break
            said += await reader.read(-1)
            assert said.startswith(b"HTTP/1.1 408 ")
            assert asyncio.get_running_loop().time() - started < 2

    run(scenario)


def test_ten_thousand_pipelined_requests_from_a_client_that_reads_late(run: Run) -> None:
    async def scenario() -> None:
        async with Served() as served:
            reader, writer = await served.dial()
            writer.write(get(b"/metrics") * 9_999 + get(b"/metrics", extra=b"Connection: close\r\n"))
            await asyncio.sleep(0.2)  # the server must stop reading and writing, not fill its memory
            said = 0
            tail = b""
            while piece := await reader.read(1 << 20):
                said += len(piece)
                tail = (tail + piece)[-200:]
            assert said > 9_999 * 10_000
            assert tail.endswith(b"# nothing\n")

    run(scenario)


def test_a_drain_finishes_what_is_under_way_and_accepts_no_more(run: Run) -> None:
    async def scenario() -> None:
        async with Served() as served:
            idle_reader, _ = await served.dial()
            reader, writer = await served.dial()
            request = post(b"12345")
            writer.write(request[:-1])
            await asyncio.sleep(0.05)
            async with asyncio.TaskGroup() as group:
                group.create_task(served.listener.drain(grace=3))
                assert await idle_reader.read(-1) == b""
                with pytest.raises(OSError):
                    await served.dial()
                writer.write(request[-1:])
                said = await reader.read(-1)
            assert b"connection: close\r\n" in said
            assert said.endswith(b'{"json":5}')

    run(scenario)


def test_a_port_in_use_is_one_line_that_names_it(run: Run) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            listener = client_side.listener()
            listener.detach()
            with pytest.raises(hotpath.ListenError, match=f"cannot listen on 127.0.0.1:{port}"):
                await listener.start("127.0.0.1", port)

    run(scenario)


def test_a_client_that_vanishes_in_the_middle_leaves_nothing_behind(run: Run) -> None:
    async def scenario() -> None:
        async with Served() as served:
            for _ in range(10):
                _, writer = await served.dial()
                writer.write(post(b"x" * 500)[:-100])
                await writer.drain()
                writer.transport.abort()
            await asyncio.sleep(0.1)
            assert "warmlog_http_open_connections 0" in served.registry.render().decode()

    run(scenario)


def test_a_flood_of_connections_is_turned_away_and_those_inside_are_served(run: Run) -> None:
    async def scenario() -> None:
        problems: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with Served() as served:
            inside = [await served.dial() for _ in range(LIMITS.connections)]
            for _, writer in inside:
                writer.write(post(b"12345")[:-1])
            await asyncio.sleep(0.05)
            flood = [await served.dial() for _ in range(2 * LIMITS.connections)]
            told = await asyncio.gather(*(reader.read(-1) for reader, _ in flood), return_exceptions=True)
            assert (
                sum(isinstance(one, bytes) and one.startswith(b"HTTP/1.1 503 ") for one in told) >= LIMITS.connections
            )
            for reader, writer in inside:
                writer.write(b"5")
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        assert not problems

    run(scenario)
