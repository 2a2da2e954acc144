"""A parser of the NATS client protocol that stands in front of nats-py's own, on the same connection.

Frames of tapped subscriptions (MSG and HMSG of a sid that is ours) are cut out of the bytes and handed over in lists,
without a task, a queue or a header dictionary per message. Everything else goes to the parser behind, complete frames
only, so that it never holds half of anything. Half a frame waits here for the next read; `reset` (a reconnect)
forgets it. It cannot drop: a tap's list is unbounded, and whoever taps bounds what it asks the server for.

A malformed line raises ProtocolError, on which nats-py reconnects. `-ERR` lines are also shown to `on_error` as they
came, because nats-py lower-cases them.

Rules: design.md section 2 ("JetStream rules"); spec/eventstore-nats.md measurement 3 and section 2.
"""

from collections.abc import Callable
from typing import Protocol

from nats.errors import ProtocolError

#: One delivered message: subject, reply (may be empty), headers (the raw block `NATS/1.0 …`, empty for MSG), payload.
#: A plain tuple: a named one costs as much to make as the rest of its parsing.
Frame = tuple[bytes, bytes, bytes, bytes]
Take = Callable[[list[Frame]], None]

_CRLF = b"\r\n"
_LARGEST = 72 << 20  # nats-server takes no max_payload over 64 MiB; a frame that says more would be waited for in vain
_LONGEST_LINE = 64 * 1024  # nats-server's INFO grows with its cluster; nothing longer is a control line
_EMPTY = b""


def _nowhere(frame: Frame) -> None:
    """Before the first frame of a tap."""


class Behind(Protocol):
    """The parser that gets what is not ours."""

    def reset(self) -> None: ...

    async def parse(self, data: bytes = b"") -> None: ...


class Splitter:
    """`parse` and `reset` as nats-py calls them; `taps` maps a sid to who takes its frames."""

    def __init__(self, behind: Behind, *, on_error: Callable[[str], None]) -> None:
        self.taps: dict[bytes, Take] = {}
        self._behind = behind
        self._on_error = on_error
        self._tail = b""
        self._pieces: list[bytes] = []  # reads that do not complete the frame yet; joined once
        self._missing = 0
        self._life = 0

    def reset(self) -> None:
        self._tail = b""
        self._pieces.clear()
        self._missing = 0
        self._life += 1
        self._behind.reset()

    async def parse(self, data: bytes = b"") -> None:
        if self._missing > len(data):
            self._pieces.append(data)
            self._missing -= len(data)
            return
        if self._pieces:
            data = b"".join((self._tail, *self._pieces, data))
            self._pieces.clear()
        elif self._tail:
            data = self._tail + data
        self._missing = 0
        self._tail = b""
        life = self._life
        foreign, rest = self._split(data)
        if rest < len(data):
            self._tail = data[rest:]
        for start, end in foreign:
            await self._behind.parse(data[start:end])
            if self._life != life:  # a reconnect began inside: these bytes belong to a dead connection
                return

    def _split(self, data: bytes) -> tuple[list[tuple[int, int]], int]:
        """Hand our frames over. Returns what is foreign, as (start, end) of whole frames, and where half a frame
        begins; `_missing` says how many bytes that one lacks, when its size is known."""
        taps = self.taps
        find = data.find
        length = len(data)
        taken: dict[bytes, list[Frame]] = {}
        current = b""  # frames of one tap come in runs
        add: Callable[[Frame], None] = _nowhere
        foreign: list[tuple[int, int]] = []
        at = 0
        while at < length:
            line = find(_CRLF, at)
            if line < 0:
                if length - at > _LONGEST_LINE:
                    raise ProtocolError
                break
            first = data[at]
            if first == 72:  # HMSG subject sid [reply] header-size total-size
                parts = data[at + 5 : line].split()
                try:
                    size = int(parts[-1])
                    body = line + 2 + int(parts[-2])
                    sid = parts[1]
                    reply = parts[2] if len(parts) == 5 else _EMPTY
                except (IndexError, ValueError):
                    raise ProtocolError from None
                if body <= line:  # headers of a negative size
                    raise ProtocolError
            elif first == 77:  # MSG subject sid [reply] size
                parts = data[at + 4 : line].split()
                try:
                    size = int(parts[-1])
                    body = line + 2
                    sid = parts[1]
                    reply = parts[2] if len(parts) == 4 else _EMPTY
                except (IndexError, ValueError):
                    raise ProtocolError from None
            else:
                if data.startswith(b"-ERR", at):
                    self._on_error(data[at + 4 : line].decode(errors="replace").strip().strip("'"))
                foreign.append((at, line + 2))
                at = line + 2
                continue
            end = line + size + 4
            if body > end - 2:  # a negative size, or more headers than there are bytes
                raise ProtocolError
            if end > length:
                if size > _LARGEST:
                    raise ProtocolError
                self._missing = end - length
                break
            if sid == current:
                add((parts[0], reply, data[line + 2 : body], data[body : end - 2]))
            elif sid in taps:
                current = sid
                add = taken.setdefault(sid, []).append
                add((parts[0], reply, data[line + 2 : body], data[body : end - 2]))
            else:
                foreign.append((at, end))
            at = end
        for sid, frames in taken.items():
            taps[sid](frames)
        return foreign, at
