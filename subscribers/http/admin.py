"""The admin endpoints of port 8081 on aiohttp: /snapshot, /probe, and the intake for subscribers without NATS.

    GET  /snapshot                                   the index's counts, as its owner renders them
    POST /probe                                      the functional self-test (probes)
    POST /v1/intake/kv/<tenant>/<replica>?model=M    one WARMLOG_KV message (intake)

Every request passes `authenticate` first: the one seam for it (identity). Not here: who is let in (tokens), what a
snapshot counts. A bad request gets its status and one line as {"error": …}; a bug is logged and is 500 with one line,
never a traceback.

Rules: spec/inferencecache.md sections 1.7, 1.9, 1.10; design.md section 4.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog
from aiohttp import http_exceptions, web

from subscribers import metrics
from subscribers.http import gate, hotpath, identity, intake, probes, replies

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: From the first byte of a body to the last.
_BODY_SECONDS: Final = 10.0
#: By status: RFC 9110 wants a 401 to say how to do better.
CHALLENGE: Final = {401: b"www-authenticate: Bearer\r\n"}


def _quotes_nothing(record: logging.LogRecord) -> bool:
    """What aiohttp says of a request that it cannot read quotes the header, and with it somebody's token."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, http_exceptions.HttpProcessingError):
        return True
    log.debug("a request cannot be read", error=type(error).__name__)
    return False


_server_log: Final = logging.getLogger(__name__)
_server_log.addFilter(_quotes_nothing)


class Meter(Protocol):
    """Told of every answer; `path` is the route's pattern, or `other`."""

    def answered(self, path: str, code: int) -> None: ...


def response(reply: replies.Reply) -> web.Response:
    """A reply as aiohttp sends it."""
    headers = {"content-type": reply.content_type.decode()}
    for line in reply.extra.decode().splitlines():
        name, _, value = line.partition(": ")
        headers[name] = value
    return web.Response(status=reply.code, body=reply.body, headers=headers)


def create_app(
    *,
    snapshot: Callable[[], bytes],
    probe_index: probes.Index,
    kv_intake: intake.Intake,
    authenticate: identity.Authenticate,
    meter: Meter | None = None,
) -> web.Application:
    """The application. `snapshot` gives the JSON of the whole answer and must not block for long."""

    @web.middleware
    async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if meter is not None:
            resource = request.match_info.route.resource
            meter.answered(metrics.OTHER if resource is None else resource.canonical, answer.status)
        return answer

    def guarded(purpose: identity.Purpose, handler: Handler) -> Handler:
        async def guard(request: web.Request) -> web.StreamResponse:
            verdict = await authenticate(request.headers, purpose)
            if isinstance(verdict, identity.Refusal):
                return response(replies.error(verdict.code, verdict.message, extra=CHALLENGE.get(verdict.code, b"")))
            return await handler(request)

        return guard

    async def get_snapshot(request: web.Request) -> web.StreamResponse:
        return response(replies.Reply(200, replies.JSON, snapshot()))

    async def post_probe(request: web.Request) -> web.StreamResponse:
        body = await read_body(request, probes.REQUEST_LIMIT)
        if isinstance(body, replies.Reply):
            return response(body)
        try:
            asked = probes.read(body)
        except probes.Malformed as error:
            return response(replies.error(400, str(error)))
        return response(replies.json(200, probes.run(asked, probe_index)))

    async def post_kv(request: web.Request) -> web.StreamResponse:
        models = request.query.getall("model", [])
        if len(models) != 1 or not models[0]:
            return response(replies.error(400, "name the model once in the query: ?model=<name>"))
        body = await read_body(request, intake.BODY_LIMIT)
        if isinstance(body, replies.Reply):
            return response(body)
        tenant, replica = request.match_info["tenant"], request.match_info["replica"]
        return response(await kv_intake.accept(tenant, replica, models[0], body))

    app = web.Application(middlewares=[counted, one_line_errors], client_max_size=intake.BODY_LIMIT)
    app.router.add_get("/snapshot", guarded("snapshot", get_snapshot), allow_head=False)
    app.router.add_post("/probe", guarded("probe", post_probe))
    app.router.add_post("/v1/intake/kv/{tenant}/{replica}", guarded("intake", post_kv))
    return app


async def read_body(request: web.Request, limit: int) -> bytes | replies.Reply:
    """The body, or why it is not taken: 413 over `limit` bytes, 408 when it comes too slowly."""
    too_large = replies.error(413, f"the body is larger than {limit} bytes")
    if (request.content_length or 0) > limit:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.content.iter_chunked(64 * 1024):
                body += piece
                if len(body) > limit:
                    return too_large
    except TimeoutError:
        return replies.error(408, f"the body did not arrive within {_BODY_SECONDS:.0f} s")
    return bytes(body)


@web.middleware
async def one_line_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """aiohttp's own refusals (404, 405) and our bugs in the form of every other error."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as refusal:
        allowed = ", ".join(sorted(refusal.allowed_methods))
        message = f"{request.method} is not allowed for {request.path}; use {allowed}"
        return response(replies.error(405, message, extra=f"allow: {allowed}\r\n".encode()))
    except web.HTTPNotFound:
        known = "/snapshot, /probe, /v1/intake/kv/<tenant>/<replica>"
        return response(replies.error(404, f"there is no {request.path} here; see {known}"))
    except web.HTTPException as refusal:
        return response(replies.error(refusal.status, refusal.reason))
    except Exception:
        log.exception("an admin handler failed", path=request.path)
        return response(replies.error(500, "internal error; the server's log has the details"))


class AdminServer:
    """The application on a port. `start` once, `stop` once."""

    def __init__(
        self,
        app: web.Application,
        *,
        grace: float = 5.0,
        connections: int = gate.CONNECTIONS,
        first_request_seconds: float = gate.FIRST_REQUEST_SECONDS,
    ) -> None:
        """`grace` is how many seconds requests in flight have when the server stops; the rest as gate.Gate."""
        app.middlewares.insert(0, self._note)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=grace, logger=_server_log
        )
        self._connections, self._seconds = connections, first_request_seconds
        self._gate: gate.Gate | None = None
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises hotpath.ListenError."""
        await self._runner.setup()
        assert self._runner.server is not None  # set up just now
        self._gate = gate.Gate(self._runner.server, connections=self._connections, seconds=self._seconds)
        try:
            self._server = await asyncio.get_running_loop().create_server(self._gate.connect, host, port)
        except OSError as error:
            await self._runner.cleanup()
            raise hotpath.ListenError(
                f"cannot listen on {host}:{port} ({error.strerror or error}); free it or choose another address"
            ) from error
        self._gate.start()
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Accept no more, let requests in flight finish."""
        if self._server is not None:
            self._server.close()
        if self._gate is not None:
            self._gate.stop()
        await self._runner.cleanup()

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._gate is not None:
            self._gate.seen(request.protocol)
        return await handler(request)
