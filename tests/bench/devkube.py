"""devkube as a process of its own, asked over TLS: start, creates, lists of 10,000 Pods, watches, memory.

`python -m tests.bench.devkube`, or a part of `make bench` by name. The client is this process, on the same cores, and
does as little as it can: it times the arrival of bytes and reads them afterwards.
"""

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

from tests.bench.row import Row

PODS = 10_000
CONFIGMAPS = 5_000
CONNECTIONS = 8
WATCHES = 100
WRITES = 200
NAME = re.compile(rb'"name":"(s\d+-\d+)"')
NAMESPACE = "/api/v1/namespaces/default"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Server:
    """One devkube on a free port; `started` is the time from exec to the ready line, in seconds."""

    def __init__(self, directory: Path) -> None:
        begun = time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, ("cmd", os.environ.get("PYTHONPATH"))))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "devkube", "--port", "0", "--directory", str(directory)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdout is not None
        self.ready = json.loads(self._process.stdout.readline())
        self.started = time.perf_counter() - begun
        self.port = int(self.ready["url"].rsplit(":", 1)[1])
        self.context = ssl.create_default_context(cafile=self.ready["certificate_authority"])
        config = json.loads((directory / "kubeconfig").read_text())
        self.token: str = config["users"][0]["user"]["token"]

    def memory(self) -> tuple[float, float]:
        """Resident now and at its peak, MiB."""
        told = Path(f"/proc/{self._process.pid}/status").read_text()
        now, peak = (int(told.split(f"{key}:")[1].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))
        return now, peak

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Connection:
    """HTTP/1.1 by hand: one request at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._server.port, ssl=self._server.context, limit=1 << 26
        )
        return self

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._server.token}\r\n{named}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
        self.send(method, path, body, **headers)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "content-length: " in head:
            answer = await self.reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        else:
            answer = b"".join([chunk async for chunk in self.chunks()])
        if head.split()[1] not in ("200", "201"):
            raise RuntimeError(f"{method} {path}: {answer.decode()}")
        return answer

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()


def configmap(number: int) -> bytes:
    """2 KB."""
    meta = {"name": f"c{number}", "labels": {"n": str(number % 10)}}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"key": "x" * 1850}}
    return json.dumps(made).encode()


def pod(number: int) -> bytes:
    """9 KB as stored."""
    env = [{"name": f"VARIABLE_{i}", "value": "v" * 110} for i in range(50)]
    container = {"name": "main", "image": "registry.example.org/app:1", "env": env, "ports": [{"containerPort": 8080}]}
    meta = {"name": f"p{number:05}", "labels": {"app": f"a{number % 10}"}}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    return json.dumps(made).encode()


async def create(server: Server, plural: str, make: Callable[[int], bytes], count: int) -> float:
    """Creates a second, by CONNECTIONS clients."""

    async def some(first: int) -> None:
        connection = await Connection(server).open()
        for number in range(first, count, CONNECTIONS):
            await connection.ask("POST", f"{NAMESPACE}/{plural}", make(number))
        connection.writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*map(some, range(CONNECTIONS)))
    return count / (time.perf_counter() - begun)


async def seconds(connection: Connection, path: str, **headers: str) -> tuple[float, bytes]:
    begun = time.perf_counter()
    answer = await connection.ask("GET", path, **headers)
    return time.perf_counter() - begun, answer


class Watch(asyncio.Protocol):
    """A watch that only keeps what arrives and when: a client that reads would be what is measured, on these cores."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.arrived: list[tuple[float, bytes]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.arrived.append((time.perf_counter(), data))

    def names(self) -> Iterator[tuple[float, str]]:
        """When the piece came that ended each event, and whom it was about. Chunk sizes between lines do not matter."""
        text = b""
        for moment, piece in self.arrived:
            *lines, text = (text + piece).split(b"\n{")
            for line in lines:
                yield from ((moment, name.decode()) for name in NAME.findall(line))
            if text.endswith(b"}\n\r\n"):
                yield from ((moment, name.decode()) for name in NAME.findall(text))
                text = b""


async def latencies(server: Server, watches: int, writes: int) -> list[float]:
    """Milliseconds from before a create is sent until an event of it has arrived, of all watches, sorted."""
    loop, asking = asyncio.get_running_loop(), await Connection(server).open()
    listed: dict[str, Any] = json.loads(await asking.ask("GET", f"{NAMESPACE}/secrets"))
    path = f"{NAMESPACE}/secrets?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    opened = [
        (await loop.create_connection(lambda: Watch(request), "127.0.0.1", server.port, ssl=server.context))[1]
        for _ in range(watches)
    ]
    async with asyncio.timeout(30):
        while not all(one.arrived for one in opened):  # their headers
            await asyncio.sleep(0.05)
    sent: dict[str, float] = {}
    for number in range(writes):
        name = f"s{watches}-{number}"
        body = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}).encode()
        sent[name] = time.perf_counter()
        await asking.ask("POST", f"{NAMESPACE}/secrets", body)
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    found = [(moment - sent[name]) * 1000 for one in opened for moment, name in one.names()]
    if len(found) != watches * writes:
        raise RuntimeError(f"{watches * writes} events were to arrive and {len(found)} did")
    for one in opened:
        one.transport.close()
    return sorted(found)


async def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            return await measured(server)
        finally:
            server.stop()


async def measured(server: Server) -> list[Row]:
    made = [Row("devkube: from start to ready", server.started, "s", 1.0, server.started <= 1.0)]
    idle, _ = server.memory()
    made.append(Row("devkube: memory when idle", idle, "MiB"))
    rate = await create(server, "configmaps", configmap, CONFIGMAPS)
    made.append(Row("devkube: creates of 2 KB ConfigMaps, 8 connections", rate, "per s", 500, rate >= 500))
    rate = await create(server, "pods", pod, PODS)
    made.append(Row("devkube: creates of 9 KB Pods, 8 connections", rate, "per s"))
    connection = await Connection(server).open()
    for name, path, bar, headers in (
        ("10,000 Pods of 9 KB listed", "/api/v1/pods", 2.0, {}),
        ("the same, gzip", "/api/v1/pods", None, {"Accept_Encoding": "gzip"}),
        ("the same as a Table", "/api/v1/pods", None, {"Accept": TABLE}),
        ("the same, only metadata", "/api/v1/pods", None, {"Accept": PARTIAL}),
        ("a page of 500 Pods", "/api/v1/pods?limit=500", None, {}),
        ("1,000 of them by label", "/api/v1/pods?labelSelector=app%3Da1", None, {}),
    ):
        took, _ = await seconds(connection, path, **headers)
        made.append(Row(f"devkube: {name}", took, "s", bar, bar is None or took <= bar))
    for watches in (1, WATCHES):
        found = await latencies(server, watches, WRITES)
        half, most = found[len(found) // 2], found[len(found) * 99 // 100]
        made.append(Row(f"devkube: watch latency p50, {watches} watches", half, "ms", 5.0, half <= 5.0))
        made.append(Row(f"devkube: watch latency p99, {watches} watches", most, "ms"))
    now, peak = server.memory()
    made.append(Row("devkube: memory with 10,000 Pods", now, "MiB", 500, now <= 500))
    made.append(Row("devkube: memory at its peak", peak, "MiB"))
    return made


if __name__ == "__main__":
    import uvloop

    for row in uvloop.run(rows()):
        sys.stdout.write(f"{row}\n")
