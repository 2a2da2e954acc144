"""One HTTP/1.1 connection of port 8080: httptools on asyncio, for lookups that must cost microseconds.

A connection is a small state machine, see `Stage`. Handlers are synchronous, so answers to pipelined requests are in
order by construction. What arrives faster than it may be answered (too many in one turn of the loop, or a client
that does not read) waits in a queue that one read buffer bounds, and the socket is not read meanwhile.

A router asks with the same head again and again. One that was understood is remembered with its route (`knownheads`);
a request that comes whole and differs from it in its length alone is answered without parsing it anew.

Not here: TLS, HTTP/2, WebSockets (without a body an Upgrade is answered as if it had not been asked for, then the
connection ends); which answer a request gets (routes); accepting, and the clock that ends the slow (hotpath).

When it fails: a request that is not HTTP gets 400 with one line and the connection ends; a handler's bug is logged
and answered 500; a client that is slow to ask gets 408; one that does not read is cut off.

Rules: design.md section 4; RFC 9112; spec/inferencecache.md section 1.1 (header timeout of 5 s).
"""

import asyncio
import collections
import enum
from typing import Final, Protocol, cast

import httptools
import msgspec
import structlog

from subscribers.http import knownheads, replies, routes

log = structlog.get_logger(__name__)

#: Answers to pipelined requests in one turn of the loop, so that one client cannot hold it (design.md section 5).
ANSWERS_PER_TURN: Final = 8
#: A refused body up to this size is read and dropped, which keeps the connection usable.
_DROPPABLE: Final = 64 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes and seconds. Times are kept to within a quarter of the smallest one, at most a second."""

    body: int = 8 * 1024 * 1024
    head: int = 16 * 1024
    connections: int = 1024
    head_seconds: float = 5.0  # from accept, or from the first byte of a later request, to the end of the head
    body_seconds: float = 30.0  # from the end of the head to the end of the body
    idle_seconds: float = 75.0  # between requests
    write_seconds: float = 30.0  # for a client that does not read
    linger_seconds: float = 2.0  # for reading on after an early refusal, so that the client gets to see it


class Stage(enum.Enum):
    IDLE = "idle"  # between requests
    HEAD = "head"
    BODY = "body"
    LAST = "last"  # nothing more is parsed: what waits is answered, then the connection ends
    LINGER = "linger"  # all is answered and our side closed: input is dropped until the client closes too


class Owner(Protocol):
    """What a connection needs from the listener that accepted it."""

    routes: routes.Routes
    limits: Limits
    writer: replies.Writer
    buffer: memoryview
    heads: knownheads.KnownHeads
    draining: bool
    loop: asyncio.AbstractEventLoop

    def admit(self, connection: "Connection") -> bool: ...

    def forget(self, connection: "Connection") -> None: ...

    def answered(self, path: bytes, code: int) -> None: ...


class Item:
    """A parsed request that waits for its answer."""

    __slots__ = ("body", "handler", "head_only", "keep", "path")

    def __init__(self, handler: routes.Handler, body: bytes, path: bytes, *, keep: bool, head_only: bool) -> None:
        self.handler, self.body, self.path, self.keep, self.head_only = handler, body, path, keep, head_only


class Connection(asyncio.BufferedProtocol):
    """One client. Methods named on_… are called by httptools, in the order of RFC 9112's grammar."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._head = routes.Head()
        self._handler: routes.Handler | None = None
        self._resolved: routes.Handler | None = None  # the same where it is the route's, and the head may be remembered
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0  # of complete header fields and trailers
        self._held_bytes = 0  # read, but seen in no callback yet
        self._progress = False  # this read completed a head, a piece of a body or a request
        self._stage_is_new = False
        self._keep = True
        self._queue: collections.deque[Item | bytes] = collections.deque()
        self._budget = ANSWERS_PER_TURN
        self._write_blocked = False
        self._input_is_left = False
        self._turn: asyncio.Handle | None = None
        self.stage = Stage.IDLE
        self.deadline = 0.0
        self.idle_since = 0.0

    # The transport's side ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not derive from it
        self.idle_since = self._owner.loop.time()
        self.deadline = self.idle_since + self._owner.limits.head_seconds
        if not self._owner.admit(self):
            self._refuse(replies.error(503, "too many connections; try again", extra=b"retry-after: 1\r\n"))
            self._work()

    def connection_lost(self, error: Exception | None) -> None:
        self.stage = Stage.LINGER
        self._queue.clear()
        if self._turn is not None:
            self._turn.cancel()
        self._owner.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # One buffer serves all connections: it is filled and parsed within one callback of the loop.
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.stage is Stage.LAST or self.stage is Stage.LINGER:
            return
        self._budget = ANSWERS_PER_TURN
        between = self.stage is Stage.IDLE and not (self._queue or self._write_blocked)
        if between and (known := self._owner.heads.find(self._owner.buffer, nbytes)) is not None:
            self._progress = True
            self._answer(Item(known.handler, known.body, known.path, keep=True, head_only=False))
            self._after_read(nbytes)
            return
        self._progress = False
        try:
            self._parser.feed_data(self._owner.buffer[:nbytes])
        except httptools.HttpParserUpgrade:
            self._end_after_queue()
        except httptools.HttpParserCallbackError:
            raise  # a bug of ours: the loop logs it and closes the connection
        except httptools.HttpParserError as error:
            self._refuse(replies.error(400, f"not an HTTP/1.1 request: {error}"))
        if between and self.stage is Stage.IDLE and self._resolved is not None:
            self._owner.heads.remember(self._owner.buffer, nbytes, self._head, self._resolved)
        self._after_read(nbytes)

    def eof_received(self) -> bool:
        """A client that closed its side still gets what it asked for; an unfinished request is dropped."""
        if self._queue and self.stage is not Stage.LINGER:
            self._end_after_queue()
            return True
        return False

    def pause_writing(self) -> None:
        self._write_blocked = True
        self._transport.pause_reading()
        self.deadline = self._owner.loop.time() + self._owner.limits.write_seconds

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._budget = ANSWERS_PER_TURN
        self._set_deadline()
        self._work()

    # The parser's side ------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.stage is not Stage.IDLE:
            return
        self._head.clear()
        self._handler = self._resolved = None
        self._body_bytes = self._head_bytes = self._held_bytes = 0
        self.stage = Stage.HEAD
        self._stage_is_new = True

    def on_url(self, url: bytes) -> None:
        if self.stage is Stage.HEAD:
            self._head.target += url  # may come in pieces
            self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        if self.stage is not Stage.HEAD:
            return  # a trailer (RFC 9110 section 6.5.1: may be dropped), or nothing counts any more
        headers = self._head.headers
        name = name.lower()
        headers[name] = value if name not in headers else headers[name] + b", " + value

    def on_headers_complete(self) -> None:
        if self.stage is not Stage.HEAD:
            return
        head = self._head
        head.method = self._parser.get_method()
        head.version = self._parser.get_http_version()
        length = head.headers.get(b"content-length")
        head.length = None if length is None else int(length)  # digits only: llhttp has checked
        head.chunked = b"transfer-encoding" in head.headers
        self._keep = head.version == "1.1" and self._parser.should_keep_alive()
        self.stage = Stage.BODY
        self._stage_is_new = self._progress = True
        if head.has_body and b"upgrade" in head.headers and self._parser.should_upgrade():
            self._refuse(replies.error(501, "no Upgrade is supported; send the request without it"))
            return  # httptools would hand over the body as another protocol's
        resolved = self._owner.routes.resolve(head)
        if isinstance(resolved, replies.Reply):
            self._refuse_head(resolved)
            return
        self._handler = self._resolved = resolved
        if head.has_body and head.version == "1.1" and b"expect" in head.headers:
            self._in_order(replies.CONTINUE)

    def on_body(self, piece: bytes) -> None:
        if self.stage is not Stage.BODY:
            return
        self._progress = True
        self._body_bytes += len(piece)
        if self._body_bytes > self._owner.limits.body:
            self._refuse(routes.too_large(self._owner.limits.body))
        else:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.stage is not Stage.BODY or self._handler is None:
            return
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.stage = Stage.IDLE
        self._progress = True
        head = self._head
        self._in_order(Item(self._handler, body, head.path, keep=self._keep, head_only=head.method == b"HEAD"))
        if not self._keep:
            self._end_after_queue()

    # Answers, in order ------------------------------------------------------------------------------------------------

    def _in_order(self, item: Item | bytes) -> None:
        """Answer now, or after what is already waiting."""
        if self._queue or self._write_blocked or self._budget <= 0:
            self._queue.append(item)
        else:
            self._answer(item)

    def _answer(self, item: Item | bytes) -> None:
        if isinstance(item, bytes):
            self._transport.write(item)
            return
        self._budget -= 1
        try:
            reply = item.handler(item.body)
        except Exception:
            log.exception("a handler failed", path=routes.text(item.path))
            reply = replies.error(500, "internal error; the server's log has the details")
        owner = self._owner
        close = not item.keep or (owner.draining and not self._queue)
        if close:
            self._end_after_queue()
        self._transport.write(owner.writer.render(reply, close=close, head_only=item.head_only))
        owner.answered(item.path, reply.code)

    def _work(self) -> None:
        """Answer a turn's worth of what waits; when nothing waits any more, read on or end."""
        while self._queue and self._budget > 0 and not self._write_blocked:
            self._answer(self._queue.popleft())
        if self._write_blocked or self._transport.is_closing():
            return
        if self._queue:
            self._transport.pause_reading()
            if self._turn is None:
                self._turn = self._owner.loop.call_soon(self._next_turn)
        elif self.stage is Stage.LAST:
            self._end()
        else:
            self._transport.resume_reading()

    def _next_turn(self) -> None:
        self._turn = None
        self._budget = ANSWERS_PER_TURN
        self._work()

    def _after_read(self, nbytes: int) -> None:
        """Set the deadline of the stage that this read led to, and bound what the parser may be holding back."""
        stage = self.stage
        if self._queue or stage is Stage.LAST:
            self._set_deadline()
            self._work()
        elif stage is Stage.IDLE:
            if self._progress:
                self._set_deadline()
        else:
            # Of an unfinished header, chunk extension or trailer no callback has told us anything.
            self._held_bytes = 0 if self._progress else self._held_bytes + nbytes
            if self._held_bytes > self._owner.limits.head and (stage is Stage.HEAD or self._head.chunked):
                self._refuse(self._head_is_too_long())
                self._work()
            elif self._stage_is_new:
                self._stage_is_new = False
                self._set_deadline()

    def _set_deadline(self) -> None:
        """A stage's time begins now."""
        limits, stage = self._owner.limits, self.stage
        now = self._owner.loop.time()
        if self._write_blocked or self._queue or stage is Stage.LAST:
            self.deadline = now + limits.write_seconds
        elif stage is Stage.IDLE:
            self.idle_since = now
            self.deadline = now + limits.idle_seconds
        elif stage is Stage.HEAD:
            self.deadline = now + limits.head_seconds
        elif stage is Stage.BODY:
            self.deadline = now + limits.body_seconds
        else:
            self.deadline = now + limits.linger_seconds

    # Refusals and ends ------------------------------------------------------------------------------------------------

    def _count_head(self, nbytes: int) -> None:
        self._head_bytes += nbytes
        if self._head_bytes > self._owner.limits.head:
            self._refuse(self._head_is_too_long())

    def _head_is_too_long(self) -> replies.Reply:
        return replies.error(431, f"the head of the request is larger than {self._owner.limits.head} bytes")

    def _refuse_head(self, reply: replies.Reply) -> None:
        """Refuse what a head asks for. The connection survives where no body, or only a short one, must be dropped."""
        head = self._head
        droppable = not head.chunked and (head.length or 0) <= _DROPPABLE and b"expect" not in head.headers
        if droppable or not head.has_body:
            self._handler = lambda _: reply
        else:
            self._refuse(reply)

    def _refuse(self, reply: replies.Reply) -> None:
        """Refuse in the middle of a request: where the next one begins cannot be told, so the connection ends."""
        if self.stage is Stage.LAST or self.stage is Stage.LINGER:
            return
        self._end_after_queue()
        self._input_is_left = True
        self._pieces.clear()
        self._in_order(Item(lambda _: reply, b"", self._head.path, keep=False, head_only=self._head.method == b"HEAD"))

    def _end_after_queue(self) -> None:
        if self.stage is not Stage.LINGER:
            self.stage = Stage.LAST

    def _end(self) -> None:
        """All is answered. Closing over unread input would reset the connection, and the client lose the answer."""
        if self._input_is_left and self._transport.can_write_eof():
            self.stage = Stage.LINGER
            self._set_deadline()
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def close_if_idle(self) -> None:
        if self.stage is Stage.IDLE and not self._queue:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def expire(self) -> None:
        """The deadline has passed."""
        if self._write_blocked or self._queue or self.stage in (Stage.LAST, Stage.LINGER):
            self._transport.abort()
        elif self.stage is Stage.IDLE:
            self._transport.close()
        else:
            self._refuse(replies.error(408, f"the {self.stage.value} of the request did not arrive in time"))
            self._work()
