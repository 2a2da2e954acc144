"""A client's end of an HTTP connection without a socket, and a parser that splits what was answered."""

import asyncio
from typing import NamedTuple

import httptools

from subscribers.http import connection, hotpath, replies, routes


class Answer(NamedTuple):
    code: int
    headers: dict[bytes, bytes]
    body: bytes


class _Collect:
    def __init__(self, heads: bool) -> None:
        self.answers: list[Answer] = []
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.answers.append(Answer(self.parser.get_status_code(), self.headers, self.body))
        self.headers, self.body = {}, b""


def split(raw: bytes) -> list[Answer]:
    """Whole answers out of bytes, interim ones (100) included; half an answer is not in the list."""
    collect = _Collect(heads=False)
    collect.parser.feed_data(raw)
    return collect.answers


class Transport(asyncio.Transport):
    """Keeps what was written. `room` is how much the client takes before it stops reading; None: all of it."""

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.written = bytearray()
        self.room = room
        self.protocol: connection.Connection
        self.reading = True
        self.closed = self.aborted = self.eof = False
        self.blocked = False

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        if self.closed:
            return
        self.written += data
        if self.room is not None and not self.blocked and len(self.written) > self.room:
            self.blocked = True
            self.protocol.pause_writing()

    def take_all(self) -> None:
        """The client reads everything."""
        self.room = None
        self.blocked = False
        self.protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.aborted = True
        self.close()


class Client:
    """One connection to a listener. `send` delivers bytes in pieces as a socket would."""

    def __init__(self, listener: hotpath.Listener, *, room: int | None = None) -> None:
        self.listener = listener
        self.connection = listener.connect()
        self.transport = Transport(room)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def send(self, data: bytes, *, piece: int = 64 * 1024) -> None:
        for at in range(0, len(data), piece):
            if self.transport.closed:
                return
            chunk = data[at : at + piece]
            buffer = self.connection.get_buffer(len(chunk))
            size = min(len(chunk), len(buffer))
            buffer[:size] = chunk[:size]
            self.connection.buffer_updated(size)

    @property
    def answers(self) -> list[Answer]:
        return split(bytes(self.transport.written))

    def answer(self) -> Answer:
        """The only answer so far."""
        (answer,) = self.answers
        return answer


class EchoLookup:
    """Says what it was asked, so that a test can see which bytes arrived."""

    def json(self, body: bytes) -> bytes:
        if body == b"malformed":
            raise routes.Malformed("it says malformed")
        if body == b"bug":
            raise ZeroDivisionError
        return b'{"json":%d}' % len(body)

    def packed(self, tokens: bytes, query: bytes) -> bytes:
        return b'{"packed":%d,"query":"%b"}' % (len(tokens), query)


def listener(*, limits: connection.Limits | None = None, meter: hotpath.Meter | None = None) -> hotpath.Listener:
    """A listener with every path of port 8080, attached to the running loop."""
    limits = limits or connection.Limits()
    made = hotpath.Listener(
        routes.Routes(
            lookup=EchoLookup(),
            ready=lambda: replies.json(503, {"ready": False}),
            metrics=lambda: b"# nothing\n" * 1000,
            body_limit=limits.body,
        ),
        limits=limits,
        meter=meter,
    )
    made.attach(asyncio.get_running_loop())
    return made


def post(body: bytes, *, path: bytes = b"/v1/lookup", kind: bytes = b"application/json", extra: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
        path,
        kind,
        len(body),
        extra,
        body,
    )


def get(path: bytes, *, method: bytes = b"GET", extra: bytes = b"") -> bytes:
    return b"%b %b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (method, path, extra)
