"""Who is compared: the peer's indexer, and ours as the processes it is in production. Each starts, says which of its
processes play which part, puts a prompt into a request and reads its answer as replica -> blocks.

Started and stopped through `warmlog.lab`, so by process number, with logs under the run's directory.
"""

import asyncio
import json
import sys
from array import array
from pathlib import Path
from typing import Final, Protocol

from tests.bench.peers import client, history
from warmlog import lab

MODEL: Final = "default"
TENANT: Final = "bench"
#: A lookup is compared whole, so nothing is left out of the answer for being worth little.
_POLICY: Final = """
apiVersion: inferencecache.io/v1alpha1
kind: CachePolicy
metadata: {name: all, namespace: bench}
spec: {minimumMatchedTokens: 0, routingFloorScore: "0", affinityRouting: Disabled}
"""
_PER_PROCESS: Final = 16  # subscribers, in a fleet that has more replicas than this
_PATIENCE: Final = 60.0


class Contender(Protocol):
    name: str
    server: list[int]  # processes that answer lookups
    transport: list[int]  # nats-server
    readers: list[int]  # subscribers
    port: int

    async def start(self, ports: list[int]) -> None: ...

    def json(self, tokens: list[int]) -> bytes: ...

    def packed(self, tokens: list[int]) -> bytes | None: ...

    def read(self, answer: bytes) -> dict[int, int]: ...


class Dynamo:
    """`python -m dynamo.indexer`: reads the engines itself, answers over HTTP. It has no packed form."""

    def __init__(self, rig: "Rig", threads: int) -> None:
        self.name = f"dynamo, {threads} thread{'s' * (threads > 1)}"
        self.server: list[int] = []
        self.transport: list[int] = []
        self.readers: list[int] = []
        self.port = 0
        self._rig, self._threads = rig, threads

    async def start(self, ports: list[int]) -> None:
        self.port = lab.free_port()
        workers = ",".join(f"{replica}=tcp://127.0.0.1:{port}" for replica, port in enumerate(ports))
        words = ["-m", "dynamo.indexer", f"--block-size={history.BLOCK}", f"--port={self.port}"]
        words += [f"--threads={self._threads}", f"--workers={workers}", f"--model-name={MODEL}"]
        self.server = [(await self._rig.start_python(f"dynamo-{self._threads}", words)).pid]

    def json(self, tokens: list[int]) -> bytes:
        return client.post("/query", json.dumps({"token_ids": tokens, "model_name": MODEL}).encode())

    def packed(self, tokens: list[int]) -> bytes | None:
        return None

    def read(self, answer: bytes) -> dict[int, int]:
        scores = json.loads(answer).get("scores", {})
        return {int(worker): ranks["0"] // history.BLOCK for worker, ranks in scores.items()}


class Ours:
    """nats-server, subscribers, `warmlog server`."""

    def __init__(self, rig: "Rig") -> None:
        self.name = "warmlog"
        self.server: list[int] = []
        self.transport: list[int] = []
        self.readers: list[int] = []
        self.port = 0
        self._rig = rig

    async def start(self, ports: list[int]) -> None:
        rig = self._rig
        await rig.start_nats()
        assert rig.nats is not None
        self.transport = [rig.nats.pid]
        policies = rig.directory / "policies"
        policies.mkdir(exist_ok=True)
        (policies / "all.yaml").write_text(_POLICY)
        self.server = [(await rig.start_server(policies=str(policies))).pid]
        self.port = int(rig.lookup.rpartition(":")[2])
        named = [(f"r{replica:03d}", port) for replica, port in enumerate(ports)]
        if len(named) <= _PER_PROCESS:
            for name, port in named:
                self.readers.append((await rig.start_source(name, port)).pid)
        else:
            for at in range(0, len(named), _PER_PROCESS):
                self.readers.append((await rig.start_sources(named[at : at + _PER_PROCESS])).pid)

    def json(self, tokens: list[int]) -> bytes:
        asked = {"model_id": MODEL, "tenant_id": TENANT, "hash_scheme": "vllm", "token_ids": tokens}
        return client.post("/v1/lookup", json.dumps(asked).encode())

    def packed(self, tokens: list[int]) -> bytes | None:
        target = f"/v1/lookup?model_id={MODEL}&tenant_id={TENANT}&hash_scheme=vllm"
        return client.post(target, array("I", tokens).tobytes(), "application/x-u32le")

    def read(self, answer: bytes) -> dict[int, int]:
        scores = json.loads(answer)["replica_scores"]
        return {int(one["replica_id"][1:]): one["matched_tokens"] // history.BLOCK for one in scores}


class Rig(lab.Lab):
    """A lab whose engines are the feed's sockets."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)

    async def start_python(self, name: str, words: list[str]) -> lab.Process:
        return await self._spawn(name, words)

    async def start_feed(self, words: list[str]) -> asyncio.subprocess.Process:
        """feed.py, which is told what to do on its standard input."""
        log = self.directory / "logs" / "feed.log"
        with log.open("ab") as out:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.bench.peers.feed",
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=out,
            )
        self.processes["feed"] = lab.Process("feed", child, log)
        return child

    def _flags(self) -> list[str]:
        return [
            f"--server={self.nats_url}",
            f"--nats-token-file={self.directory / 'token'}",
            f"--tenant-id={TENANT}",
            f"--model-id={MODEL}",
            "--engine-metrics-url=",
        ]

    async def start_source(self, name: str, port: int) -> lab.Process:
        words = [f"--replica-id={name}", f"--engine-endpoint=tcp://127.0.0.1:{port}", *self._flags()]
        return await self._spawn(name, ["-m", "warmlog", "subscriber", *words])

    async def start_sources(self, named: list[tuple[str, int]]) -> lab.Process:
        each = [f"{name}={port}" for name, port in named]
        return await self._spawn(
            f"sources-{named[0][0]}", ["-m", "tests.bench.peers.fleet", *each, "--", *self._flags()]
        )

    async def listening(self, port: int, process: lab.Process | None = None) -> None:
        async def check() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return False
            writer.close()
            return True

        await self.until(check, what=f"port {port}", process=process, within=_PATIENCE)
