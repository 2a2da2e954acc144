"""Reading a stream in order and without a hole: bounded pulls over an ephemeral consumer, every sequence checked.

Two pulls overlap, each bounded in messages and bytes, and new ones are asked for only as the caller takes what came:
a slow caller bounds memory, not the other way round. Positions come from the acknowledgement subject of each message
(both of its shapes); no header is parsed.

Following a stream with a pause, one pull is open at a time: it waits for a message, brings all that are there and ends.
The next one comes a pause after it was asked. A message on its own is handed over at once; many come together, and cost
nats-server and us a fraction of what they cost one by one.

What can go wrong, and what is done:

    consumer sequence jumps             frames were lost on the way: a new consumer from the last good one
    stream sequence jumps, consumer's   the server had nothing there: retention dropped it (told to `on_hole`), or it
    does not                            is looked at a second time, then told as missing
    silence for 2.5 heartbeats, or      a new consumer from the last good one, with back-off; for ever when
    pending messages that do not come,  following, else until `patience` seconds brought nothing
    consumer or server gone, reconnect
    end below what was read             Regressed

nats-py's ordered consumer and KV watch are not used: they drop silently when their buffer overflows.

Rules: design.md section 2; spec/eventstore-nats.md measurement 3 and section 2; JS-07, JS-09, JS-10, JS-13 to JS-15.
"""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import structlog

from eventstore import store
from eventstore.jetstream import api, connect, frames, stream

log = structlog.get_logger(__name__)


Gap = tuple[int, int]  # first and last missing sequence


class Positioned(Protocol):
    @property
    def sequence(self) -> int: ...


T = TypeVar("T", bound=Positioned)
Make = Callable[[int, int, str, bytes], T]  # sequence, time_ns, subject, payload

_HEARTBEAT: Final = 1.0
_SILENCE: Final = 2.5 * _HEARTBEAT
_EXPIRES: Final = 10.0
_IDLE_CONSUMER: Final = 60.0  # the server forgets a consumer that nobody pulls from
_OVERLAP: Final = 2
_LONGEST_PAUSE: Final = 2.0
_NS: Final = 1_000_000_000
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")  # in a consumer's name, which is a subject token


class Hole(NamedTuple):
    """Sequences `first`..`last` that a read had to step over."""

    stream: str
    first: int
    last: int
    why: str  # "retention" or "missing"


class Settings(NamedTuple):
    """Bounds of one read: at most two pulls of this size are under way or waiting for the caller."""

    batch: int = 10_000
    max_bytes: int = 8 << 20
    pause: float = 0.0  # seconds between two pulls while following; 0: pulls overlap, every message comes by itself
    patience: float = 10.0  # seconds without progress before a read that does not follow gives up
    on_hole: Callable[[Hole], None] | None = None


class _Lost(Exception):
    """This consumer is of no use any more; the message says why."""


class _LookAgain(_Lost):
    """Numbers without messages that nothing explains yet."""

    def __init__(self, found: list[Gap]) -> None:
        super().__init__(f"sequences {found[0][0]} to {found[0][1]} are missing")
        self.gaps = found


def tail_of(reply: bytes) -> int:
    """How many tokens from sequence to the end of an acknowledgement subject, by its shape.

    `$JS.ACK.<stream>.<consumer>.<n>.<sequence>.<consumer's sequence>.<time>.<pending>`, or with domain and account hash
    after ACK, and then perhaps with a random token at the end. Raises _Lost for anything else.
    """
    tokens = reply.count(b".") + 1
    if not reply.startswith(b"$JS.ACK.") or tokens not in (9, 11, 12):
        raise _Lost(f"{reply!r} is no acknowledgement subject")
    return 5 if tokens == 12 else 4


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise _Lost(f"the server wrote {text[:40]!r} where a number belongs") from error


