"""Where a subscriber's messages go: straight to NATS, or through a server's intake over HTTP.

A sink sends one message and says under which sequence it was stored. It keeps no order and resends nothing: that is
the session's (session). Orders from servers arrive by a callback: at once over NATS; over HTTP with the answer to
the next message, thus within a heartbeat.

    raised by send       meaning
    store.Unavailable    try the same message again; it may be stored already
    store.Refused (any)  never try again: a wrong URL, a message that the server does not take, a forbidden identity

Rules: design.md section 3, "The sink is a seam" and "Return channel"; section 5 (NATS away).
"""

import os
import ssl
from collections.abc import Callable
from typing import Final, Protocol
from urllib import parse

import aiohttp
import msgspec
import structlog
import yarl

from eventstore import addresses, kvwire, store, subjects

log = structlog.get_logger(__name__)

OnOrder = Callable[[kvwire.Control], None]

_ANSWER_LIMIT: Final = 64 * 1024
_ERROR_LIMIT: Final = 200

_order_decoder = msgspec.json.Decoder(kvwire.Control)


class Sink(Protocol):
    async def send(self, payload: bytes) -> int:
        """The stream sequence of one message. Raises store.StoreError as in the table above."""
        ...

    async def listen(self, on_order: OnOrder) -> None:
        """Call `on_order` for every order to this replica from now on. Once."""
        ...

    async def close(self) -> None: ...


class NatsSink:
    """Straight to the log. The connection belongs to the caller."""

    def __init__(self, log_of_kv: store.KVLog, bus: store.Bus, *, tenant: str, model: str, replica: str) -> None:
        self._kv, self._bus = log_of_kv, bus
        self._subject = subjects.kv_subject(tenant, model, replica)
        self._control = subjects.kv_control_subject(tenant, replica)

    async def send(self, payload: bytes) -> int:
        return await self._kv.publish(self._subject, payload)

    async def listen(self, on_order: OnOrder) -> None:
        def hear(payload: bytes) -> None:
            try:
                order = _order_decoder.decode(payload)
            except msgspec.MsgspecError as error:
                log.warning("an order is not ours and is ignored", subject=self._control, reason=str(error))
                return
            on_order(order)

        await self._bus.hear(self._control, hear)

    async def close(self) -> None:
        """Nothing is held here."""


class TokenFile:
    """A bearer token in a file that something else rotates: read again whenever the file changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def read(self) -> str:
        """The token. Raises store.Unavailable while there is none. Blocks for a stat, and a small read on change."""
        try:
            found = os.stat(self._path)  # follows the symlink that a projected volume swaps
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if state != self._seen:
                with open(self._path, encoding="ascii") as file:
                    self._token = file.read(_ANSWER_LIMIT).strip()
                self._seen = state
        except (OSError, UnicodeDecodeError) as error:
            raise store.Unavailable(f"token file {self._path} cannot be read: {error}") from error
        if not self._token or not self._token.isprintable() or " " in self._token:
            raise store.Unavailable(f"token file {self._path} holds no token")
        return self._token


class _Accepted(msgspec.Struct, frozen=True):
    sequence: int
    orders: list[kvwire.Control] = []


class _Error(msgspec.Struct, frozen=True):
    error: str


_answer_decoder = msgspec.json.Decoder(_Accepted)
_error_decoder = msgspec.json.Decoder(_Error)


class IntakeSink:
    """Through a server's intake, `http(s)://host:port`. Opens its connections at the first message."""

    def __init__(
        self,
        url: str,
        *,
        tenant: str,
        model: str,
        replica: str,
        token_file: str | None = None,
        ca_file: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        """Raises store.Misconfigured for a URL or a CA file that can never work. `timeout` is for one message."""
        parts = parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise store.Misconfigured(f"{addresses.shown(url)!r} is no intake URL; expected http(s)://host:port")
        path = "/".join(parse.quote(name, safe="") for name in (tenant, replica))
        address = f"{url.rstrip('/')}/v1/intake/kv/{path}?{parse.urlencode({'model': model})}"
        self._url = yarl.URL(address, encoded=True)
        self._token = None if token_file is None else TokenFile(token_file)
        if self._token is not None and parts.scheme == "http":
            log.warning(
                "the token is sent over http:// and can be read on the way; prefer https://", url=addresses.shown(url)
            )
        self._tls: ssl.SSLContext | bool = True
        if ca_file is not None:
            try:
                self._tls = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                raise store.Misconfigured(f"CA file {ca_file} cannot be used: {error}") from error
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=min(2.0, timeout))
        self._on_order: OnOrder | None = None
        self._client: aiohttp.ClientSession | None = None

    async def send(self, payload: bytes) -> int:
        headers = {"content-type": "application/vnd.msgpack"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token.read()}"
        if self._client is None:
            self._client = aiohttp.ClientSession(timeout=self._timeout, auto_decompress=False)
        try:
            async with self._client.post(
                self._url, data=payload, headers=headers, ssl=self._tls, allow_redirects=False
            ) as answer:
                body = await _read(answer)
                code = answer.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise store.Unavailable(f"the intake does not answer: {error or type(error).__name__}") from error
        if code != 200:
            raise refusal(code, body)
        return self._accepted(body)

    async def listen(self, on_order: OnOrder) -> None:
        self._on_order = on_order

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _accepted(self, body: bytes) -> int:
        try:
            accepted = _answer_decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise store.Unavailable(f"the intake's answer is not ours: {error}") from error
        if self._on_order is not None:
            for order in accepted.orders:
                self._on_order(order)
        return accepted.sequence


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The answer's body; what is beyond the limit is not read, so that a stranger cannot fill our memory."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > _ANSWER_LIMIT:
            raise store.Unavailable(f"the intake's answer is larger than {_ANSWER_LIMIT} bytes")
    return bytes(body)


def refusal(code: int, body: bytes) -> store.StoreError:
    """What an answer other than 200 means for the sender."""
    try:
        said = _error_decoder.decode(body).error
    except msgspec.MsgspecError:
        said = body[:_ERROR_LIMIT].decode("utf-8", "replace")
    message = f"the intake answered {code}: {said[:_ERROR_LIMIT]}"
    if code == 413:
        return store.TooLarge(message)
    if code in (403, 404, 405) or 300 <= code < 400:
        return store.Misconfigured(message)
    if code in (401, 408, 425, 429) or code >= 500:
        return store.Unavailable(message)  # a token may be about to be rotated, a server to come back
    return store.Refused(message)
