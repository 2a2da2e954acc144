"""The listener of port 8080: accepts, bounds and drains connections, and ends what takes too long.

One timer serves all connections: about once a second it compares their deadlines with the clock, so that a request
costs no timer of its own.

Not here: the protocol (connection), the paths (routes), the admin endpoints of port 8081 (admin).

When it fails: an address that cannot be listened on raises ListenError with one line; at the limit of connections
the one idle for longest gives way, and with none idle a newcomer gets 503.

Rules: design.md section 4; spec/performance.md section 8 (the HTTP layer decides a lookup's latency).
"""

import asyncio
import ssl
import time
from typing import Final

import structlog

from subscribers.http import connection, knownheads, replies, routes

log = structlog.get_logger(__name__)

_READ_BYTES: Final = 64 * 1024


class ListenError(RuntimeError):
    """The address cannot be listened on; one line for the operator."""


class Meter:
    """What the listener tells about itself. This one counts nothing; metrics.py has one that does."""

    def connections(self, now_open: int) -> None: ...

    def turned_away(self) -> None: ...

    def answered(self, path: bytes, code: int) -> None: ...


class Listener:
    """`start` once, `drain` once. Both on the loop that serves."""

    def __init__(
        self,
        request_routes: routes.Routes,
        *,
        limits: connection.Limits | None = None,
        meter: Meter | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self.routes = request_routes
        self.limits = limits or connection.Limits()
        self.writer = replies.Writer()
        self.writer.set_time(time.time())
        self.heads = knownheads.KnownHeads(min(self.limits.body, request_routes.body_limit))
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self.draining = False
        self.loop: asyncio.AbstractEventLoop
        meter = meter or Meter()
        self._meter = meter
        self.answered = meter.answered  # bound once: it is called per request
        self._connections: set[connection.Connection] = set()
        self._nobody_left = asyncio.Event()
        self._nobody_left.set()
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        seconds = (self.limits.head_seconds, self.limits.body_seconds, self.limits.idle_seconds)
        self._tick_seconds = min(1.0, *(second / 4 for second in seconds))

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which differs from the given one when that was 0. Raises ListenError."""
        self.attach(asyncio.get_running_loop())
        # A client that does not finish its handshake is no connection yet, and counted nowhere.
        patience = self.limits.head_seconds if self._tls is not None else None
        try:
            self._server = await self.loop.create_server(
                self.connect, host, port, backlog=1024, ssl=self._tls,
                ssl_handshake_timeout=patience, ssl_shutdown_timeout=patience,
            )  # fmt: skip
        except OSError as error:
            self.detach()
            raise ListenError(
                f"cannot listen on {host}:{port} ({error.strerror or error}); free it or choose another address"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep deadlines on this loop from now on; `start` does it."""
        self.loop = loop
        self._tick()

    def detach(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None

    def connect(self) -> connection.Connection:
        return connection.Connection(self)

    async def drain(self, *, grace: float = 5.0) -> None:
        """Accept no more, close idle connections, let the others finish within `grace` seconds, cut the rest off."""
        self.draining = True
        if self._server is not None:
            self._server.close()
        for client in tuple(self._connections):
            client.close_if_idle()
        try:
            async with asyncio.timeout(grace):
                await self._nobody_left.wait()
        except TimeoutError:
            log.warning("connections were cut off at the end of the drain", connections=len(self._connections))
            for client in tuple(self._connections):
                client.abort()
        finally:
            self.detach()

    # What connections call --------------------------------------------------------------------------------------------

    def admit(self, client: connection.Connection) -> bool:
        """Count a new connection in. False when it is to be turned away."""
        fits = len(self._connections) < self.limits.connections or self._make_room()
        self._connections.add(client)
        self._nobody_left.clear()
        self._meter.connections(len(self._connections))
        if not fits:
            self._meter.turned_away()
            if len(self._connections) > 2 * self.limits.connections:
                client.abort()  # too many are being told so already
        return fits

    def forget(self, client: connection.Connection) -> None:
        self._connections.discard(client)
        self._meter.connections(len(self._connections))
        if not self._connections:
            self._nobody_left.set()

    def _make_room(self) -> bool:
        idle = [client for client in self._connections if client.stage is connection.Stage.IDLE]
        if not idle:
            return False
        min(idle, key=lambda client: client.idle_since).close_if_idle()
        return True

    def _tick(self) -> None:
        self.writer.set_time(time.time())
        now = self.loop.time()
        for client in tuple(self._connections):
            if client.deadline <= now:
                client.expire()
        self._ticker = self.loop.call_later(self._tick_seconds, self._tick)
