"""The lab of the fault harness: real processes on loopback, and what can be done to each of them.

Beside what warmlog.lab starts: engines with a small replay ring, streams of few bytes, nats-server's store and the
journals on tmpfs of a few MiB (as root only), a second subscriber for one replica. Every fault marks its part as
disturbed before it acts and as healthy when the definition in oracle.py says so.

What a fault cannot bring back within PATIENCE is a LabError: that too is a failed round.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from eventstore import store, streams
from eventstore.jetstream import api, connect, provision
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
        self._journals: dict[str, int] = {}
        self._gate = asyncio.Lock()  # the server's flags and the streams change together
        self._mounted: list[Path] = []
        self._rivals: list[lab.Process] = []
        self.driver: connect.Connection | None = None

    async def __aexit__(self, *ending: object) -> None:
        if self.driver is not None:
            await self.driver.close()
        for process in [*self._rivals, *self.processes.values()]:
            if process.running:
                process.child.send_signal(signal.SIGCONT)
        if self.nats is not None and self.nats.running:
            self.nats.resume()
        for process in self._rivals:
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
        await self.start_nats()
        await self.start_server()
        for spec in ENGINES:
            self._extra[spec.name] = [f"--buffer-steps={RINGS.get(spec.name, 10_000)}"]
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
        if (number := self._journals.get(name, 0)) and name.startswith("subscriber-"):
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

    # Faults -----------------------------------------------------------------------------------------------------------

    async def suffer(self, fault: schedule.Fault) -> None:
        """One fault from its beginning until its part is healthy again."""
        for part in schedule.touched(fault.kind, fault.replica):
            if part.startswith(("subscriber", "engine")) and not self.engine_of[fault.replica].exact:
                self.excused.add(fault.replica)
        match fault.kind:
            case "kill nats":
                await self._kill_nats(fault.hold)
            case "stop nats":
                await self._stop_nats(fault.hold)
            case "kill server":
                await self._kill_server(fault.hold)
            case "server lags":
                await self._stop("server", "server", fault.hold)
            case "kill subscriber":
                await self._kill_subscriber(fault)
            case "stop subscriber":
                await self._stop(f"subscriber {fault.replica}", f"subscriber-{fault.replica}", fault.hold)
            case "two subscribers":
                await self._two_subscribers(fault, asleep=False)
            case "zombie subscriber":
                await self._two_subscribers(fault, asleep=True)
            case "kill engine" | "kill engine for long":
                await self._kill_engine(fault)
            case "stop engine":
                await self._stop(f"engine {fault.replica}", fault.replica, fault.hold)
            case "server flaps":
                await self._server_flaps(fault.hold)
            case "subscriber flaps":
                await self._subscriber_flaps(fault)
            case "engine flaps":
                await self._engine_flaps(fault)
            case "kill pod":
                await self._kill_pod(fault)
            case "torn journal":
                await self._torn_journal(fault)
            case "holds lose their end":
                await self._lost_end(fault.hold)
            case "full log":
                await self._full_log(fault.hold)
            case "full disk":
                await self._full_disk(fault.hold)
            case "full journal":
                await self._full_journal(fault)
            case _:
                raise AssertionError(fault.kind)

    async def _kill_nats(self, hold: float) -> None:
        assert self.nats is not None
        down = self.parts.disturb("nats", time.monotonic())
        await self.nats.kill()
        await asyncio.sleep(hold)
        await self.restart_nats()
        await self.nats_answers()
        down.until = time.monotonic()

    async def _stop_nats(self, hold: float) -> None:
        assert self.nats is not None
        down = self.parts.disturb("nats", time.monotonic())
        self.nats.suspend()
        try:
            await asyncio.sleep(hold)
        finally:
            self.nats.resume()
        await self.nats_answers()
        down.until = time.monotonic()

    async def _kill_server(self, hold: float) -> None:
        down = self.parts.disturb("server", time.monotonic())
        await self.processes["server"].kill()
        await asyncio.sleep(hold)
        ports = [int(url.rpartition(":")[2]) for url in (self.lookup, self.admin)]
        async with self._gate:
            await self.start_server(lookup_port=ports[0], admin_port=ports[1])
        down.until = time.monotonic()

    async def _server_flaps(self, hold: float) -> None:
        """Killed, and killed again `hold` seconds after each of two starts, ready or not."""
        down = self.parts.disturb("server", time.monotonic())
        ports = [int(url.rpartition(":")[2]) for url in (self.lookup, self.admin)]
        for _ in range(2):
            await self.processes["server"].kill()
            async with self._gate:
                start = asyncio.ensure_future(self.start_server(lookup_port=ports[0], admin_port=ports[1]))
                await asyncio.wait({start}, timeout=hold)
                start.cancel()
                await asyncio.gather(start, return_exceptions=True)
        await self.processes["server"].kill()
        async with self._gate:
            await self.start_server(lookup_port=ports[0], admin_port=ports[1])
        down.until = time.monotonic()

    async def _subscriber_flaps(self, fault: schedule.Fault) -> None:
        """Killed, and killed again `hold` seconds after each of two starts."""
        down = self.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        for _ in range(2):
            await self.processes[f"subscriber-{fault.replica}"].kill()
            await self.start_subscriber(self.spec_of[fault.replica])
            await asyncio.sleep(fault.hold)
        await self.processes[f"subscriber-{fault.replica}"].kill()
        await self._subscriber_again(fault.replica)
        down.until = time.monotonic()

    async def _engine_flaps(self, fault: schedule.Fault) -> None:
        """Killed, and killed again `hold` seconds after each of two starts; it serves as soon as it is up."""
        engine = self.engine_of[fault.replica]
        down = self.parts.disturb(f"engine {fault.replica}", time.monotonic())
        for again in range(3):
            engine.ends(time.monotonic())
            await self.processes[fault.replica].kill()
            await self.start_engine(self.spec_of[fault.replica])
            engine.begins(time.monotonic())
            if again < 2:
                await asyncio.sleep(fault.hold)
        down.until = time.monotonic()

    async def _kill_pod(self, fault: schedule.Fault) -> None:
        """Engine and subscriber together, twice. The second time the engine is serving for `hold` seconds before its
        subscriber is back: by then it has counted its batches up to where the journal stands, in another life."""
        engine, name = self.engine_of[fault.replica], f"subscriber-{fault.replica}"
        downs = [self.parts.disturb(part, time.monotonic()) for part in schedule.touched(fault.kind, fault.replica)]
        for again in (False, True):
            engine.ends(time.monotonic())
            await asyncio.gather(self.processes[fault.replica].kill(), self.processes[name].kill())
            await self.start_engine(self.spec_of[fault.replica])
            engine.begins(time.monotonic())
            if again:
                await asyncio.sleep(fault.hold)
            await self._subscriber_again(fault.replica)
        for down in downs:
            down.until = time.monotonic()

    async def _torn_journal(self, fault: schedule.Fault) -> None:
        """The subscriber is killed and its journal loses a part of its end, as after a power loss."""
        name = f"subscriber-{fault.replica}"
        down = self.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        await self.processes[name].kill()
        for file in self._journal(name, fault.replica).glob("*.journal"):
            os.truncate(file, int(file.stat().st_size * (1 - fault.hold**3)))
        await asyncio.sleep(fault.hold)
        await self._subscriber_again(fault.replica)
        down.until = time.monotonic()

    def _journal(self, name: str, replica: str) -> Path:
        number = self._journals.get(name, 0)
        return self.directory / "journal" / (f"{name}-{number}" if number else replica)

    async def _lost_end(self, hold: float) -> None:
        """WARMLOG_KV loses what was stored in the last `hold` seconds, as after a power loss or a restore."""
        assert self.nats is not None
        stored = self.directory / "nats" / "jetstream" / "jetstream" / "$G" / "streams" / streams.KV_LOG
        backup = self.directory / "backup"
        down = self.parts.disturb("nats", time.monotonic())
        self.nats.suspend()
        try:
            shutil.copytree(stored, backup)
        finally:
            self.nats.resume()
        await asyncio.sleep(hold)
        await self.nats.kill()
        shutil.rmtree(stored)
        shutil.move(backup, stored)
        await self.restart_nats()
        await self.nats_answers()
        down.until = time.monotonic()

    async def _stop(self, part: str, process: str, hold: float) -> None:
        """SIGSTOP, then SIGCONT."""
        down = self.parts.disturb(part, time.monotonic())
        child = self.processes[process].child
        child.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(hold)
        finally:
            child.send_signal(signal.SIGCONT)
        if part == "server":
            await self.until(self.ready, what="the server to be ready", within=PATIENCE)
        down.until = time.monotonic()

    async def _kill_subscriber(self, fault: schedule.Fault) -> None:
        down = self.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        await self.processes[f"subscriber-{fault.replica}"].kill()
        await asyncio.sleep(fault.hold)
        await self._subscriber_again(fault.replica)
        down.until = time.monotonic()

    async def _subscriber_again(self, replica: str) -> None:
        mark = self.mark(replica)
        await self.start_subscriber(self.spec_of[replica])
        await self.begun(replica, mark)

    async def _two_subscribers(self, fault: schedule.Fault, *, asleep: bool) -> None:
        """A second one claims the replica, with a journal of its own; the first must end by itself with code 4."""
        name = f"subscriber-{fault.replica}"
        first = self.processes[name]
        down = self.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        if asleep:
            first.child.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.hold)
            self._journals[name] = self._journals.get(name, 0) + 1
            self._rivals.append(first)
            await self._subscriber_again(fault.replica)
        finally:
            if asleep:
                first.child.send_signal(signal.SIGCONT)
        down.until = time.monotonic()
        try:
            code = await asyncio.wait_for(first.child.wait(), PATIENCE)
        except TimeoutError as error:
            raise lab.LabError(f"the older subscriber of {fault.replica} still speaks") from error
        if code != 4:
            raise lab.LabError(f"the older subscriber of {fault.replica} ended with {code}: {first.last_words()}")
        self._rivals.remove(first)

    async def _kill_engine(self, fault: schedule.Fault) -> None:
        engine = self.engine_of[fault.replica]
        down = self.parts.disturb(f"engine {fault.replica}", time.monotonic())
        engine.ends(time.monotonic())
        await self.processes[fault.replica].kill()
        await asyncio.sleep(fault.hold)
        await self.start_engine(self.spec_of[fault.replica])
        down.until = time.monotonic()
        engine.begins(down.until)

    async def _full_log(self, hold: float) -> None:
        """WARMLOG has no room left until an operator gives it some. Nothing of the main job may notice."""
        assert self.driver is not None
        self.full = True
        try:
            await asyncio.sleep(hold)
        finally:
            async with self._gate:
                self.log_bytes += 4 * _MIB
                until = time.monotonic() + PATIENCE
                while True:
                    try:
                        wanted = streams.control_log(max_bytes=self.log_bytes)
                        await provision.provision(self.driver, wanted, create=False, change=True)
                        break
                    except store.Unavailable:
                        if time.monotonic() > until:
                            raise
                        await asyncio.sleep(0.1)
            self.full = False

    async def _full_disk(self, hold: float) -> None:
        """nats-server's disk is full; an operator makes room and starts it again."""
        assert self.nats is not None
        down = self.parts.disturb("nats", time.monotonic())
        with _ballast(self.directory / "nats" / "ballast"):
            await asyncio.sleep(hold)
        await self.nats.kill()
        await self.restart_nats()
        await self.nats_answers()
        down.until = time.monotonic()

    async def _full_journal(self, fault: schedule.Fault) -> None:
        """The journals' disk is full while a subscriber is killed and started again."""
        down = self.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        with _ballast(self.directory / "journal" / "ballast"):
            await asyncio.sleep(fault.hold)
            await self.processes[f"subscriber-{fault.replica}"].kill()
            await self._subscriber_again(fault.replica)
        down.until = time.monotonic()


@contextlib.contextmanager
def _ballast(path: Path) -> Iterator[None]:
    """Fill the disk that `path` lies on, to its last byte; empty it afterwards."""
    with path.open("wb", buffering=0) as file:
        for size in (_MIB, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
    try:
        yield
    finally:
        path.unlink()
