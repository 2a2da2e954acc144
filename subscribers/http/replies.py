"""What an HTTP answer is made of: status lines, error bodies, and the bytes of a whole answer.

A `Reply` is a decision (code, type, body); `Writer.render` turns it into bytes. The heads that every answer shares are
built once a second, with their Date, so that a lookup pays for one formatting and one concatenation.

Not here: which reply a request deserves (routes), and how it reaches a socket (hotpath). Nothing raises.

Rules: RFC 9110 and 9112; design.md section 4 (malformed is 400 with one line).
"""

from email import utils
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

#: An error is for one line of a log; what a caller wrote into it must not fill a screen.
_LONGEST_ERROR: Final = 400

_encoder = msgspec.json.Encoder()


class Reply(NamedTuple):
    """A decided answer. `extra` is whole header lines, each ending in CRLF."""

    code: int
    content_type: bytes
    body: bytes
    extra: bytes = b""


def one_line(text: str) -> str:
    """Any text as one printable line of bounded length; bytes that are no UTF-8 text do not survive."""
    line = "".join(char if char.isprintable() else " " for char in text[:_LONGEST_ERROR])
    return line if len(text) <= _LONGEST_ERROR else line + "…"


def error(code: int, message: str, *, extra: bytes = b"") -> Reply:
    """`{"error": "<one line>"}`: what is wrong and what to do about it."""
    return Reply(code, JSON, _encoder.encode({"error": one_line(message)}) + b"\n", extra)


def json(code: int, value: object) -> Reply:
    return Reply(code, JSON, _encoder.encode(value) + b"\n")


def _status_line(code: int) -> bytes:
    return b"HTTP/1.1 %d %s\r\n" % (code, HTTPStatus(code).phrase.encode())


class Writer:
    """Renders replies. `set_time` must be called once before the first and then about once a second."""

    def __init__(self) -> None:
        self._date = b""
        self._ok_json = b""

    def set_time(self, seconds: float) -> None:
        """Seconds since the epoch, for the Date header."""
        self._date = b"date: %s\r\n" % utils.formatdate(seconds, usegmt=True).encode()
        self._ok_json = (
            _status_line(200) + self._date + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        )

    def render(self, reply: Reply, *, close: bool, head_only: bool) -> bytes:
        """The whole answer. With `head_only` (HEAD) the length of the body that GET would get, without the body."""
        code, content_type, body, extra = reply
        if code == 200 and content_type is JSON and not (close or head_only or extra):
            return self._ok_json % (len(body), body)
        return b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n%b" % (
            _status_line(code),
            self._date,
            content_type,
            len(body),
            extra,
            b"connection: close\r\n" if close else b"",
            b"" if head_only else body,
        )
