"""One connection to NATS that never gives up, and the few things the rest of this package needs from it.

Reconnecting goes on for ever, a silent server is noticed by pings (5 s, twice), errors that only the connection hears
of (a refused permission above all) are kept so that whoever waits for an answer can say why none comes. A server
older than 2.12 is refused: it accepts settings and headers that it then ignores.

A connection that nats-py closed for good sets `closed`; a role that sees it ends with `why_closed`. `close` takes
at most a second or two, also when the server is dead or stopped. What is written during an outage is not buffered:
`write` says so and the caller sends again.

Rules: design.md section 2; spec/eventstore-nats.md sections 0 (2), 6 and 9 ("Client"); JS-11.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
import structlog
from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from eventstore import store
from eventstore.jetstream import frames, private

log = structlog.get_logger(__name__)

OLDEST_SERVER: Final = (2, 12)
_PING_EVERY: Final = 5
_FLUSH: Final = 5  # seconds for a SUB to reach the server


Secret = str | Callable[[], str]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect. Of token, user with password, creds and nkey_seed give at most one. Files are read at each
    connect, and a function is asked then: secrets are replaced while roles run."""

    name: str
    token: Secret | None = None
    user: str | None = None
    password: Secret | None = None
    creds: str | None = None  # path of a .creds file
    nkey_seed: str | None = None  # path of a file that holds the seed
    tls_ca: str | None = None  # path of a PEM file; also turns TLS on for a nats:// address
    tls_cert: str | None = None
    tls_key: str | None = None
    inbox_prefix: str = "_INBOX"  # one per role, or roles can read each other's answers

    def __repr__(self) -> str:
        return f"Options(name={self.name!r}, …)"  # never a secret in a log


class Reply(NamedTuple):
    """An answer to a request: status 0 unless the server sent one (404, 503 …)."""

    status: int
    headers: dict[str, str]
    payload: bytes


class Tap:
    """A subscription whose frames go to `take` in lists; it lives across reconnects."""

    def __init__(self, connection: "Connection", subscription: Subscription, sid: bytes) -> None:
        self._connection, self._subscription, self._sid = connection, subscription, sid

    async def end(self) -> None:
        self._connection.client.splitter.taps.pop(self._sid, None)
        if not self._connection.client.is_closed:
            with contextlib.suppress(errors.Error):  # the connection ends this very moment
                await self._subscription.unsubscribe()


