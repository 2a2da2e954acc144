"""The two logs as the rest of Warmlog sees them: protocols, positions and errors. Implementations: memory, jetstream.

    EventStore   WARMLOG, the control log: events in one total order, appended exactly once
    KVLog        WARMLOG_KV: what engines hold; at-least-once, may lose its tail
    Bus          messages that are not stored: the return channel and lookup requests

    StoreError
    ├── Unavailable        try again later: no server, no leader, a deadline passed (the append may be stored)
    ├── StreamFull         the stream refuses more; an operator has to act
    │   └── Shed           it is nearly full, and keeps what is left for events worth more (shedding)
    ├── Regressed          the stream lost its end, or is another one: fold again from its start
    └── Refused            never try again as it is
        ├── Conflict       another event was appended to the subject first
        ├── TooLarge       over 256 KiB
        ├── IdentityAlarm  the id is taken by an event with another body
        └── Misconfigured  an old server, a drifted or missing stream, missing permission

Rules: design.md section 2; spec/eventstore-nats.md measurements 1, 2, 3, 8.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple, Protocol

import msgspec

from eventstore import envelope


class StoreError(Exception):
    """Something that a log could not do; the message is one line for an operator."""


class Unavailable(StoreError): ...


class StreamFull(StoreError): ...


class Shed(StreamFull): ...


class Regressed(StoreError):
    """What was acknowledged or read up to `known` is not in the stream any more; `found` is its extent now."""

    def __init__(self, stream: str, known: "Position", found: "Extent") -> None:
        super().__init__(
            f"stream {stream} was known up to {known}; now it is incarnation {found.incarnation} and ends at "
            f"{found.last}: it was restored or lost its end; fold it again from its start"
        )
        self.known, self.found = known, found


class Refused(StoreError): ...


class Conflict(Refused):
    """The subject's last sequence is not the expected one. `last` is what it is, when the server said so."""

    def __init__(self, subject: str, expected: int, last: int | None) -> None:
        super().__init__(f"{subject}: expected last sequence {expected}, it is {'unknown' if last is None else last}")
        self.subject, self.expected, self.last = subject, expected, last


class TooLarge(Refused): ...


class IdentityAlarm(Refused): ...


class Misconfigured(Refused): ...


class Position(NamedTuple):
    """A moment of one log. Positions of two incarnations cannot be compared: the stream lost its end between them."""

    incarnation: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.sequence}"


class Appended(NamedTuple):
    sequence: int
    duplicate: bool  # this very event was stored before; its body was compared


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An event as it lies in the log. `body` is the envelope's bytes, `time_ns` the stream's clock."""

    sequence: int
    time_ns: int
    subject: str
    body: bytes


class KVMessage(NamedTuple):
    sequence: int
    time_ns: int
    subject: str
    payload: bytes


class Extent(NamedTuple):
    """First and last sequence now in a stream; an empty one has last < first."""

    first: int
    last: int
    incarnation: str


class EventStore(Protocol):
    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> Appended:
        """Append once: resent until acknowledged or the deadline passes. `expected` is the last stream sequence of
        the event's subject (0 = none). Raises any StoreError above; after Unavailable the same event may be given
        again and is stored once. Regressed is raised only to who gives an expectation: it comes from a world that is
        gone."""
        ...

    async def get(self, sequence: int) -> Stored | None:
        """The event of this sequence; None when it is not there (yet, or any more)."""
        ...

    async def last(self, subject: str) -> Stored | None: ...

    async def last_before(
        self, subject: str, *, sequence: int | None = None, time_ns: int | None = None
    ) -> Stored | None:
        """The newest event of the subject at or before a sequence or a stream time; give one of the two."""
        ...

    async def extent(self) -> Extent: ...

    async def verify(self, known: Position) -> Extent:
        """For a role that folded or was acknowledged up to `known`: the extent, when `known` still lies in it.
        Else the incarnation is raised, if nobody did so before, and Regressed says so."""
        ...

    def read(
        self, *, after: int = 0, subject: str | None = None, follow: bool = False
    ) -> AsyncGenerator[list[Stored], None]:
        """Everything past `after` in order, in lists. Without `follow` it ends at the end of the stream at the time
        of the call. With it, it goes on for ever, across reconnects, and yields an empty list whenever it has caught
        up. A hole in the sequence is never skipped silently: it is re-read, and what retention dropped is known.
        Raises Regressed when the stream ends before `after` or before what was read already."""
        ...


class KVLog(Protocol):
    async def publish(self, subject: str, payload: bytes, *, deadline: float = 2.0) -> int:
        """The stream sequence. Raises Unavailable when no ack came in time: it may be stored all the same."""
        ...

    async def extent(self) -> Extent: ...

    async def verify(self, known: Position) -> Extent:
        """As EventStore.verify."""
        ...

    def read(self, *, after: int = 0, follow: bool = False) -> AsyncGenerator[list[KVMessage], None]:
        """As EventStore.read, without a subject."""
        ...


Answer = Callable[[bytes], Awaitable[bytes]]
Hear = Callable[[bytes], None]


class Bus(Protocol):
    async def send(self, subject: str, payload: bytes) -> None:
        """Fire and forget."""
        ...

    async def hear(self, subject: str, on_message: Hear) -> None:
        """Call `on_message` for each message from now on, across reconnects."""
        ...

    async def serve(self, subject: str, answer: Answer, *, queue: str = "") -> None:
        """Answer requests from now on."""
        ...

    async def request(self, subject: str, payload: bytes, *, timeout: float) -> bytes: ...
