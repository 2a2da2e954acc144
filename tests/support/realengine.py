"""An engine as far as its KV events go: the real publisher class of a release in a process of its own (enginehost.py).

    with realengine.running(release) as engine:
        ranks = engine.start(ranks=2)                   # its own factory, on free ports, wildcard addresses
        engine.publish(ranks.numbers[1], [(1.5, [("BlockRemoved", {"block_hashes": [7]})])])

Excluded: the scheduler that decides what is published. A test supplies the events, as the engine's own objects.
"""

import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import enginefiles

PATIENCE = 20.0  # seconds for one command; the first one waits for the imports
APART = 40  # ports between events and replay


Batch = tuple[float, list[tuple[str, dict[str, Any]]]]  # its time, and classes of events with their arguments


class HostError(Exception):
    """What the engine's process said."""


class Ranks(NamedTuple):
    """Running publishers, by rank, and what an operator would have configured for all of them."""

    numbers: tuple[int, ...]
    events: str
    replay: str


class Engine:
    def __init__(
        self, release: enginefiles.Release, connection: Connection, process: "subprocess.Popen[bytes]"
    ) -> None:
        self.release = release
        self._connection = connection
        self._process = process

    def ask(self, command: str, *arguments: Any) -> Any:
        self._connection.send((command, *arguments))
        return self.answer()

    def answer(self) -> Any:
        if not self._connection.poll(PATIENCE):
            raise HostError(f"no answer within {PATIENCE:g} s")
        fine, value = self._connection.recv()
        if not fine:
            raise HostError(value)
        return value

    def fields(self, name: str) -> tuple[str, ...] | None:
        return self.ask("fields", name)  # type: ignore[no-any-return]

    def start(self, *, ranks: int = 1, host: str = "*", at: Ranks | None = None, **settings: Any) -> Ranks:
        """Publishers of ranks from 0 on. Ports are free ones unless `at` names those of an earlier life."""
        for _ in range(20):
            base = free_run(APART + ranks)
            where = at or Ranks((), f"tcp://{host}:{base}", f"tcp://{host}:{base + APART}")
            said = {"endpoint": where.events, "replay_endpoint": where.replay, **settings}
            try:
                return where._replace(numbers=tuple(self.ask("start", rank, said) for rank in range(ranks)))
            except HostError as error:
                if "Address already in use" not in str(error):
                    raise
        raise HostError("no free ports in 20 attempts")

    def publish(self, number: int, batches: list[Batch]) -> None:
        """Back when they were sent."""
        self.ask("publish", number, batches)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._connection.close()


def launch(release: enginefiles.Release) -> Engine:
    """Start the process. The first `answer` comes when it is ready; the caller kills it."""
    root = enginefiles.require(release)
    script = str(Path(__file__).with_name("enginehost.py"))
    ours, theirs = socket.socketpair()
    with theirs:
        descriptor = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, script, str(root), release.engine, str(descriptor)], pass_fds=[descriptor]
        )
    return Engine(release, Connection(ours.detach()), process)


@contextlib.contextmanager
def running(release: enginefiles.Release) -> Iterator[Engine]:
    """The process, ready; killed in the end whatever happens."""
    engine = launch(release)
    try:
        engine.answer()
        yield engine
    finally:
        engine.kill()


def free_run(count: int) -> int:
    """The first of a run of ports that were free a moment ago."""
    while True:
        base = random.randrange(20_000, 32_000 - count)  # below the range that systems give to clients
        with contextlib.ExitStack() as held:
            try:
                for port in (base, base + count - 1):
                    held.enter_context(socket.socket()).bind(("", port))
            except OSError:
                continue
            return base
