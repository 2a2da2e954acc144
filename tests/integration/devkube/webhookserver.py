"""A webhook server behind real TLS on loopback, for tests of those who call it."""

import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from devkube import certificates

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A webhook server with an authority of its own; `seen` are the requests it got."""

    def __init__(self, directory: Path, handler: Handler, names: tuple[str, ...] = ()) -> None:
        issued = certificates.issue(names)
        files = certificates.write(issued, directory)
        self.bundle = base64.b64encode(issued.authority).decode()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(files.certificate, files.key)
        self._handler = handler
        self.seen: list[web.Request] = []
        self.connections: set[object] = set()
        self.port = 0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        self.connections.add(request.transport)
        return await self._handler(request)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        app = web.Application()
        app.router.add_post("/{rest:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._context)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    def client(self, path: str = "/mutate", **rest: str) -> dict[str, str]:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle, **rest}
