"""Processes of a laptop: nats-server, simulated engines, a subscriber beside each, a server. Used by `dev` and `demo`.

Each is a process of its own on free loopback ports and writes to <dir>/logs/<name>.log; a process that ends before it
was ready is one error with the last lines of its log. Everything is stopped by pid, in the reverse order of starting.
Not here: what is done with them; Kubernetes and the roles that need it (labkube).
"""

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from warmlog import leash, natsserver
from warmlog.children import PATIENCE, LabError, Process, free_port

__all__ = ["ENGINES", "MODEL", "TENANT", "EngineSpec", "Lab", "LabError", "Process", "free_port"]

MODEL: Final = "demo-model"
TENANT: Final = "team-a"
#: What streams may hold; every role that may make them is told the same.
ROOM: Final = ("--log-max-bytes=256Mi", "--kv-max-bytes=512Mi")


class EngineSpec(msgspec.Struct, frozen=True):
    """One simulated engine. `scheme` is the hash scheme that its replica is registered under."""

    name: str
    form: str
    scheme: str
    block_size: int
    replay: bool
    capacity: int  # blocks


#: The demo's three: newest wire form; an older array form, no replay socket, other block size; SGLang with small pages.
ENGINES: Final = (
    EngineSpec("engine-a", "vllm-0.33", "vllm", 16, True, 320),
    EngineSpec("engine-b", "vllm-0.13", "vllm", 32, False, 160),
    EngineSpec("engine-c", "sglang-0.5.22", "vllm", 4, True, 1280),
)


def python(module: str, *words: str) -> list[str]:
    """The command line of a module of ours."""
    return [sys.executable, "-m", module, *words]


class EngineAddress(msgspec.Struct, frozen=True):
    """What an engine prints when it is ready."""

    http: str
    events: str
    replay: str | None


class ServerAddress(msgspec.Struct, frozen=True):
    """Where one server listens, as http://host:port."""

    lookup: str
    admin: str


