"""HTTP/1.1 over TLS on aiohttp: carries requests to the front end and its answers back.

Large answers leave in pieces, so that neither memory nor other requests suffer; they are compressed on another thread
when the client asks. A client that goes away cancels what it asked for; a watch ends properly when the server stops.

Left out: HTTP/2, WebSockets and SPDY (exec, attach, port-forward need a kubelet).
"""

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDict

from devkube import negotiation
from devkube.calls import Call, Live, Reply
from devkube.certificates import Files
from devkube.errors import StatusError
from devkube.frontend import Frontend

BODY_LIMIT: Final = 3 * 1024 * 1024  # bytes, as upstream's --max-request-bytes default for JSON
LINE_LIMIT: Final = 64 * 1024  # of the request line and of a header: selectors and continue tokens are long
PIECE: Final = 256 * 1024
COMMON: Final = {"Cache-Control": "no-cache, private", "Server": "devkube"}


class Cut(ConnectionError):
    """A fault's order to close the connection without an answer."""


class HttpServer:
    """`start` once, `stop` once."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._runner: web.ServerRunner | None = None
        self._streams: set[asyncio.Task[Any]] = set()
        self._transports: set[asyncio.BaseTransport] = set()
        self._stopping = False

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; returns the port. OSError with a line for people when that cannot be."""

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)

        loop = asyncio.get_running_loop()
        server = web.Server(
            self._handle,
            request_factory=request,
            handler_cancellation=True,
            access_log=None,
            max_line_size=LINE_LIMIT,
            max_field_size=LINE_LIMIT,
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=2)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=context, backlog=1024).start()
        except OSError as error:
            await self._runner.cleanup()
            raise OSError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
            ) from error
        bound: int = self._runner.addresses[0][1]
        shown = f"[{host}]" if ":" in host else host
        self._frontend.documents.address = f"{shown}:{bound}"
        return bound

    async def stop(self) -> None:
        """Watches end, requests in flight have two seconds."""
        self._stopping = True
        for stream in tuple(self._streams):
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    def cut(self) -> int:
        """Close all connections hard, as a network would; how many there were."""
        open_now = [one for one in self._transports if not one.is_closing()]
        for transport in open_now:
            transport.abort()  # type: ignore[attr-defined]
        return len(open_now)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise Cut
        if transport not in self._transports:
            self._transports = {one for one in self._transports if not one.is_closing()} | {transport}
        call = Call(request.method, request.path, first_values(request), request.headers, _reader(request))
        try:
            answer = await self._frontend.answer(call)
        except ConnectionError:
            transport.abort()
            raise
        if isinstance(answer, Live):
            return await self._watch(request, answer)
        return await _send(request, answer)

    async def _watch(self, request: web.BaseRequest, live: Live) -> web.StreamResponse:
        response = web.StreamResponse(headers={**COMMON, "Content-Type": live.content_type})
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None  # aiohttp runs handlers as tasks
        self._streams.add(task)
        try:
            await response.prepare(request)
            async for batch in live.stream:
                await response.write(live.render(batch))
            await response.write_eof()
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            # Our own stop: the client is told that the stream is complete, then the task ends as it was asked to.
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
            raise
        except ConnectionError:
            pass  # the client went while we wrote: nobody is left to be told
        finally:
            self._streams.discard(task)
            await live.stream.aclose()
        return response


def first_values(request: web.BaseRequest) -> dict[str, str]:
    """The query; of a key that came several times the first value, as upstream decodes its options."""
    found: dict[str, str] = {}
    for key, value in request.query.items():
        found.setdefault(key, value)
    return found


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


def _reader(request: web.BaseRequest) -> Any:
    async def read() -> bytes:
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large() from None

    return read


def too_large() -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")


async def _send(request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
    headers = [*COMMON.items(), ("Content-Type", reply.content_type), *reply.headers]
    left = chunks(reply.pieces)
    first, second = next(left, b""), next(left, None)
    size = len(first) + len(second or b"")
    compressed = negotiation.wants_gzip(request.headers.get("Accept-Encoding", ""), size)
    if compressed:
        headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
    if second is None and not compressed:
        return web.Response(status=reply.status, body=first, headers=_multi(headers))
    response = web.StreamResponse(status=reply.status, headers=_multi(headers))
    response.enable_chunked_encoding()
    await response.prepare(request)
    if request.method != "HEAD":
        deflate = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS) if compressed else None
        for chunk in _all(first, second, left):
            # Compressing gives the loop away by itself, encoding rows does not.
            await response.write(await asyncio.to_thread(deflate.compress, chunk) if deflate else chunk)
            await asyncio.sleep(0)
        if deflate:
            await response.write(deflate.flush())
    await response.write_eof()
    return response


def _all(first: bytes, second: bytes | None, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    if second is not None:
        yield second
    yield from rest


def _multi(headers: list[tuple[str, str]]) -> CIMultiDict[str]:
    return CIMultiDict(headers)