class Connection:
    """Made by `connect`. `life` counts successful connects from 1; a change means that something may have been lost."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.client = private.PrivateClient(on_error=self._server_error)
        self.life = 0
        self.errors = 0  # all that error_cb heard
        self.closed = asyncio.Event()
        self.why_closed = ""
        self.on_violation: list[Callable[[str, str], None]] = []  # (subject, words)
        self.on_connect: list[Callable[[], None]] = []
        self.fault: store.Misconfigured | None = None  # what makes this connection useless until the next one
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connected = asyncio.Event()
        self._last_error = ""

    # What the rest of the package uses ---------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._connected.is_set() and self.client.is_connected

    async def wait_connected(self, timeout: float | None = None) -> None:
        """Raises Unavailable when there is still no server after `timeout` seconds (None = wait for ever)."""
        self.check()
        if not self.client.is_connected:  # nats-py tells it a moment after it knows
            self._connected.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._connected.wait()
        except TimeoutError:
            raise store.Unavailable(f"no NATS server answers: {self._last_error or 'not connected'}") from None
        self.check()

    def check(self) -> None:
        """Raises when this connection can never work again."""
        if self.fault is not None:
            raise self.fault
        if self.closed.is_set():
            raise store.Unavailable(f"the connection to NATS is closed: {self.why_closed}; start the role again")

    def write(self, data: bytes) -> bool:
        """Whole protocol frames, now. False during an outage: nothing was sent and nothing is kept."""
        return self._connected.is_set() and private.write(self.client, data)

    async def tap(self, subject: str, take: frames.Take) -> Tap:
        """Hand frames of `subject` to `take` from now on; the server knows of it when this returns."""
        subscription = await self.client.subscribe(subject, cb=_never_called)
        sid = private.sid_of(subscription)
        self.client.splitter.taps[sid] = take
        if self.connected:
            try:
                await self.client.flush(_FLUSH)
            except (errors.Error, OSError) as error:
                # It is among the client's subscriptions now: the next connect brings it to the server.
                log.debug("flush of a subscription failed", subject=subject, error=str(error))
        return Tap(self, subscription, sid)

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload that the server takes in one message."""
        return self.client.max_payload

    def inbox(self) -> str:
        return self.client.new_inbox()

    async def request(self, subject: str, payload: bytes = b"", *, timeout: float = 2.0) -> Reply:
        """One question, one answer. Raises Unavailable (no answer) or Misconfigured (not permitted)."""
        self.check()
        try:
            answer = await self._ask(subject, payload, timeout)
        except errors.NoRespondersError:
            return Reply(503, {}, b"")
        except (errors.Error, OSError, RuntimeError) as error:  # the last is uvloop's: a socket that is lost
            self.check()
            raise store.Unavailable(
                f"no answer from NATS on {subject} within {timeout:g} s ({error or type(error).__name__})"
            ) from error
        headers = dict(answer.headers or {})
        return Reply(int(headers.get("Status", "0") or 0), headers, answer.data)

    async def _ask(self, subject: str, payload: bytes, timeout: float) -> Msg:
        """nats-py's request, ended early when the server says that we may not ask."""
        asking = asyncio.ensure_future(self.client.request(subject, payload, timeout=timeout))
        why: list[str] = []

        def hear(denied: str, words: str) -> None:
            if denied == subject or self.fault is not None:
                why.append(words)
                asking.cancel()

        self.on_violation.append(hear)
        try:
            return await asking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if why and not (task is not None and task.cancelling()):
                raise self.fault or not_permitted(subject, why[0], self.options.name) from None
            raise
        finally:
            self.on_violation.remove(hear)
            asking.cancel()

    async def close(self) -> None:
        """End for good, within about two seconds whatever the server does."""
        self.why_closed = self.why_closed or "this role closed it"
        await private.end(self.client, patience=2.0)
        self._connected.clear()
        self.closed.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # What nats-py calls ------------------------------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        self.errors += 1
        words = str(error) or type(error).__name__
        self._last_error = words
        if "authorization violation" in words.lower() and self.life == 0 and not self._refused.done():
            self._refused.set_result(None)
        # At once, then after 16 s, 32 s …: not one line per attempt of an outage that lasts for hours, and only one
        # from a tool, which gives up before the second.
        if self.errors == 1 or (self.errors >= 64 and self.errors.bit_count() == 1):
            log.warning("trouble with NATS", error=words, times=self.errors)

    def _server_error(self, words: str) -> None:
        """An -ERR line as the server wrote it, e.g. Permissions Violation for Publish to "wl.moment"."""
        self._last_error = words
        if not words.lower().startswith("permissions violation"):
            return
        subject = words.partition('"')[2].partition('"')[0]
        if "subscription" in words.lower() and subject.startswith(f"{self.options.inbox_prefix}."):
            self.fault = store.Misconfigured(
                f"NATS delivers no answers to role {self.options.name} ({words}): "
                f"allow it to subscribe to {self.options.inbox_prefix}.>"
            )
        for call in list(self.on_violation):
            call(subject, words)

    async def _on_connected(self) -> None:
        self.fault = too_old(self.client.connected_server_version, self._where())
        self.life += 1
        self._connected.set()
        if self.life > 1:
            log.info("connected to NATS again", server=self._where(), life=self.life)
        for call in self.on_connect:
            call()

    async def _on_disconnected(self) -> None:
        self._connected.clear()

    async def _on_closed(self) -> None:
        self._connected.clear()
        self.why_closed = self.why_closed or self._last_error or "nats-py gave up"
        self.closed.set()

    def _where(self) -> str:
        url = self.client.connected_url
        return "?" if url is None else url.netloc.rpartition("@")[2]