class Lab:
    """Starts and stops the processes. Use as `async with Lab(directory) as lab`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.token = secrets.token_urlsafe(24)
        self.processes: dict[str, Process] = {}
        self.nats: natsserver.NatsServer | None = None
        self.engines: dict[str, EngineAddress] = {}
        self.replicas: dict[str, str] = {}  # engine -> the Pod that it stands for; its own name where there is none
        self.summary_interval = "30s"
        self.lookup = self.admin = ""  # of the server that is called "server"
        self.servers: dict[str, ServerAddress] = {}
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Lab":
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        return self

    async def __aexit__(self, *ending: object) -> None:
        try:
            for process in reversed(self.processes.values()):
                await process.stop()
            if self.nats is not None:
                await self.nats.stop()
        finally:
            for process in self.processes.values():  # one that a cancellation has left
                process.abandon()
            if self._http is not None:
                await self._http.close()

    @property
    def http(self) -> aiohttp.ClientSession:
        assert self._http is not None, "enter the lab first"
        return self._http

    @property
    def nats_url(self) -> str:
        assert self.nats is not None, "start nats first"
        return self.nats.url

    async def start_nats(self, port: int = 0) -> None:
        self.nats = await natsserver.start(self.directory / "nats", port=port, token=self.token)
        token = self.directory / "token"
        token.touch(mode=0o600)
        token.write_text(self.token)

    async def restart_nats(self) -> None:
        """The same server again, on the same port and store."""
        assert self.nats is not None, "start nats first"
        self.nats = await natsserver.start(self.directory / "nats", port=self.nats.port, token=self.token)

    async def start_engine(self, spec: EngineSpec) -> EngineAddress:
        """Start, or start again under the same name and ports (a new life with an empty cache)."""
        before = self.engines.get(spec.name)
        replay = "tcp://127.0.0.1:0" if spec.replay else "none"
        words = [
            f"--form={spec.form}",
            f"--model={MODEL}",
            f"--block-size={spec.block_size}",
            f"--capacity-blocks={spec.capacity}",
            f"--events={before.events if before else 'tcp://127.0.0.1:0'}",
            f"--replay={before.replay or 'none' if before else replay}",
            f"--http={before.http.removeprefix('http://') if before else '127.0.0.1:0'}",
        ]
        process = await self._spawn(spec.name, ["-m", "enginesim.cli", *words], read_stdout=True)
        try:
            address = msgspec.json.decode(await process.first_line(PATIENCE), type=EngineAddress)
        except msgspec.MsgspecError as error:
            raise LabError(f"{spec.name} did not start: {process.last_words()}") from error
        self.engines[spec.name] = address
        return address

    async def start_subscriber(self, spec: EngineSpec) -> Process:
        address = self.engines[spec.name]
        words = [
            f"--engine-endpoint={address.events}",
            f"--replay-endpoint={address.replay or ''}",
            f"--engine-metrics-url={address.http}/metrics",
            f"--replica-id={self.replicas.get(spec.name, spec.name)}",
            f"--tenant-id={TENANT}",
            f"--model-id={MODEL}",
            f"--hash-scheme={spec.scheme}",
            "--stats-interval=2s",
            f"--server={self.nats_url}",
            f"--nats-token-file={self.directory / 'token'}",
            f"--journal-dir={self.directory / 'journal' / spec.name}",
        ]
        return await self._spawn(f"subscriber-{spec.name}", ["-m", "warmlog", "subscriber", *words])

    async def start_server(
        self, *, name: str = "server", lookup_port: int = 0, admin_port: int = 0, policies: str = ""
    ) -> Process:
        """Start one, until it is ready. Each name is a server of its own on the same log."""
        lookup, admin = lookup_port or free_port(), admin_port or free_port()
        address = ServerAddress(f"http://127.0.0.1:{lookup}", f"http://127.0.0.1:{admin}")
        self.servers[name] = address
        if name == "server":
            self.lookup, self.admin = address.lookup, address.admin
        words = [
            f"--nats={self.nats_url}",
            f"--nats-token-file={self.directory / 'token'}",
            f"--http-bind-address=127.0.0.1:{lookup}",
            f"--snapshot-bind-address=127.0.0.1:{admin}",
            "--insecure-disable-auth",
            f"--instance={name}",
            "--moment-interval=1s",
            f"--summary-interval={self.summary_interval}",
            *ROOM,
            *([f"--policies={policies}"] if policies else []),
        ]
        process = await self._spawn(name, ["-m", "warmlog", "server", *words])
        await self.until(lambda: self.ready(name), what=f"{name} to be ready", process=process)
        return process

    async def ready(self, name: str = "server") -> bool:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self.http.get(f"{self.servers[name].lookup}/readyz") as answer:
                return answer.status == 200
        return False

    async def get(self, url: str) -> Any:
        return msgspec.json.decode(await self._fetch("GET", url, None))

    async def post(self, url: str, body: Any) -> Any:
        return msgspec.json.decode(await self._fetch("POST", url, msgspec.json.encode(body)))

    async def _fetch(self, method: str, url: str, body: bytes | None) -> bytes:
        """The body of a 200. Raises LabError for anything else."""
        headers = {"content-type": "application/json"} if body is not None else {}
        try:
            async with self.http.request(method, url, data=body, headers=headers) as answer:
                raw = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            ended = [one for one in self.processes.values() if not one.running]
            words = "; ".join(f"{one.name} ended: {one.last_words(1)}" for one in ended)
            raise LabError(f"{url} does not answer ({error or type(error).__name__}); {words}") from error
        if answer.status != 200:
            raise LabError(f"{url} answered {answer.status}: {raw.decode(errors='replace').strip()}")
        return raw

    async def until(
        self,
        check: Callable[[], Awaitable[bool]],
        *,
        what: str,
        process: Process | None = None,
        within: float = PATIENCE,
    ) -> float:
        """Poll until `check` holds; the seconds it took. Raises LabError with the process's last words."""
        started = time.monotonic()
        while not await check():
            waited = time.monotonic() - started
            if process is not None and not process.running:
                raise LabError(f"{process.name} ended with {process.child.returncode}: {process.last_words()}")
            if waited > within:
                words = f": {process.last_words()}" if process else ""
                raise LabError(f"waited {waited:.0f} s for {what}, in vain{words}")
            await asyncio.sleep(0.02)
        return time.monotonic() - started

    async def _spawn(self, name: str, words: list[str], *, read_stdout: bool = False) -> Process:
        return await self.spawn(name, [sys.executable, *words], read_stdout=read_stdout)

    async def spawn(self, name: str, words: Sequence[str], *, read_stdout: bool = False) -> Process:
        """Start a program. Its output goes to its log; with `read_stdout` only its errors do."""
        log = self.directory / "logs" / f"{name}.log"
        with log.open("ab") as out:
            child = await asyncio.create_subprocess_exec(
                *leash.words(words),
                stdout=asyncio.subprocess.PIPE if read_stdout else out,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the others in order
            )
        process = Process(name, child, log)
        self.processes.pop(name, None)
        self.processes[name] = process
        return process
