"""Heads of requests that were understood before, so that the next request with the same head need not be parsed.

A router asks with one head, in which nothing changes but the body's length. `remember` takes a request that the parser
has read to its end, and that was the whole of one read; `find` knows another one by the very same bytes around the
digits of its content-length. Whatever else it could mean was decided when it was parsed: equal bytes parse equally.

    not remembered                         because
    a head over 2 KiB, without a body      rare
    chunked, Expect, Upgrade               more than the head decides what happens
    another method than POST, HTTP/1.0     rare; an answer to HEAD has no body
    one whose refusal was the answer       it costs nothing to be slow there

Heads that change with every request (a trace's id) are never found; that costs a microsecond. Memory is bounded: at
`MOST` heads all are forgotten. Not here: what a head means (routes), connections. Nothing raises.

Rules: RFC 9112 section 6.3 (the body ends after content-length bytes).
"""

from typing import Final, NamedTuple

from subscribers.http import routes

MOST: Final = 256
LONGEST: Final = 2048
_NAMES: Final = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
_UNUSUAL: Final = (b"transfer-encoding", b"expect", b"upgrade")
_DIGITS: Final = 9  # of a length; a longer one is refused anyway


class Known(NamedTuple):
    """A request that came whole."""

    handler: routes.Handler
    path: bytes
    body: bytes


class _Request(NamedTuple):
    head: bytes  # without its final empty line, and without the digits of its length
    length: int
    body: bytes


def split(request: bytes) -> _Request | None:
    """Exactly one request with a body, as its head and that; None for anything else."""
    end = request.find(b"\r\n\r\n", 0, LONGEST)
    if end < 0:
        return None
    for name in _NAMES:
        if (at := request.find(name, 0, end)) >= 0:
            start = at + len(name)
            stop = request.find(b"\r\n", start, end + 2)
            digits = request[start:stop]
            if not digits.isdigit() or len(digits) > _DIGITS:
                return None
            length, body = int(digits), request[end + 4 :]
            if not length or len(body) != length:
                return None
            return _Request(request[:start] + request[stop:end], length, body)
    return None


class KnownHeads:
    """One per listener. `limit` is the longest body in bytes that any route takes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heads: dict[bytes, tuple[routes.Handler, bytes]] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, buffer: memoryview, size: int) -> Known | None:
        """The request in the first `size` bytes, when that is all of it and its head is known."""
        if not self._heads or (request := split(bytes(buffer[:size]))) is None or request.length > self._limit:
            return None
        known = self._heads.get(request.head)
        return None if known is None else Known(*known, request.body)

    def remember(self, buffer: memoryview, size: int, head: routes.Head, handler: routes.Handler) -> None:
        """The request in the first `size` bytes was read to its end as `head`, and `handler` is its route's."""
        if head.method != b"POST" or head.version != "1.1" or any(name in head.headers for name in _UNUSUAL):
            return
        request = split(bytes(buffer[:size]))
        if request is None or request.length != head.length or request.head in self._heads:
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[request.head] = handler, head.path
