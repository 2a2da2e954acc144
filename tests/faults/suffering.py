"""What can be done to the processes of a lab, and how each is brought back.

Every fault marks its parts as disturbed before it acts, and as healthy when the definition in oracle.py says so; a
fault returns when its parts are healthy. What cannot be brought back in time is a LabError: that too is a failed round.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from eventstore import store, streams
from eventstore.jetstream import provision
from tests.faults import house, schedule
from warmlog import lab

_MIB = 1 << 20


class Faults:
    """The faults of one lab."""

    def __init__(self, where: house.House) -> None:
        self.house = where

    async def suffer(self, fault: schedule.Fault) -> None:
        """One fault from its beginning until its part is healthy again."""
        for part in schedule.touched(fault.kind, fault.replica):
            if part.startswith(("subscriber", "engine")) and not self.house.engine_of[fault.replica].exact:
                self.house.excused.add(fault.replica)
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
        assert self.house.nats is not None
        down = self.house.parts.disturb("nats", time.monotonic())
        await self.house.nats.kill()
        await asyncio.sleep(hold)
        await self.house.restart_nats()
        await self.house.nats_answers()
        down.until = time.monotonic()

    async def _stop_nats(self, hold: float) -> None:
        assert self.house.nats is not None
        down = self.house.parts.disturb("nats", time.monotonic())
        self.house.nats.suspend()
        try:
            await asyncio.sleep(hold)
        finally:
            self.house.nats.resume()
        await self.house.nats_answers()
        down.until = time.monotonic()

    async def _kill_server(self, hold: float) -> None:
        down = self.house.parts.disturb("server", time.monotonic())
        await self.house.processes["server"].kill()
        await asyncio.sleep(hold)
        ports = [int(url.rpartition(":")[2]) for url in (self.house.lookup, self.house.admin)]
        async with self.house.gate:
            await self.house.start_server(lookup_port=ports[0], admin_port=ports[1])
        down.until = time.monotonic()

    async def _server_flaps(self, hold: float) -> None:
        """Killed, and killed again `hold` seconds after each of two starts, ready or not."""
        down = self.house.parts.disturb("server", time.monotonic())
        ports = [int(url.rpartition(":")[2]) for url in (self.house.lookup, self.house.admin)]
        for _ in range(2):
            await self.house.processes["server"].kill()
            async with self.house.gate:
                start = asyncio.ensure_future(self.house.start_server(lookup_port=ports[0], admin_port=ports[1]))
                await asyncio.wait({start}, timeout=hold)
                start.cancel()
                await asyncio.gather(start, return_exceptions=True)
        await self.house.processes["server"].kill()
        async with self.house.gate:
            await self.house.start_server(lookup_port=ports[0], admin_port=ports[1])
        down.until = time.monotonic()

    async def _subscriber_flaps(self, fault: schedule.Fault) -> None:
        """Killed, and killed again `hold` seconds after each of two starts."""
        down = self.house.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        for _ in range(2):
            await self.house.processes[f"subscriber-{fault.replica}"].kill()
            await self.house.start_subscriber(self.house.spec_of[fault.replica])
            await asyncio.sleep(fault.hold)
        await self.house.processes[f"subscriber-{fault.replica}"].kill()
        await self._subscriber_again(fault.replica)
        down.until = time.monotonic()

    async def _engine_flaps(self, fault: schedule.Fault) -> None:
        """Killed, and killed again `hold` seconds after each of two starts; it serves as soon as it is up."""
        engine = self.house.engine_of[fault.replica]
        down = self.house.parts.disturb(f"engine {fault.replica}", time.monotonic())
        for again in range(3):
            engine.ends(time.monotonic())
            await self.house.processes[fault.replica].kill()
            await self.house.start_engine(self.house.spec_of[fault.replica])
            engine.begins(time.monotonic())
            if again < 2:
                await asyncio.sleep(fault.hold)
        down.until = time.monotonic()

    async def _kill_pod(self, fault: schedule.Fault) -> None:
        """Engine and subscriber together, twice. The second time the engine is serving for `hold` seconds before its
        subscriber is back: by then it has counted its batches up to where the journal stands, in another life."""
        engine, name = self.house.engine_of[fault.replica], f"subscriber-{fault.replica}"
        downs = [
            self.house.parts.disturb(part, time.monotonic()) for part in schedule.touched(fault.kind, fault.replica)
        ]
        for again in (False, True):
            engine.ends(time.monotonic())
            await asyncio.gather(self.house.processes[fault.replica].kill(), self.house.processes[name].kill())
            await self.house.start_engine(self.house.spec_of[fault.replica])
            engine.begins(time.monotonic())
            if again:
                await asyncio.sleep(fault.hold)
            await self._subscriber_again(fault.replica)
        for down in downs:
            down.until = time.monotonic()

    async def _torn_journal(self, fault: schedule.Fault) -> None:
        """The subscriber is killed and its journal loses a part of its end, as after a power loss."""
        name = f"subscriber-{fault.replica}"
        down = self.house.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        await self.house.processes[name].kill()
        for file in self._journal(name, fault.replica).glob("*.journal"):
            os.truncate(file, int(file.stat().st_size * (1 - fault.hold**3)))
        await asyncio.sleep(fault.hold)
        await self._subscriber_again(fault.replica)
        down.until = time.monotonic()

    def _journal(self, name: str, replica: str) -> Path:
        number = self.house.journals.get(name, 0)
        return self.house.directory / "journal" / (f"{name}-{number}" if number else replica)

    async def _lost_end(self, hold: float) -> None:
        """WARMLOG_KV loses what was stored in the last `hold` seconds, as after a power loss or a restore."""
        assert self.house.nats is not None
        stored = self.house.directory / "nats" / "jetstream" / "jetstream" / "$G" / "streams" / streams.KV_LOG
        backup = self.house.directory / "backup"
        down = self.house.parts.disturb("nats", time.monotonic())
        self.house.nats.suspend()
        try:
            shutil.copytree(stored, backup)
        finally:
            self.house.nats.resume()
        await asyncio.sleep(hold)
        await self.house.nats.kill()
        shutil.rmtree(stored)
        shutil.move(backup, stored)
        await self.house.restart_nats()
        await self.house.nats_answers()
        down.until = time.monotonic()

    async def _stop(self, part: str, process: str, hold: float) -> None:
        """SIGSTOP, then SIGCONT."""
        down = self.house.parts.disturb(part, time.monotonic())
        child = self.house.processes[process].child
        child.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(hold)
        finally:
            child.send_signal(signal.SIGCONT)
        if part == "server":
            await self.house.until(self.house.ready, what="the server to be ready", within=house.PATIENCE)
        down.until = time.monotonic()

    async def _kill_subscriber(self, fault: schedule.Fault) -> None:
        down = self.house.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        await self.house.processes[f"subscriber-{fault.replica}"].kill()
        await asyncio.sleep(fault.hold)
        await self._subscriber_again(fault.replica)
        down.until = time.monotonic()

    async def _subscriber_again(self, replica: str) -> None:
        mark = self.house.mark(replica)
        await self.house.start_subscriber(self.house.spec_of[replica])
        await self.house.begun(replica, mark)

    async def _two_subscribers(self, fault: schedule.Fault, *, asleep: bool) -> None:
        """A second one claims the replica, with a journal of its own. One of them must end by itself with code 4: the
        first, unless its engine began another life meanwhile, of which it then told last."""
        name = f"subscriber-{fault.replica}"
        first, number = self.house.processes[name], self.house.journals.get(name, 0)
        down = self.house.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        if asleep:
            first.child.send_signal(signal.SIGSTOP)
        self.house.rivals.append(first)
        try:
            await asyncio.sleep(fault.hold)
            self.house.journals[name] = number + 1
            await self._subscriber_again(fault.replica)
        finally:
            if asleep:
                first.child.send_signal(signal.SIGCONT)
        down.until = time.monotonic()
        second = self.house.processes[name]
        waiting = [asyncio.ensure_future(one.child.wait()) for one in (first, second)]
        await asyncio.wait(waiting, timeout=house.PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if first.running and second.running:
            raise lab.LabError(f"two subscribers of {fault.replica} still speak")
        ended = second if first.running else first
        if ended.child.returncode != 4:
            raise lab.LabError(f"a subscriber of {fault.replica} ended: {ended.child.returncode}, {ended.last_words()}")
        if ended is second:
            self.house.processes[name], self.house.journals[name] = first, number
        self.house.rivals.remove(first)

    async def _kill_engine(self, fault: schedule.Fault) -> None:
        engine = self.house.engine_of[fault.replica]
        down = self.house.parts.disturb(f"engine {fault.replica}", time.monotonic())
        engine.ends(time.monotonic())
        await self.house.processes[fault.replica].kill()
        await asyncio.sleep(fault.hold)
        await self.house.start_engine(self.house.spec_of[fault.replica])
        down.until = time.monotonic()
        engine.begins(down.until)

    async def _full_log(self, hold: float) -> None:
        """WARMLOG has no room left until an operator gives it some. Nothing of the main job may notice."""
        assert self.house.driver is not None
        self.house.full = True
        try:
            await asyncio.sleep(hold)
        finally:
            async with self.house.gate:
                self.house.log_bytes += 4 * _MIB
                until = time.monotonic() + house.PATIENCE
                while True:
                    try:
                        wanted = streams.control_log(max_bytes=self.house.log_bytes)
                        await provision.provision(self.house.driver, wanted, create=False, change=True)
                        break
                    except store.Unavailable:
                        if time.monotonic() > until:
                            raise
                        await asyncio.sleep(0.1)
            self.house.full = False

    async def _full_disk(self, hold: float) -> None:
        """nats-server's disk is full; an operator makes room and starts it again."""
        assert self.house.nats is not None
        down = self.house.parts.disturb("nats", time.monotonic())
        with _ballast(self.house.directory / "nats" / "ballast"):
            await asyncio.sleep(hold)
        await self.house.nats.kill()
        await self.house.restart_nats()
        await self.house.nats_answers()
        down.until = time.monotonic()

    async def _full_journal(self, fault: schedule.Fault) -> None:
        """The journals' disk is full while a subscriber is killed and started again."""
        down = self.house.parts.disturb(f"subscriber {fault.replica}", time.monotonic())
        with _ballast(self.house.directory / "journal" / "ballast"):
            await asyncio.sleep(fault.hold)
            await self.house.processes[f"subscriber-{fault.replica}"].kill()
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