async def _never_called(message: object) -> None:
    """nats-py wants a callback; the splitter takes the frames before it could be called."""


def not_permitted(subject: str, words: str, role: str) -> store.Misconfigured:
    return store.Misconfigured(f"NATS refuses {subject} to this credential ({words}); grant it to role {role}")


def too_old(version: Any, where: str) -> store.Misconfigured | None:
    """A server that would ignore what we ask, or None."""
    if (version.major, version.minor) >= OLDEST_SERVER:
        return None
    oldest = ".".join(map(str, OLDEST_SERVER))
    return store.Misconfigured(
        f"nats-server {version.major}.{version.minor}.{version.patch} at {where} is too old: it ignores settings "
        f"that the log relies on; upgrade it to {oldest} or newer"
    )


def _tls(options: Options) -> ssl.SSLContext | None:
    if not (options.tls_ca or options.tls_cert):
        return None
    context = ssl.create_default_context(cafile=options.tls_ca)
    if options.tls_cert:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    return context


async def connect(url: str | list[str], options: Options, *, wait: float | None = None) -> Connection:
    """Connect, waiting at most `wait` seconds for a server (None = for ever).

    Raises Unavailable when none answers in time and Misconfigured when the credential is refused, a file of it cannot
    be read, or the server is older than 2.12. Use it as `async with await connect(…) as connection`.
    """
    connection = Connection(options)
    try:
        attempt = asyncio.ensure_future(
            connection.client.connect(
                url,
                name=options.name,
                error_cb=connection._on_error,
                disconnected_cb=connection._on_disconnected,
                reconnected_cb=connection._on_connected,
                closed_cb=connection._on_closed,
                max_reconnect_attempts=-1,
                # Jitter once per process: a fleet that lost its server does not come back in step.
                reconnect_time_wait=0.2 + random.random() * 0.1,  # type: ignore[arg-type]  # a float works
                ping_interval=_PING_EVERY,
                max_outstanding_pings=2,
                connect_timeout=2,
                token=options.token,
                user=options.user,
                password=options.password,
                user_credentials=options.creds,
                nkeys_seed=options.nkey_seed,
                tls=_tls(options),
                inbox_prefix=options.inbox_prefix.encode(),
                pending_size=8 << 20,
            )
        )
    except OSError as error:
        raise store.Misconfigured(f"cannot read a TLS file of the connection to NATS: {error}") from error
    try:
        await asyncio.wait({attempt, connection._refused}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if not attempt.done():
            if connection._refused.done():
                raise store.Misconfigured(
                    f"NATS at {_shown(url)} refuses the credential of {options.name} ({connection._last_error}); "
                    "give the token, user, creds or nkey that its configuration names"
                )
            raise store.Unavailable(
                f"no NATS server answers at {_shown(url)} within {wait:g} s ({connection._last_error or 'no answer'}); "
                "is it running, and is the address right?"
            )
        if (cause := attempt.exception()) is not None:
            raise store.Misconfigured(f"cannot connect to NATS at {_shown(url)}: {cause}") from cause
        await connection._on_connected()
        connection.check()
    except BaseException:
        while not attempt.done():  # nats-py swallows a cancellation that meets it while it cleans up
            attempt.cancel()
            await asyncio.wait({attempt}, timeout=0.1)
        await connection.close()
        raise
    return connection


def _shown(url: str | list[str]) -> str:
    """Addresses without what stands before the @."""
    return ", ".join(one.rpartition("@")[2].rpartition("//")[2] for one in ([url] if isinstance(url, str) else url))
