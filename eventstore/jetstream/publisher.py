"""Pipelined publishing with an answer for every message: own frames, own table of what is pending, own deadlines.

At most 4,000 messages and 16 MiB are in flight (a server drops what exceeds its queue, silently when nobody waits).
Frames of one turn of the loop go out in one write. Nothing is buffered in an outage: what is pending waits here and is
sent when the connection is back, until its deadline.

`resend` is for messages that carry an id: they are sent again, byte for byte, when no answer came for a while or the
connection was lost. Without it a message is sent once.

Not here: what an answer means (appender, kvlog).

Rules: design.md section 2; spec/eventstore-nats.md measurements 6, 7, 8.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from eventstore import store
from eventstore.jetstream import api, connect, frames

IN_FLIGHT: Final = 4000
IN_FLIGHT_BYTES: Final = 16 << 20
_BURST: Final = 256  # frames in one write: the server works on the first while we make the next
_CLOSED: Final = "the log was closed; the message was not sent"
_SWEEP: Final = 0.05  # seconds between looks at deadlines
_RESEND_AFTER: Final = 1.0  # seconds without an answer, doubled each time


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Ack(msgspec.Struct, gc=False):
    """A PubAck as JetStream writes it. `tries` is how often the message was sent."""

    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None
    tries: int = 1


NOBODY: Final = _Error(503, 0, "nobody listens on this subject")
_decode: Callable[[bytes], Ack] = msgspec.json.Decoder(Ack).decode


class Waiter(Protocol):
    """What an answer is given to: a future, or what need not wait for the loop's next turn."""

    def done(self) -> bool:
        """Whether it is of no use to anybody any more."""
        ...

    def set_result(self, ack: Ack, /) -> None: ...

    def set_exception(self, error: store.StoreError, /) -> None: ...


class _Pending(msgspec.Struct, gc=False):
    """One message without an answer. Times are loop time."""

    answer: Waiter
    frame: bytes
    subject: str
    again_at: float
    deadline: float
    resend: bool
    tries: int = 0
    sent: bool = False


class Counters(NamedTuple):
    pending: int
    resent: int