class _Consumer(Generic[T]):
    """One ephemeral consumer: from `open` until `_Lost` or `close`."""

    def __init__(
        self, connection: connect.Connection, name: str, settings: Settings, make: Make[T], *, pause: float = 0.0
    ) -> None:
        self._connection = connection
        self._stream = name
        self._settings = settings
        self._pause = pause
        self._overlap = 1 if pause else _OVERLAP
        self._ask_at = 0.0  # loop time
        self._make = make
        self._inbox = connection.inbox()
        self._skip = len(self._inbox) + 1
        self._name = _UNSAFE.sub("-", f"wl-{connection.options.name}-{self._inbox.rpartition('.')[2]}")
        self._life = connection.life
        self._frames: list[frames.Frame] = []
        self._wake = asyncio.Event()
        self._pulls: dict[bytes, int] = {}  # token -> messages still owed, oldest first
        self._asked = 0
        self._tap: connect.Tap | None = None
        self._delivered = 0
        self._tail = 0  # shape of the acknowledgement subjects, once one was seen
        self.sequence = 0  # of the last message handed over
        self.pending = 0

    async def open(self, *, after: int, subject: str | None) -> None:
        self.sequence = after
        self._tap = await self._connection.tap(f"{self._inbox}.*", self._take)
        config: dict[str, object] = {
            "name": self._name,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int(_IDLE_CONSUMER * _NS),
        }
        verb = f"CONSUMER.CREATE.{self._stream}.{self._name}"
        if subject is not None:
            config["filter_subject"] = subject
            verb += f".{subject}"
        try:
            made = await api.call(self._connection, verb, {"stream_name": self._stream, "config": config})
        except api.ApiError as error:
            raise api.as_store_error(error, self._stream) from error
        self.pending = made.get("num_pending", 0)
        self._connection.on_connect.append(self._wake.set)

    def _take(self, taken: list[frames.Frame]) -> None:
        self._frames.extend(taken)
        self._wake.set()

    def ask(self) -> None:
        """Top up to two pulls. Called when the caller wants more, so that what waits for him is bounded."""
        while len(self._pulls) < self._overlap:
            self._asked += 1
            token = b"%d" % self._asked
            body = msgspec.json.encode(
                {
                    "batch": self._settings.batch,
                    "max_bytes": self._settings.max_bytes,
                    "expires": int(_EXPIRES * _NS),
                    "idle_heartbeat": int(_HEARTBEAT * _NS),
                    # With an expiry this is a single shot: it waits for a message and ends with the last one there is.
                    "no_wait": self._pause > 0,
                }
            )
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}".encode()
            frame = b"PUB %b %b.%b %d\r\n%b\r\n" % (subject, self._inbox.encode(), token, len(body), body)
            if not self._connection.write(frame):
                raise _Lost("the connection to NATS was lost")
            self._pulls[token] = self._settings.batch

    async def next(self) -> list[T]:
        """What came since the last call; waits for something. May be empty (a heartbeat). Raises _Lost."""
        if self._pause and not self._pulls and not self._frames:
            loop = asyncio.get_running_loop()
            if (wait := self._ask_at - loop.time()) > 0:
                await asyncio.sleep(wait)
            self._ask_at = loop.time() + self._pause
        self.ask()
        if not self._frames:
            silent = False

            def give_up() -> None:
                nonlocal silent
                silent = True
                self._wake.set()

            timer = asyncio.get_running_loop().call_later(_SILENCE, give_up)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
            if silent and not self._frames:
                raise _Lost(f"the server said nothing for {_SILENCE:g} s")
        self._wake.clear()
        if self._connection.life != self._life:
            # A memory consumer does not outlive its server, and frames of the old connection may be lost.
            raise _Lost("the connection to NATS was renewed")
        taken, self._frames = self._frames, []
        return self._sort_out(taken)

    def _sort_out(self, taken: list[frames.Frame]) -> list[T]:
        """Our messages of some frames, each checked to be the consumer's next. The inner loop of every replay."""
        out: list[T] = []
        add, make = out.append, self._make
        delivered = self._delivered
        number = self.sequence
        reply = b""
        for subject, back, headers, payload in taken:
            if not back:
                self._status(subject, headers, delivered)
                continue
            reply = back
            if not self._tail:
                self._tail = tail_of(reply)
            try:
                _, sequence, delivery, time_ns, *_ = reply.rsplit(b".", self._tail)
                number = int(sequence)
                delivered += 1
                if int(delivery) != delivered:
                    raise _Lost(f"hole after {self.sequence}: message {delivered} of the consumer did not arrive")
                add(make(number, int(time_ns), subject.decode(), payload))
            except ValueError as error:
                raise _Lost(f"{reply!r} is no acknowledgement subject") from error
        if reply:
            self._settle(delivered - self._delivered)
            self._delivered = delivered
            self.sequence = number
            self.pending = _number(b".".join(reply.rsplit(b".", self._tail)[4:5]))
        return out

    def _settle(self, count: int) -> None:
        """Pulls are served oldest first."""
        for token in list(self._pulls):
            if self._pulls[token] > count:
                self._pulls[token] -= count
                return
            count -= self._pulls.pop(token)

    def _status(self, subject: bytes, headers: bytes, delivered: int) -> None:
        code, words = api.status(headers)
        if code == 100:  # a heartbeat; it also says how many messages should have come
            sent = _number(api.header(headers, b"Nats-Last-Consumer") or b"0")
            if sent > delivered:
                raise _Lost(f"hole after {self.sequence}: message {sent} of the consumer did not arrive")
            return
        if code == 503:
            raise _Lost("nobody serves the consumer")
        if code == 409 and ("Size" not in words and "Batch" not in words):
            raise _Lost(f"the consumer ended: {words}")
        self._pulls.pop(subject[self._skip :], None)  # expired, or its bytes are used up

    async def close(self) -> None:
        with contextlib.suppress(ValueError):
            self._connection.on_connect.remove(self._wake.set)
        if self._tap is not None:
            await self._tap.end()
        self._connection.write(
            b"PUB $JS.API.CONSUMER.DELETE.%b.%b 0\r\n\r\n" % (self._stream.encode(), self._name.encode())
        )


