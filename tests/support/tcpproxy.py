"""A TCP relay that a test can freeze, cut and close: what a server looks like that hangs, restarts or is away."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class Proxy:
    """`port` stays the same for ever. Made with the address of the real server."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.target, self.port = host, port, 0
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refused from now on; what was open breaks."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        self._flows.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def hang_up(self) -> None:
        """Whoever is connected now is told so in order, and has noticed when this returns: it connects anew."""
        for writer in list(self._clients):
            with contextlib.suppress(OSError):
                writer.write_eof()
        async with asyncio.timeout(5):
            while self._clients:
                await asyncio.sleep(0.005)

    def freeze(self) -> None:
        """Connections are taken and stay open, and nothing comes any more."""
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def only_new(self) -> None:
        """Connections of now stay frozen, new ones work: a half-dead network."""
        self._flows = asyncio.Event()
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flows = self._flows
        try:
            there, back = await asyncio.open_connection(self.host, self.target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        self._clients.add(writer)
        tasks = [
            asyncio.ensure_future(_copy(reader, back, flows)),
            asyncio.ensure_future(_copy(there, writer, flows)),
        ]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tasks.difference_update(tasks)
            self._clients.discard(writer)
            for one in (writer, back):
                self._open.discard(one)
                one.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            await flows.wait()
            writer.write(data)
            await writer.drain()
