"""The rendered commands of managed tiers start the real programs, which do what the rendering promises.

redis-server is Debian's, mooncake_master is PyPI's with libraries of Debian's. Where one is missing its test is skipped
by name, and fails under WARMLOG_REQUIRE_REAL=1.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crds import schema
from crds.cachebackend import CacheBackend
from handlers.cachebackend import providers
from tests.support import real
from tests.support.ports import free_port


def rendered(runtime: str, **storage: Any) -> dict[str, Any]:
    document = {
        "metadata": {"name": "kv", "namespace": "ml", "uid": "u"},
        "spec": {"runtime": runtime, "remoteStorage": {"ownership": "Managed", **storage}},
    }
    made = providers.render(schema.read(document, CacheBackend))
    found: dict[str, Any] = made.deployment["spec"]["template"]["spec"]["containers"][0]
    return found


@contextlib.asynccontextmanager
async def running(*words: str, cwd: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with (cwd / "output").open("wb") as output:
        process = await asyncio.create_subprocess_exec(*words, cwd=cwd, stdout=output, stderr=output)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(15):
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)


async def asked(port: int, *words: str) -> bytes:
    """One command in Redis' own protocol."""
    reader, writer = await connected(port)
    writer.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w.encode()) for w in words))
    answer = await reader.read(4096)
    writer.close()
    return answer


@pytest.mark.parametrize(("limit", "maxmemory"), [(None, 6871947674), ("1Gi", 858993460), ("100M", 80000000)])
async def test_redis_has_the_memory_and_the_policy_of_the_rule(
    limit: str | None, maxmemory: int, tmp_path: Path
) -> None:
    binary = real.program("redis-server", "Debian redis-server")
    block = {"redis": {"resources": {"limits": {"memory": limit}}}} if limit else {}
    container = rendered("SGLang", provider="Redis", **block)
    name, *args = container.get("command", []) + container["args"]
    assert name == "redis-server"
    port = free_port()
    async with running(binary, *args, "--port", str(port), "--bind", "127.0.0.1", cwd=tmp_path):
        assert str(maxmemory).encode() in await asked(port, "CONFIG", "GET", "maxmemory")
        assert b"allkeys-lru" in await asked(port, "CONFIG", "GET", "maxmemory-policy")
        assert b"no" in await asked(port, "CONFIG", "GET", "appendonly")
        assert (await asked(port, "CONFIG", "GET", "save")).endswith(b"$0\r\n\r\n")
        assert (await asked(port, "SET", "k", "v")).startswith(b"+OK")


async def test_mooncake_s_master_answers_on_its_three_ports(tmp_path: Path) -> None:
    binary = real.mooncake_master()
    container = rendered("VLLM", provider="Mooncake")
    assert container["command"] == ["mooncake_master"]
    named = {one["name"]: one["containerPort"] for one in container["ports"]}
    free = {port: free_port() for port in named.values()}
    args = container["args"]
    for port, other in free.items():  # the same flags on ports that nobody on this machine uses
        assert any(word.endswith(f"={port}") for word in args), port
        args = [word.replace(f"={port}", f"={other}") for word in args]
    async with running(binary, *args, cwd=tmp_path) as process:
        for name, port in named.items():
            _, writer = await connected(free[port])
            writer.close()
            assert process.returncode is None, (name, (tmp_path / "output").read_text()[-500:])
        assert b" 200 " in await http(free[named["metrics"]], "/metrics")
        assert b" 404 " in await http(free[named["mooncake-meta"]], "/metadata?key=absent")


async def http(port: int, path: str) -> bytes:
    reader, writer = await connected(port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(10):
        answer = await reader.readline()
    writer.close()
    return answer
