"""HTTP/1.1 over TLS on aiohttp, and one request from its URL to its answer.

The order is upstream's, so that who may not ask does not learn what exists: authentication, route, authorization, form,
verb. Every error leaves as a Status in JSON. Large answers leave in pieces, so that neither memory nor other requests
suffer; they are compressed on another thread when the client asks. A client that goes away cancels what it asked for; a
watch ends properly when the server stops.

Left out: HTTP/2, WebSockets and SPDY (exec, attach, port-forward need a kubelet).
"""

import asyncio
import contextlib
import itertools
import logging
import ssl
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from multidict import CIMultiDict

from devkube import negotiation, routes
from devkube.certificates import Files
from devkube.clock import Clock
from devkube.documents import Documents
from devkube.errors import StatusError, bad_request, internal
from devkube.faults import Faults
from devkube.kinds import Catalog
from devkube.requests import Answer, Reply, User, refused, warning_headers
from devkube.routes import Route
from devkube.tables import View
from devkube.verbs import Verbs

log = logging.getLogger("devkube")
BODY_LIMIT: Final = 3 * 1024 * 1024  # bytes, as upstream's --max-request-bytes default for JSON
BODY_SECONDS = 60.0  # until it is read, as upstream's --request-timeout
LINE_LIMIT: Final = 64 * 1024  # of the request line and of a header: selectors and continue tokens are long
COMMON: Final = {"Cache-Control": "no-cache, private", "Server": "devkube"}
PIECE: Final = 128 * 1024  # bytes of one write; smaller answers leave whole and, as upstream's, uncompressed


class HttpServer:
    """`authenticate` raises 401, `authorize` 403. `start` once, `stop` once."""

    def __init__(
        self,
        catalog: Catalog,
        verbs: Verbs,
        clock: Clock,
        *,
        authenticate: Callable[[Mapping[str, str]], User],
        authorize: Callable[[User, Route], None],
        faults: Faults,
    ) -> None:
        self._catalog, self._verbs, self._clock = catalog, verbs, clock
        self._authenticate, self._authorize, self._faults = authenticate, authorize, faults
        self.documents = Documents(catalog)
        self.prepare: Callable[[], None] = lambda: None  # called before it listens
        self._runner: web.ServerRunner | None = None
        self._streams: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; returns the port. OSError with a line for people when that cannot be."""
        self.prepare()
        loop = asyncio.get_running_loop()
        server = web.Server(
            self._handle,
            request_factory=partial(web.BaseRequest, loop=loop, client_max_size=BODY_LIMIT),
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,  # upstream reads no compressed bodies
            max_line_size=LINE_LIMIT,
            max_field_size=LINE_LIMIT,
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=2)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024).start()
        except OSError as error:
            await self._runner.cleanup()
            told = f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
            raise OSError(told) from error
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Watches end, requests in flight have two seconds."""
        self._stopping = True
        for stream in self._streams:
            stream.cancel()
        assert self._runner is not None
        await self._runner.cleanup()

    def cut(self) -> int:
        """Close all connections hard, as a network would; how many there were."""
        server = self._runner.server if self._runner else None
        transports = [one.transport for one in server.connections if one.transport] if server else []
        for transport in transports:
            transport.abort()
        return len(transports)

    async def answer(self, call: web.BaseRequest) -> Reply:
        """Never raises, except for cancellation and what a fault cuts off."""
        try:
            user = self._authenticate(call.headers)
            route = routes.parse(call.method, call.path, call.query)
            await self._faults.meet(route)
            self._authorize(user, route)
            return await self.perform(call, route, user)
        except StatusError as error:
            return refused(error)
        except web.HTTPRequestEntityTooLarge:
            told = f"Request entity too large: limit is {BODY_LIMIT}"
            return refused(StatusError(413, "RequestEntityTooLarge", told))
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            return refused(internal("the request made the server fail; its log has the details"))

    async def perform(self, call: web.BaseRequest, route: Route, user: User) -> Reply:
        """What is left once it is known who asks and that he may. StatusError."""
        if not route.plural:
            return self.documents.answer(call, route)
        agent = call.headers.get("user-agent", "")
        request = routes.request(self._catalog, route, call.query, user=user, agent=agent)
        listed = route.verb in ("list", "deletecollection")
        form = negotiation.form_of(call.headers.get("accept", ""), listed=listed)
        include = call.query.get("includeObject") or "Metadata"
        if form and include not in ("Metadata", "Object", "None"):
            raise bad_request(f"includeObject: it must be Metadata, Object or None, not {include!r}")
        view = View(form, include, self._clock)
        if route.verb not in ("get", "list", "watch"):
            body = await _body(call)
            if body or route.verb in ("create", "update", "patch"):
                media, body = negotiation.body_of(call.headers.get("content-type", ""), body, verb=route.verb)
                request = replace(request, body=body, content_type=media)
        try:
            answer = await self._verbs.handle(request)
        except StatusError as error:
            return refused(error, request.warnings)
        if not isinstance(answer, Answer):
            return Reply(200, view.lines(answer, request.resource))
        return Reply(answer.status, view.pieces(answer), headers=warning_headers(request.warnings))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            reply = await self.answer(request)
            headers = CIMultiDict(COMMON, **{"Content-Type": reply.content_type})
            headers.extend(reply.headers)
            if isinstance(reply.pieces, AsyncGenerator):
                return await self._watch(request, headers, reply.pieces)
            return await _send(request, reply.status, headers, chunks(reply.pieces))
        except ConnectionError:  # a fault cuts it off, or the client went while we wrote: nobody is left to be told
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _watch(
        self, request: web.BaseRequest, headers: CIMultiDict[str], lines: AsyncGenerator[bytes, None]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        task = cast("asyncio.Task[Any]", asyncio.current_task())  # aiohttp runs handlers as tasks
        self._streams.add(task)
        try:
            async with contextlib.aclosing(lines):
                await response.prepare(request)
                async for line in lines:
                    await response.write(line)
                await response.write_eof()
        except asyncio.CancelledError:
            if self._stopping:  # the client is told that the stream is complete, then the task ends as it was asked to
                with contextlib.suppress(ConnectionError):
                    await response.write_eof()
            raise
        finally:
            self._streams.discard(task)
        return response


async def _body(call: web.BaseRequest) -> bytes:
    """aiohttp waits for the end of a body whose chunks turn out to be none; nobody else should."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await call.read()
    except (TimeoutError, web.RequestPayloadError):
        raise bad_request("the body cannot be read to its end") from None


async def _send(
    request: web.BaseRequest, status: int, headers: CIMultiDict[str], left: Iterator[bytes]
) -> web.StreamResponse:
    first = next(left, b"")
    if len(first) < PIECE or request.method == "HEAD":
        return web.Response(status=status, body=first, headers=headers)
    deflate = None
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers.extend({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        deflate = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    for chunk in itertools.chain((first,), left):
        # Compressing gives the loop away by itself, encoding rows does not.
        await response.write(await asyncio.to_thread(deflate.compress, chunk) if deflate else chunk)
        await asyncio.sleep(0)
    await response.write_eof(deflate.flush() if deflate else b"")
    return response


def tls(files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of any size as pieces worth a write."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
