"""healthz, readyz and metrics of roles that answer nothing else."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from aiohttp import web

from warmlog import cli


class Readiness(msgspec.Struct, frozen=True):
    ready: bool
    reasons: list[str]
    notes: list[str]


@contextlib.asynccontextmanager
async def serving(
    address: tuple[str, int], readiness: Callable[[], Readiness], *, metrics: Callable[[], bytes] = lambda: b""
) -> AsyncIterator[int]:
    """The port. Raises Failure when it is taken."""

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        found = readiness()
        return web.Response(
            body=msgspec.json.encode(found), status=200 if found.ready else 503, content_type="application/json"
        )

    async def get_metrics(request: web.Request) -> web.Response:
        return web.Response(body=metrics(), content_type="text/plain")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", get_metrics)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, *address)
        try:
            await site.start()
        except OSError as error:
            raise cli.Failure(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}", cli.REFUSED) from error
        sockets: Any = site._server
        yield int(sockets.sockets[0].getsockname()[1])
    finally:
        await runner.cleanup()
