"""The lab of the fault harness: real processes on loopback, and how to tell that they are healthy.

Beside what warmlog.lab starts: engines with a small replay ring, streams of few bytes, nats-server's store and the
journals on tmpfs of a few MiB (as root only), a subscriber that speaks through the intake, journals per claimant. And
how health is told, as oracle.py defines it. Not here: the faults (suffering.py).
"""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from eventstore import store, streams
from eventstore.jetstream import api, connect
from tests.faults import oracle, schedule, timeline
from warmlog import lab

PATIENCE = 30.0
SMALL_RING = 6
NATS_DISK = 48  # MiB
JOURNAL_DISK = 4  # MiB
_MIB = 1 << 20

#: With and without a replay socket, with a ring that wraps within a second of load; three block sizes, four wire forms.
ENGINES = (
    lab.EngineSpec("engine-a", "vllm-0.33", "vllm", 16, True, 160),
    lab.EngineSpec("engine-b", "vllm-0.13", "vllm", 32, False, 80),
    lab.EngineSpec("engine-c", "sglang-0.5.22", "vllm", 4, True, 640),
    lab.EngineSpec("engine-d", "vllm-0.24", "vllm", 16, True, 160),
)
RINGS = {"engine-d": SMALL_RING}
INTAKE = "engine-c"  # its subscriber has no NATS credential and speaks through the server's intake


def mounts() -> bool:
    """Whether this process may mount a tmpfs (a container's root often may not)."""
    if os.geteuid() != 0:
        return False
    probe = Path(tempfile.mkdtemp(prefix="warmlog-mount-"))
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(probe)], capture_output=True)
        if done.returncode == 0:
            subprocess.run(["umount", str(probe)], check=True)
        return done.returncode == 0
    except OSError:
        return False
    finally:
        probe.rmdir()


def low_port() -> int:
    """A free port below those that the system gives to clients: such a one could take it while its owner is dead."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class House(lab.Lab):
    """Use as `async with House(directory, trait) as house`; `open` starts everything."""

    def __init__(self, directory: Path, trait: schedule.Trait) -> None:
        super().__init__(directory)
        self.trait = trait
        self.parts = oracle.Parts()
        self.engine_of = {
            spec.name: timeline.Engine(
                spec.name,
                capacity=spec.capacity,
                block_size=spec.block_size,
                replay=spec.replay,
                ring=RINGS.get(spec.name, 10_000),
            )
            for spec in ENGINES
        }
        self.spec_of = {spec.name: spec for spec in ENGINES}
        self.log_bytes = 4 * _MIB
        self.excused: set[str] = set()  # replicas that may be partial
        self.full = False  # WARMLOG is known to be full
        self._extra: dict[str, list[str]] = {}
        self.journals: dict[str, int] = {}
        self.gate = asyncio.Lock()  # the server's flags and the streams change together
        self._mounted: list[Path] = []
        self.rivals: list[lab.Process] = []
        self.driver: connect.Connection | None = None

    async def __aexit__(self, *ending: object) -> None:
        if self.driver is not None:
            await self.driver.close()
        for process in [*self.rivals, *self.processes.values()]:
            if process.running:
                process.child.send_signal(signal.SIGCONT)
        if self.nats is not None and self.nats.running:
            self.nats.resume()
        for process in self.rivals:
            await process.kill()
        try:
            await super().__aexit__(*ending)
        finally:
            for mounted in self._mounted:
                subprocess.run(["umount", "--lazy", str(mounted)], check=False)

    async def open(self) -> None:
        if self.trait.small_disk:
            self._mount(self.directory / "nats", NATS_DISK)
            self._mount(self.directory / "journal", JOURNAL_DISK)
        await self.start_nats(low_port())
        await self.start_server(lookup_port=low_port(), admin_port=low_port())
        for spec in ENGINES:
            self._extra[spec.name] = [f"--buffer-steps={RINGS.get(spec.name, 10_000)}"]
            http, events, replay = (f"127.0.0.1:{low_port()}" for _ in range(3))
            self.engines[spec.name] = lab.EngineAddress(
                f"http://{http}", f"tcp://{events}", f"tcp://{replay}" if spec.replay else None
            )
            await self.start_engine(spec)
            self.engine_of[spec.name].begins(time.monotonic())
            await self.start_subscriber(spec)
        await self.until(self._all_known, what="every replica to be known", within=PATIENCE)
        options = connect.Options(name="driver", token=self.token, inbox_prefix="_INBOX_driver")
        self.driver = await connect.connect(self.nats_url, options, wait=10)

    def _mount(self, where: Path, size: int) -> None:
        where.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=700", "tmpfs", str(where)], check=True)
        self._mounted.append(where)

    async def _spawn(self, name: str, words: list[str], *, read_stdout: bool = False) -> lab.Process:
        extra = list(self._extra.get(name, ()))
        if name == "server":
            extra = [f"--log-max-bytes={self.log_bytes}", f"--kv-max-bytes={self.trait.kv_max_bytes}"]
        if (number := self.journals.get(name, 0)) and name.startswith("subscriber-"):
            extra = [f"--journal-dir={self.directory / 'journal' / f'{name}-{number}'}"]
        if name == f"subscriber-{INTAKE}":
            extra += [f"--server={self.admin}", "--nats-token-file="]
        return await super()._spawn(name, [*words, *extra], read_stdout=read_stdout)

    async def _all_known(self) -> bool:
        for process in self.processes.values():
            if not process.running:
                raise lab.LabError(f"{process.name} ended with {process.child.returncode}: {process.last_words()}")
        found = await self.get(f"{self.admin}/snapshot")
        states = {row["replicaId"]: row["state"] for row in found["replicas"]}
        return all(states.get(spec.name) in ("complete", "partial") for spec in ENGINES)

    # Health -----------------------------------------------------------------------------------------------------------

    async def nats_answers(self) -> None:
        """Until a fresh connection is answered STREAM.INFO of both streams."""
        until = time.monotonic() + PATIENCE
        options = connect.Options(name="probe", token=self.token, inbox_prefix="_INBOX_probe")
        while True:
            with contextlib.suppress(store.StoreError):
                async with await connect.connect(self.nats_url, options, wait=1) as fresh:
                    found = [await api.stream_info(fresh, name) for name in (streams.CONTROL_LOG, streams.KV_LOG)]
                    if all(found):
                        return
            if time.monotonic() > until:
                raise lab.LabError(f"nats-server does not answer after {PATIENCE:g} s")
            await asyncio.sleep(0.02)

    async def begun(self, replica: str, mark: int) -> None:
        """Until the subscriber's log says, after byte `mark`, that it begins a session."""
        process = self.processes[f"subscriber-{replica}"]

        async def says() -> bool:
            with process.log.open("rb") as file:
                file.seek(mark)
                return b"a session begins" in file.read()

        await self.until(says, what=f"the subscriber of {replica} to begin", process=process, within=PATIENCE)

    def mark(self, replica: str) -> int:
        log = self.directory / "logs" / f"subscriber-{replica}.log"
        return log.stat().st_size if log.exists() else 0
