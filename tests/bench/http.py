"""A lookup's way through HTTP with a decision that costs nothing, beside a raw echo of the same bytes over the same
kind of loop: `python -m tests.bench.http`. What it shows is what port 8080 adds to `decide`.

The server is a process of its own, as in production; the client is one blocking socket. Rounds alternate between the
two, the figures are medians of the rounds' p50s.
"""

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from typing import cast

import uvloop

from subscribers import metrics
from subscribers.http import hotpath, meters, replies, routes
from tests.bench.row import Row

ROUNDS = 5
COUNT = 2000
BAR_MICROSECONDS = 40.0
ANSWER = b'{"replica_scores":[],"reason_code":"NO_HINT","lookup_latency_us":"0","adapter_id":"","detail":null}'


class Trivial:
    """routes.Lookup that has decided already."""

    def json(self, body: bytes) -> bytes:
        return ANSWER

    def packed(self, tokens: bytes, query: bytes) -> bytes:
        return ANSWER


class Echo(asyncio.Protocol):
    """Answers every request of a known size with as many bytes as the HTTP answer has."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)  # uvloop's does not derive from it
        self.size = 0
        self.got = 0

    def data_received(self, data: bytes) -> None:
        if not self.size:
            self.size = int(data[:8])
        self.got += len(data)
        while self.got >= self.size:
            self.got -= self.size
            self.transport.write(b"x" * (len(ANSWER) + 120))


async def serve() -> None:
    registry = metrics.Registry()
    listener = hotpath.Listener(
        routes.Routes(
            lookup=Trivial(), ready=lambda: replies.json(200, {}), metrics=registry.render, body_limit=8 << 20
        ),
        meter=meters.HttpMeter(registry),
    )
    port = await listener.start("127.0.0.1", 0)
    echo = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(port, echo.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    echo.close()
    await listener.drain(grace=1)


def p50(port: int, request: bytes) -> float:
    """Microseconds of one round trip on a kept connection."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        took = []
        for _ in range(COUNT):
            began = time.perf_counter()
            client.sendall(request)
            client.recv(65536)
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def http_request(kind: bytes, body: bytes) -> bytes:
    return (
        b"POST /v1/lookup?tenant_id=team&model_id=org%%2Fmodel HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n"
        b"User-Agent: router/1\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)
    )


#: The bodies: a chain of 64 keys in JSON, and 512 blocks of 16 packed token ids.
BODIES = {
    "64 keys, JSON": http_request(b"application/json", b"[" + b'"0123456789abcdef",' * 64 + b"0]"),
    "512 blocks, packed": http_request(b"application/x-u32le", bytes(512 * 16 * 4)),
}


def rows() -> list[Row]:
    found: list[Row] = []
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.http", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port, echo_port = map(int, server.stdout.readline().split())
        for name, request in BODIES.items():
            same_size = b"%08d" % len(request) + request[8:]
            ours, raw = [], []
            for _ in range(ROUNDS):
                raw.append(p50(echo_port, same_size))
                ours.append(p50(port, request))
            http, echo = statistics.median(ours), statistics.median(raw)
            added = http - echo
            found += [
                Row(f"raw echo of the same bytes, p50 ({name})", echo, "us"),
                Row(f"lookup over HTTP, trivial decision, p50 ({name})", http, "us"),
                Row(f"HTTP / raw echo ({name})", http / echo, "ratio"),
                Row(f"HTTP adds to a decision ({name})", added, "us", BAR_MICROSECONDS, added <= BAR_MICROSECONDS),
            ]
        server.communicate("")  # the server ends at the end of its input
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        uvloop.run(serve())
    else:
        for row in rows():
            print(row)
