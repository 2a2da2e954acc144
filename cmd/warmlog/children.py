"""Child processes of a laptop with their log files, and the loopback ports that they get.

They are ended by their own pid, in order (SIGTERM, then SIGKILL) or as a crash would (SIGKILL).
"""

import asyncio
import collections
import contextlib
import random
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 20.0  # seconds for a process to become ready


class LabError(Exception):
    """One line: which process, what it said last."""


async def together(*work: Coroutine[Any, Any, object]) -> None:
    """All at once. The first that fails cancels the others, and its error is the one that is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for one in work:
                tasks.create_task(one)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group


class Process:
    """A child process with its log file."""

    def __init__(self, name: str, child: asyncio.subprocess.Process, log: Path) -> None:
        self.name, self.child, self.log = name, child, log
        self.patience = 6.0  # seconds from SIGTERM to SIGKILL

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def running(self) -> bool:
        return self.child.returncode is None

    def abandon(self) -> None:
        """Nobody will wait for it any more: it must not outlive us."""
        if self.running:
            self.child.kill()

    async def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.running:
            self.child.kill()
        await self.child.wait()

    async def stop(self) -> int:
        """SIGTERM, and SIGKILL when that is not enough. The exit status."""
        if self.running:
            self.child.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self.patience):
                    return await self.child.wait()
            except TimeoutError:
                self.child.kill()
        return await self.child.wait()

    async def first_line(self, patience: float) -> bytes:
        """What a program says when it is ready; empty when it ends before, or says nothing in time."""
        assert self.child.stdout is not None, "its standard output was not asked for"
        try:
            async with asyncio.timeout(patience):
                return await self.child.stdout.readline()
        except TimeoutError:
            return b""

    def last_words(self, lines: int = 4) -> str:
        try:
            return " | ".join(self.log.read_text(errors="replace").strip().splitlines()[-lines:]) or "(nothing)"
        except OSError:
            return "(no log)"


_CHANCE: Final = random.SystemRandom()
_given: Final = collections.deque[int](maxlen=4096)


def free_port() -> int:
    """A port of loopback that nobody listens on now, below the range that systems give to clients: between this answer
    and its use no outgoing connection takes it, nor does it come twice from one process. Whoever seeds `random` does
    not choose it."""
    while True:
        port = _CHANCE.randrange(20_000, 32_000)
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.append(port)
            return port
