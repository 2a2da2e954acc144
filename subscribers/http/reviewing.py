"""The listener of admission reviews: TLS, HTTP/1.1 by httptools, answers that may take a moment.

It is port 8080's connection (see connection) but for one thing: a review may wait for a live read or for the log, so
its handler calls back. Whatever the client sends meanwhile waits behind it, in order, bounded by one read buffer. API
servers use one connection per review at a time, so nothing waits in practice.

    POST <path of a webhook>    the AdmissionReview's answer
    any other path              404; another method 405; no review 400; no room 503; each with one line

Not here: what is answered (admission), certificates (whoever owns the SSLContext may load new ones at any time).

When it fails: a client that leaves loses its answer, not its decision: that is recorded and the same review gets the
same answer again.

Rules: design.md section 4; RFC 9112.
"""

import asyncio
import functools
import ssl
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

import structlog

from handlers.admission import review
from subscribers.http import connection, hotpath, replies, routes

log = structlog.get_logger(__name__)

#: The largest object that an API server takes is 3 MiB; an update sends two of them.
LARGEST: Final = 16 * 1024 * 1024
LIMITS: Final = connection.Limits(body=LARGEST, connections=4096, idle_seconds=120.0)
#: Bytes of large reviews that are received or answered at one time, of all clients together. Anybody in the cluster may
#: send some, and whoever has no memory left answers nobody. What most reviews need is always there.
ROOM: Final = 256 * 1024 * 1024
SMALL: Final = 64 * 1024
#: Observed with the seconds from a review's last byte to its answer.
Timed = Callable[[float], None]


def review_fits(head: routes.Head, limit: int) -> replies.Reply | None:
    if head.length is not None and head.length > limit:
        return replies.error(413, f"the review is larger than {limit} bytes")
    return None


CHECKS: Final = (
    routes.version_is_ours,
    routes.host_is_named_once,
    routes.coding_is_known,
    routes.expectation_is_known,
    review_fits,
    routes.body_is_not_compressed,
)


class Desk(Protocol):
    @property
    def admitters(self) -> Collection[str]: ...

    def begin(self, path: str, body: bytes, told: Callable[[bytes | Exception], None]) -> None:
        """`told` is called once, at once or later: the answer, or review.Malformed, or what else went wrong."""
        ...


class Later:
    """The handler of one webhook's path. `begin` begins to answer; `told` is called once, later, with the reply."""

    def __init__(self, desk: Desk, path: str, timed: Timed) -> None:
        self._desk, self._path, self._timed = desk, path, timed

    def __call__(self, body: bytes) -> replies.Reply:
        raise TypeError("reviews are answered later: begin()")

    def begin(self, body: bytes, told: Callable[[replies.Reply], None]) -> None:
        # In the loop's next turn: what the log has acknowledged by then is answered before more is begun.
        answered = functools.partial(self._answered, told, time.perf_counter())
        asyncio.get_running_loop().call_soon(self._begin, body, answered)

    def _begin(self, body: bytes, answered: Callable[[bytes | Exception], None]) -> None:
        try:
            self._desk.begin(self._path, body, answered)
        except Exception as error:
            answered(error)

    def _answered(self, told: Callable[[replies.Reply], None], began: float, answer: bytes | Exception) -> None:
        self._timed(time.perf_counter() - began)
        if isinstance(answer, bytes):
            told(replies.Reply(200, replies.JSON, answer))
        elif isinstance(answer, review.Malformed):
            told(replies.error(400, str(answer)))
        else:
            log.error("a review failed", path=self._path, exc_info=answer)
            told(replies.error(500, "internal error; the webhook's log has the details"))


class Routes(routes.Routes):
    """Which webhook a request is for."""

    def __init__(self, desk: Desk, *, timed: Timed = lambda seconds: None) -> None:
        self.body_limit = LARGEST
        self._webhooks: dict[bytes, routes.Handler] = {
            path.encode(): Later(desk, path, timed) for path in desk.admitters
        }

    def resolve(self, head: routes.Head) -> routes.Handler | replies.Reply:
        if (refusal := routes.split_target(head)) is not None:
            return refusal
        for check in CHECKS:
            if (refusal := check(head, self.body_limit)) is not None:
                return refusal
        handler = self._webhooks.get(head.path)
        if handler is None:
            return replies.error(404, f"there is no webhook at {routes.text(head.path)}")
        if head.method != b"POST":
            return routes.not_allowed(head, b"POST")
        return handler


class Room:
    """What all connections may hold together of large reviews."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


class Connection(connection.Connection):
    """One client; nothing after a review is answered before the review is."""

    def __init__(self, owner: "Listener") -> None:
        super().__init__(owner)
        self._asked = False
        self._is_lost = False
        self._room = owner.room
        self._held = 0  # of that room

    def on_body(self, piece: bytes) -> None:
        if self.stage is connection.Stage.BODY and self._body_bytes + len(piece) > SMALL:
            if not self._room.take(len(piece)):
                self._refuse(replies.error(503, "too many large reviews; try again", extra=b"retry-after: 1\r\n"))
                return
            self._held += len(piece)
        super().on_body(piece)

    def _let_go(self) -> None:
        self._room.left += self._held
        self._held = 0

    def _let_go_when_idle(self) -> None:
        """What a client sends behind a review is held on: nobody knows whose pieces they are."""
        if not (self._asked or self._queue or self.stage is connection.Stage.BODY):
            self._let_go()

    def _in_order(self, item: connection.Item | bytes) -> None:
        if self._asked:
            self._queue.append(item)
        else:
            super()._in_order(item)

    def _answer(self, item: connection.Item | bytes) -> None:
        if self._asked:
            self._queue.append(item)  # a request whose head was known
        elif isinstance(item, connection.Item) and isinstance(item.handler, Later):
            self._budget = 0  # ends the turn
            self._asked = True
            item.handler.begin(item.body, functools.partial(self._replied, item))
        else:
            super()._answer(item)
            self._let_go_when_idle()

    def _replied(self, item: connection.Item, reply: replies.Reply) -> None:
        self._asked = False
        if self._is_lost:
            self._let_go()
            return
        item.handler = lambda _: reply
        super()._answer(item)
        self._budget = connection.ANSWERS_PER_TURN
        self._set_deadline()
        self._work()
        self._let_go_when_idle()

    def _work(self) -> None:
        if not self._asked:
            super()._work()
        elif self._queue:
            self._transport.pause_reading()

    def _end(self) -> None:
        if not self._asked:
            super()._end()

    def close_if_idle(self) -> None:
        if not self._asked:
            super().close_if_idle()

    def expire(self) -> None:
        if not self._asked:
            super().expire()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        super().connection_lost(error)
        if not self._asked:  # else its review is still held
            self._let_go()


class Listener(hotpath.Listener):
    """`start` once, `drain` once. The context may be given new certificates while it serves."""

    def __init__(self, request_routes: Routes, tls: ssl.SSLContext, *, meter: hotpath.Meter | None = None) -> None:
        super().__init__(request_routes, limits=LIMITS, meter=meter, tls=tls)
        self.room = Room(ROOM)

    def connect(self) -> Connection:
        return Connection(self)