class Publisher:
    """Listens for answers from the first `publish` on, or from `start`; ended with `await stop()`."""

    def __init__(
        self, connection: connect.Connection, *, in_flight: int = IN_FLIGHT, in_flight_bytes: int = IN_FLIGHT_BYTES
    ) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._inbox = connection.inbox().encode()
        self._skip = len(self._inbox) + 1
        self._pending: dict[bytes, _Pending] = {}
        self._bytes = 0
        self._limit, self._limit_bytes = in_flight, in_flight_bytes
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()  # with its deadline
        self._out: list[_Pending] = []
        self._next = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._tap: connect.Tap | None = None
        self._starting = asyncio.Lock()
        self._stopped = False
        self._resent = 0

    async def start(self) -> None:
        """Subscribe to the answers. Does nothing the second time."""
        async with self._starting:
            if self._stopped:
                raise store.Unavailable(_CLOSED)
            if self._tap is None:
                self._tap = await self._connection.tap(f"{self._inbox.decode()}.*", self._answers)
                self._connection.on_connect.append(self._connected)
                self._connection.on_violation.append(self._violated)

    async def stop(self) -> None:
        """Give up on what is pending: each waiter gets Unavailable."""
        self._stopped = True
        if self._tap is None:
            return
        tap, self._tap = self._tap, None
        self._connection.on_connect.remove(self._connected)
        self._connection.on_violation.remove(self._violated)
        if self._sweeper is not None:
            self._sweeper.cancel()
        waiting, self._waiting = self._waiting, deque()
        for waiter, _ in waiting:
            if not waiter.done():
                waiter.set_exception(store.Unavailable(_CLOSED))
        for token in list(self._pending):
            self._fail(token, store.Unavailable("the log was closed before an answer came; the message may be stored"))
        await tap.end()

    def counters(self) -> Counters:
        return Counters(len(self._pending), self._resent)

    async def publish(
        self, subject: str, payload: bytes, *, headers: bytes = b"", deadline: float, resend: bool
    ) -> Ack:
        """Wait for a place, send, wait for the answer. `headers` is a whole block or empty.

        `deadline` is in loop time: Unavailable is raised then, and Misconfigured when the server says that we may not.
        """
        if self.crowded:
            await self.room(deadline)
        return await self.send(subject, payload, headers=headers, deadline=deadline, resend=resend)

    @property
    def crowded(self) -> bool:
        """Whether `room` must be awaited before `send`."""
        return (
            len(self._pending) >= self._limit
            or self._bytes >= self._limit_bytes
            or bool(self._waiting)
            or self._tap is None
        )

    def send(
        self, subject: str, payload: bytes, *, headers: bytes, deadline: float, resend: bool
    ) -> "asyncio.Future[Ack]":
        """As `publish`, when there is room. Cancelling the future gives the message up; it may be stored."""
        answer: asyncio.Future[Ack] = self._loop.create_future()
        self.send_for(answer, subject, payload, headers=headers, deadline=deadline, resend=resend)
        return answer

    def send_for(
        self, answer: Waiter, subject: str, payload: bytes, *, headers: bytes, deadline: float, resend: bool
    ) -> None:
        """As `send`, for a waiter that is told within the turn of the loop in which the answer is read."""
        self._connection.check()
        if self._stopped:
            raise store.Unavailable(_CLOSED)
        if (size := len(headers) + len(payload)) > (most := self._connection.max_payload):
            raise store.TooLarge(f"{subject}: {size} bytes, the NATS server takes at most {most}")
        self._next += 1
        token = b"%x" % self._next
        if headers:
            frame = b"HPUB %b %b.%b %d %d\r\n%b%b\r\n" % (
                subject.encode(),
                self._inbox,
                token,
                len(headers),
                size,
                headers,
                payload,
            )
        else:
            frame = b"PUB %b %b.%b %d\r\n%b\r\n" % (subject.encode(), self._inbox, token, len(payload), payload)
        loop = self._loop
        pending = _Pending(answer, frame, subject, loop.time() + _RESEND_AFTER, deadline, resend)
        self._pending[token] = pending
        self._bytes += len(frame)
        self._send(pending)
        self._watch()

    def _watch(self) -> None:
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    async def room(self, deadline: float) -> None:
        """Wait for a place in flight. The sweep ends the wait at the deadline: a timer each would cost more."""
        if self._tap is None:
            await self.start()
            if not self.crowded:
                return
        waiter = self._loop.create_future()
        self._waiting.append((waiter, deadline))
        self._watch()
        try:
            await waiter
        except asyncio.CancelledError:
            self._let_in()  # a place that was given to us goes to the next one
            raise

    def _let_in(self) -> None:
        """One message left: one may enter."""
        while self._waiting and len(self._pending) < self._limit and self._bytes < self._limit_bytes:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _send(self, pending: _Pending) -> None:
        pending.sent = True
        pending.tries += 1
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(pending)
        if len(self._out) == _BURST:
            self._flush()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not out:  # a burst went before the turn of the loop ended
            return
        if not self._connection.write(b"".join([pending.frame for pending in out])):
            for pending in out:
                pending.sent = False
                pending.tries -= 1

    def _answers(self, taken: list[frames.Frame]) -> None:
        skip, take = self._skip, self._pending.pop
        for subject, _, _, payload in taken:
            try:
                ack = _decode(payload) if payload else Ack(error=NOBODY)
            except msgspec.DecodeError:
                continue  # not JetStream's: a plain subscriber answered; the deadline decides
            pending = take(subject[skip:], None)
            if pending is None:  # a second answer to a message that was sent twice
                continue
            self._bytes -= len(pending.frame)
            ack.tries = pending.tries
            answer = pending.answer
            if not answer.done():
                answer.set_result(ack)
            if self._waiting:
                self._let_in()

    def _forget(self, token: bytes) -> None:
        self._bytes -= len(self._pending.pop(token).frame)
        if self._waiting:
            self._let_in()

    def _fail(self, token: bytes, error: store.StoreError) -> None:
        pending = self._pending[token]
        self._forget(token)
        if not pending.answer.done():
            pending.answer.set_exception(error)

    def _sweep(self) -> None:
        now = self._loop.time()
        for token, pending in list(self._pending.items()):
            if pending.answer.done():  # whoever waited was cancelled
                self._forget(token)
            elif now >= pending.deadline:
                self._fail(token, _too_late(pending))
            elif pending.resend and pending.sent and now >= pending.again_at:
                pending.again_at = now + _RESEND_AFTER * 2 ** min(pending.tries, 4)
                self._resent += 1
                self._send(pending)
        for waiter, deadline in self._waiting:
            if now >= deadline and not waiter.done():
                waiter.set_exception(
                    store.Unavailable(f"{len(self._pending)} messages wait for NATS; this one was not sent in time")
                )
        # One who was let in and then could not send has let nobody in after itself.
        self._waiting = deque(one for one in self._waiting if not one[0].done())
        for _ in range(min(len(self._waiting), self._limit - len(self._pending))):
            self._let_in()
        self._sweeper = self._loop.call_later(_SWEEP, self._sweep) if self._pending or self._waiting else None

    def _connected(self) -> None:
        """Nothing answers what the old connection carried: it is sent again, or given back to who may send it again."""
        for token, pending in list(self._pending.items()):
            if pending.resend or not pending.sent:
                self._resent += pending.sent
                self._send(pending)
            else:
                self._fail(token, _interrupted(pending))

    def _violated(self, subject: str, words: str) -> None:
        for token, pending in list(self._pending.items()):
            if (fault := self._connection.fault) is not None:
                self._fail(token, fault)
            elif pending.subject == subject:
                self._fail(token, connect.not_permitted(subject, words, self._connection.options.name))


def _interrupted(pending: _Pending) -> store.Unavailable:
    return store.Unavailable(
        f"{pending.subject}: the connection ended before an answer came; the message may be stored"
    )


def _too_late(pending: _Pending) -> store.Unavailable:
    if not pending.tries:
        return store.Unavailable(f"{pending.subject}: NATS is away; nothing was sent")
    return store.Unavailable(
        f"{pending.subject}: no answer from NATS in time after {pending.tries} tries; the message may be stored"
    )


def as_api_error(error: _Error) -> api.ApiError:
    return api.ApiError(error.code, error.err_code, error.description)
