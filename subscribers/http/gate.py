"""What may be connected to an aiohttp server: a number of connections, and a time until the first request.

aiohttp ends idle connections between requests, but waits for ever for the first one, and counts nothing. The admin
port takes posts from tenants' Pods, so a Pod that only connects must not use up the process's file descriptors, which
the lookup port shares.

Not here: the time for a body (admin.read_body), the lookup port (hotpath has its own limits).

Rules: design.md section 5 (work is bounded); spec/inferencecache.md section 1.1 (header timeout of 5 s).
"""

import asyncio
from typing import Final, cast

from aiohttp import web

from subscribers.http import replies

CONNECTIONS: Final = 512
FIRST_REQUEST_SECONDS: Final = 5.0


class _TurnedAway(asyncio.Protocol):
    """Tells a client to come back, and ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        client = cast(asyncio.Transport, transport)
        writer = replies.Writer()
        reply = replies.error(503, "too many connections; try again", extra=b"retry-after: 1\r\n")
        client.write(writer.render(reply, close=True, head_only=False))
        client.close()


class Gate:
    """A protocol factory in front of an aiohttp server. `start` and `stop` on the loop that serves."""

    def __init__(
        self, server: web.Server, *, connections: int = CONNECTIONS, seconds: float = FIRST_REQUEST_SECONDS
    ) -> None:
        self._server = server
        self._most = connections
        self._seconds = seconds
        self._silent: dict[web.RequestHandler, float] = {}  # since when; no request was seen on it yet
        self._timer: asyncio.TimerHandle | None = None

    def connect(self) -> asyncio.Protocol:
        if len(self._server.connections) >= self._most:
            return _TurnedAway()
        handler = self._server()
        self._silent[handler] = asyncio.get_running_loop().time()
        return handler

    def seen(self, handler: web.RequestHandler) -> None:
        """A whole head has arrived: from now on aiohttp's own timeouts hold."""
        self._silent.pop(handler, None)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        too_old = loop.time() - self._seconds
        for handler, since in list(self._silent.items()):
            if since <= too_old:
                del self._silent[handler]
                handler.force_close()
        self._timer = loop.call_later(min(1.0, self._seconds / 4), self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
