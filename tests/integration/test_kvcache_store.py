"""A real Mooncake master, a member that gives memory, and a client configured with nothing but what is injected.

The package is PyPI's mooncake-transfer-engine-non-cuda, over TCP and without a GPU. Without it the tests are skipped by
name, and fail under WARMLOG_REQUIRE_REAL=1. Excluded: engines (no GPU here), fabrics.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devkube.patches import json_patch
from handlers.kvcachepool import inject, names
from handlers.kvcachepool.inject import Settings
from tests.support import real
from tests.support.kvpools import DISABLED, STORE, backend, binding, pod, pool, world
from tests.support.ports import free_port

#: stdin: a JSON list of (configuration, operation, key); stdout: what each gave, after the member has joined.
CLIENT = """
import json, os, sys
from mooncake.store import MooncakeDistributedStore
member, *steps = json.load(sys.stdin)
def joined(config, size):
    store = MooncakeDistributedStore()
    named = {"tenant_id": config["tenant_id"]} if config.get("tenant_id") else {}
    code = store.setup("127.0.0.1", config["metadata_server"], size, config["local_buffer_size"], config["protocol"],
                       config["device_name"], config["master_server_address"], **named)
    assert code == 0, code
    return store
stores = {"member": joined({**member, "tenant_id": None}, 64 << 20)}
found = []
for config, operation, key in steps:
    name = json.dumps(config)
    if name not in stores:
        stores[name] = joined(config, config["global_segment_size"])
    store = stores[name]
    found.append(store.put(key, b"x" * 1000) if operation == "put" else len(store.get(key) or b""))
print("found", json.dumps(found), flush=True)
os._exit(0)
"""


@pytest.fixture
def master() -> str:
    return real.mooncake_master()


@pytest.fixture
async def ledger(master: str, tmp_path: Path) -> AsyncIterator[int]:
    """The port of a master that knows one tenant."""
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "tenants": [{"name": "team-chat", "quota": 1 << 26}]}))
    flags = ["-enable_multi_tenants=true", f"-tenant_quota_connector_uri={policy}"]
    async for port in running(master, tmp_path, *flags):
        yield port


@pytest.fixture
async def plain(master: str, tmp_path: Path) -> AsyncIterator[int]:
    async for port in running(master, tmp_path):
        yield port


async def running(master: str, place: Path, *flags: str) -> AsyncIterator[int]:
    port, metrics = free_port(), free_port()
    words = [f"-rpc_port={port}", f"-metrics_port={metrics}", *flags]
    with (place / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(master, *words, cwd=place, stdout=log, stderr=log)
    try:
        async with asyncio.timeout(20):
            while not await answers(port):
                assert process.returncode is None, (place / "log").read_text()[-2000:]
                await asyncio.sleep(0.05)
        yield port
    finally:
        process.kill()
        await process.wait()


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def document(port: int, *objects: Any) -> dict[str, Any]:
    """The projected file of an injected Pod."""
    given = objects or STORE
    at = [{**one, "status": {**one["status"], "clientEndpoint": f"127.0.0.1:{port}"}} if "status" in one else one
          for one in given]  # fmt: skip
    decision = inject.decide(pod(), "team", world(*at), Settings())
    found: dict[str, Any] = json.loads(
        json_patch(pod(), list(decision.patch))["metadata"]["annotations"][names.CLIENT_CONFIG]
    )
    return found


async def asked(place: Path, *steps: Any) -> list[int]:
    words = [sys.executable, "-c", CLIENT]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, cwd=place, stdin=pipe, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(60):
        out, error = await process.communicate(json.dumps([steps[0][0], *steps]).encode())
    lines = [line for line in out.decode().splitlines() if line.startswith("found ")]
    assert lines, error.decode()[-2000:]
    found: list[int] = json.loads(lines[0].removeprefix("found "))
    return found


async def test_blocks_are_kept_apart_by_the_binding_s_domain(ledger: int, tmp_path: Path) -> None:
    config = document(ledger)
    assert config["tenant_id"] == "team-chat"
    without = {key: value for key, value in config.items() if key != "tenant_id"}
    found = await asked(
        tmp_path, (config, "put", "k"), (config, "get", "k"), (without, "get", "k"), (without, "put", "other")
    )
    assert found[:3] == [0, 1000, 0]
    assert found[3] != 0  # `default` is not registered: an engine that reads no tenant needs a Binding of that domain


async def test_a_store_without_a_ledger_is_joined_without_a_tenant(plain: int, tmp_path: Path) -> None:
    config = document(plain, binding(), pool(condition=DISABLED), backend(tenancy=False))
    assert "tenant_id" not in config
    assert await asked(tmp_path, (config, "put", "k"), (config, "get", "k")) == [0, 1000]