class Reader(Generic[T]):
    """Reads one stream on one connection; `read` may run any number of times at once."""

    def __init__(
        self, connection: connect.Connection, name: str, make: Make[T], settings: Settings | None = None
    ) -> None:
        self._connection = connection
        self._stream = name
        self._make = make
        self._settings = settings or Settings()
        self.restarts = 0  # consumers made anew
        self.holes = 0

    async def read(
        self, *, after: int = 0, subject: str | None = None, follow: bool = False
    ) -> AsyncGenerator[list[T], None]:
        """As EventStore.read says. An async generator: close it (`contextlib.aclosing`) when leaving it early."""
        loop = asyncio.get_running_loop()
        position: store.Position | None = None  # of this read, once something is known
        until: int | None = None  # where a read that does not follow ends
        seen: set[Gap] = set()  # gaps that were looked at once
        failures, moved_at = 0, loop.time()
        while True:
            consumer = _Consumer(
                self._connection,
                self._stream,
                self._settings,
                self._make,
                pause=self._settings.pause if follow else 0.0,
            )
            try:
                await self._connection.wait_connected(None if follow else self._settings.patience)
                extent = await self._extent(position, after)
                position = store.Position(extent.incarnation, after)
                if until is None:
                    until = extent.last
                if not follow and after >= until:
                    return
                self._retention(after, extent.first - 1)
                after = max(after, extent.first - 1)
                await consumer.open(after=after, subject=subject)
                if consumer.pending == 0:
                    if not follow:
                        return
                    yield []
                heard_at = loop.time()
                while True:
                    came = await consumer.next()
                    if not came:
                        # Heartbeats alone: retention dropped what was pending, or the consumer is stuck.
                        if consumer.pending and loop.time() - heard_at > _SILENCE:
                            raise _Lost(f"{consumer.pending} messages are pending and none comes")
                        continue
                    if subject is None and consumer.sequence - after != len(came):
                        await self._explain(gaps(after, came), seen)
                    seen.clear()
                    failures, moved_at = 0, loop.time()
                    after = consumer.sequence
                    position = store.Position(position.incarnation, after)
                    if not follow and after >= until:
                        came = [one for one in came if one.sequence <= until]
                    if came:
                        yield came
                    if not follow and (after >= until or consumer.pending == 0):
                        return
                    if follow and consumer.pending == 0:
                        yield []
                    heard_at = loop.time()
            except (_Lost, store.Unavailable) as trouble:
                self._connection.check()
                if not follow and loop.time() - moved_at > self._settings.patience:
                    raise store.Unavailable(f"reading {self._stream} stopped at {after}: {trouble}") from trouble
                self.restarts += 1
                if isinstance(trouble, _LookAgain):
                    seen.update(trouble.gaps)
                    continue
                failures += 1
                if failures.bit_count() == 1:
                    log.info("reading goes on with a new consumer", stream=self._stream, after=after, why=str(trouble))
                pause = min(_LONGEST_PAUSE, 0.02 * 2 ** min(failures, 8))
                await asyncio.sleep(pause * (0.5 + random.random() / 2))
            finally:
                await consumer.close()

    async def _extent(self, position: store.Position | None, after: int) -> store.Extent:
        if position is not None:
            return await stream.verify(self._connection, self._stream, position)
        found = await stream.extent(self._connection, self._stream)
        if found.last < after:
            # Only named by the caller, perhaps mistyped: `verify` is for who knows.
            raise store.Regressed(self._stream, store.Position(found.incarnation, after), found)
        return found

    async def _explain(self, found: list[Gap], seen: set[Gap]) -> None:
        """Numbers without messages: retention, or a thing to look at twice before it is told as missing."""
        extent = await stream.extent(self._connection, self._stream)
        kept = [gap for gap in found if gap[1] >= extent.first]
        if not seen.issuperset(kept):
            raise _LookAgain(kept)
        for gap in found:
            self._tell(Hole(self._stream, *gap, "missing" if gap in kept else "retention"))

    def _retention(self, after: int, dropped_to: int) -> None:
        """A read from the very beginning misses nothing: it begins at the first message there is."""
        if after and dropped_to > after:
            self._tell(Hole(self._stream, after + 1, dropped_to, "retention"))

    def _tell(self, hole: Hole) -> None:
        self.holes += 1
        log.warning(
            "events are missing from the stream", stream=hole.stream, first=hole.first, last=hole.last, why=hole.why
        )
        if self._settings.on_hole is not None:
            self._settings.on_hole(hole)


def gaps(after: int, came: Sequence[Positioned]) -> list[Gap]:
    """First and last number of each run that `came`, read after `after`, does not have."""
    found = []
    for one in came:
        if one.sequence != after + 1:
            found.append((after + 1, one.sequence - 1))
        after = one.sequence
    return found
