"""HTTP/1.1 over TLS on aiohttp: carries requests to the front end and its answers back.

Large answers leave in pieces, so that neither memory nor other requests suffer; they are compressed on another thread
when the client asks. A client that goes away cancels what it asked for; a watch ends properly when the server stops.

Left out: HTTP/2, WebSockets and SPDY (exec, attach, port-forward need a kubelet).
"""

import asyncio
import contextlib
import itertools
import ssl
import zlib
from collections.abc import AsyncGenerator, Iterable, Iterator
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from multidict import CIMultiDict

from devkube.certificates import Files
from devkube.frontend import BODY_LIMIT, Frontend

LINE_LIMIT: Final = 64 * 1024  # of the request line and of a header: selectors and continue tokens are long
COMMON: Final = {"Cache-Control": "no-cache, private", "Server": "devkube"}
PIECE: Final = 128 * 1024  # bytes of one write; smaller answers leave whole and, as upstream's, uncompressed


class HttpServer:
    """`start` once, `stop` once."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._runner: web.ServerRunner | None = None
        self._streams: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; returns the port. OSError with a line for people when that cannot be."""
        loop = asyncio.get_running_loop()
        server = web.Server(
            self._handle,
            request_factory=partial(web.BaseRequest, loop=loop, client_max_size=BODY_LIMIT),
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
            told = f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
            raise OSError(told) from error
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Watches end, requests in flight have two seconds."""
        self._stopping = True
        for stream in self._streams:
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    def cut(self) -> int:
        """Close all connections hard, as a network would; how many there were."""
        server = self._runner.server if self._runner else None
        transports = [one.transport for one in server.connections if one.transport] if server else []
        for transport in transports:
            transport.abort()
        return len(transports)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            reply = await self._frontend.answer(request)
        except ConnectionError:
            if request.transport is not None:
                request.transport.abort()
            raise
        headers = CIMultiDict(COMMON, **{"Content-Type": reply.content_type})
        headers.extend(reply.headers)
        if isinstance(reply.pieces, AsyncGenerator):
            return await self._watch(request, headers, reply.pieces)
        return await _send(request, reply.status, headers, chunks(reply.pieces))

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
        except ConnectionError:
            pass  # the client went while we wrote: nobody is left to be told
        finally:
            self._streams.discard(task)
        return response


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
