"""Every private part of nats-py that Warmlog touches, in one place and for versions that were read.

What is needed and nats-py does not offer: frames before they become objects (frames.Splitter), writing our own frames,
larger reads, and behaviours that would end a connection for ever, hang it or leave it open:

* an `-ERR` that nats-py does not know closes the client for good; here it reconnects, as for any broken connection;
* `wait_closed` of a socket whose peer is stopped never returns while bytes wait to be sent; here it is aborted;
* closing while a server dies may raise; here it is an ordinary end;
* a server that takes the connection and says nothing leaves it open at each try; here the next try ends it.

A version of nats-py that was not read is refused at import, with the line that says what to install.

Rules: spec/eventstore-nats.md section 6 (JS-11, JS-12); nats-py 2.16 source.
"""

import asyncio
import contextlib
import importlib.metadata
from collections.abc import Callable
from typing import Any, Final, cast

from nats import errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport

from eventstore.jetstream import frames

READ_VERSIONS: Final = ("2.16.",)
_READ_SIZE: Final = 256 * 1024  # what one recv of asyncio gives; nats-py asks for 32 KiB
_CLOSE_PATIENCE: Final = 1.0  # seconds for a peer to take our last bytes


def check_version(version: str) -> None:
    """Raises ImportError with one line unless this release of nats-py was read."""
    if not version.startswith(READ_VERSIONS):
        raise ImportError(
            f"nats-py {version} is not supported: eventstore/jetstream uses its private parts, which were read for "
            f"{', '.join(known + 'x' for known in READ_VERSIONS)}; install one of these: "
            "pip install 'nats-py>=2.16,<2.17'"
        )


check_version(importlib.metadata.version("nats-py"))


class _Transport(TcpTransport):
    """TCP with larger reads, and an end that does not wait for a peer that is stopped.

    It exists before it is connected (nats-py would replace a falsy one); what is written then goes nowhere, as it
    would after the connection is lost.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nats-py did not annotate it

    def __bool__(self) -> bool:
        return True

    def write(self, payload: bytes) -> None:
        if self._io_writer is not None:
            self._io_writer.write(payload)

    def writelines(self, payload: list[bytes]) -> None:
        if self._io_writer is not None:
            self._io_writer.writelines(payload)

    async def drain(self) -> None:
        if self._io_writer is not None:
            await self._io_writer.drain()

    async def connect(self, uri: Any, buffer_size: int, connect_timeout: int) -> None:
        await super().connect(uri, _READ_SIZE, connect_timeout)

    async def read(self, buffer_size: int) -> bytes:
        return cast(bytes, await super().read(_READ_SIZE))

    async def wait_closed(self) -> None:
        if self._io_writer is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_PATIENCE):
                await self._io_writer.wait_closed()
        except TimeoutError:
            self._io_writer.transport.abort()
        except OSError:
            pass  # the connection was lost before it was closed, which is the same to us


class PrivateClient(Client):
    """nats-py's client with our parser in front and the behaviours above."""

    def __init__(self, *, on_error: Callable[[str], None]) -> None:
        super().__init__()
        self.splitter = frames.Splitter(self._ps, on_error=on_error)
        self._ps = cast(Any, self.splitter)

    async def _connect_to_server(self, s: Any) -> None:
        if s.uri.scheme not in ("ws", "wss"):
            _abort(self._transport)
            self._transport = _Transport()
        await super()._connect_to_server(s)

    async def _process_err(self, err_msg: str) -> None:
        if "permissions violation" in err_msg:
            await super()._process_err(err_msg)
        else:
            await self._process_op_err(errors.Error(f"nats: {err_msg.strip(chr(39))}"))


def write(client: PrivateClient, data: bytes) -> bool:
    """Whole frames straight to the socket. False when there is no connection: nothing was buffered, nothing sent."""
    transport = client._transport
    if not client.is_connected or transport is None:
        return False
    try:
        transport.write(data)
    except RuntimeError:  # uvloop's, when the socket is lost and nats-py was not told yet
        return False
    return True


def unsent(client: PrivateClient) -> int:
    """Bytes that the socket has not taken yet."""
    transport = client._transport
    writer = None if transport is None else getattr(transport, "_io_writer", None)
    return 0 if writer is None else int(writer.transport.get_write_buffer_size())


def sid_of(subscription: Subscription) -> bytes:
    return b"%d" % subscription._id


async def end(client: PrivateClient, *, patience: float) -> None:
    """Close for good within `patience` seconds, whatever state the server is in."""
    if client._flush_queue is None:  # `connect` refused its arguments: there is nothing to close
        return
    with contextlib.suppress(TimeoutError, OSError, errors.Error):
        async with asyncio.timeout(patience):
            await client.close()
    _abort(client._transport)


def _abort(transport: object) -> None:
    writer = getattr(transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
