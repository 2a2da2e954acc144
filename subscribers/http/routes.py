"""Which handler a request to port 8080 gets, or why it gets none: decisions over a request's head, without a socket.

`resolve` is a chain of small checks in the order in which a caller would want to hear of them; the first refusal wins.
It runs when the head has arrived and before any of the body is read, so that an oversized or misdirected body is
never taken in.

Not here: bytes on the wire (hotpath, replies) and what a lookup means (lookup edge, handlers/prefixindex).
A handler may raise `Malformed` with one line; anything else it raises is a bug and becomes 500 in hotpath.

Rules: design.md section 4, the paragraph after the table of roles; RFC 9110 for the status codes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import httptools

from subscribers.http import replies

JSON_TYPE: Final = b"application/json"
PACKED_TYPE: Final = b"application/x-u32le"
LOOKUP_PATH: Final = b"/v1/lookup"


class Malformed(ValueError):
    """A question that cannot be read: one line that says what is wrong. Never used for a well-formed question."""


class Lookup(Protocol):
    """LookupRoute behind HTTP. Both raise Malformed; both answer well-formed questions with the response's JSON."""

    def json(self, body: bytes) -> bytes: ...

    def packed(self, tokens: bytes, query: bytes) -> bytes:
        """`tokens` is u32 little-endian; `query` is the raw query string with the other fields."""
        ...


Handler = Callable[[bytes], replies.Reply]


class Head:
    """The head of one request. One object per connection, filled anew for each request (the hot path allocates none).

    `headers` has lower-case names; repeated ones are joined with ", " as RFC 9110 section 5.3 says.
    `length` is None without content-length.
    """

    __slots__ = ("chunked", "headers", "length", "method", "path", "query", "target", "version")

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.clear()

    def clear(self) -> None:
        self.method = self.target = self.path = self.query = b""
        self.version = "1.1"
        self.headers.clear()
        self.length: int | None = None
        self.chunked = False

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)


Check = Callable[[Head, int], replies.Reply | None]


def version_is_ours(head: Head, limit: int) -> replies.Reply | None:
    if head.version not in ("1.1", "1.0"):
        return replies.error(505, f"HTTP/{head.version} is not spoken here; use HTTP/1.1")
    return None


def host_is_named_once(head: Head, limit: int) -> replies.Reply | None:
    """RFC 9112 section 3.2: a 1.1 request without Host, or with two, must be refused."""
    host = head.headers.get(b"host")
    if host is None and head.version == "1.1":
        return replies.error(400, "the Host header is missing")
    if host is not None and b"," in host:
        return replies.error(400, "there is more than one Host header")
    return None


def coding_is_known(head: Head, limit: int) -> replies.Reply | None:
    coding = head.headers.get(b"transfer-encoding")
    if coding is not None and coding.strip().lower() != b"chunked":
        return replies.error(501, "transfer-encoding: only chunked is supported")
    return None


def expectation_is_known(head: Head, limit: int) -> replies.Reply | None:
    expect = head.headers.get(b"expect")
    if expect is not None and expect.lower() != b"100-continue":
        return replies.error(417, "expect: only 100-continue is supported")
    return None


def body_fits(head: Head, limit: int) -> replies.Reply | None:
    if head.length is not None and head.length > limit:
        return too_large(limit)
    return None


#: What holds for every path.
ANY_PATH: Sequence[Check] = (
    version_is_ours,
    host_is_named_once,
    coding_is_known,
    expectation_is_known,
    body_fits,
)


def length_is_told(head: Head, limit: int) -> replies.Reply | None:
    if head.length is None and not head.chunked:
        return replies.error(411, "a lookup needs a body with content-length or chunked transfer-encoding")
    return None


def body_is_not_compressed(head: Head, limit: int) -> replies.Reply | None:
    encoding = head.headers.get(b"content-encoding")
    if encoding is not None and encoding.strip().lower() != b"identity":
        return replies.error(415, "content-encoding is not supported; send the body as it is")
    return None


#: What a lookup's head must have besides.
LOOKUP: Sequence[Check] = (length_is_told, body_is_not_compressed)


def too_large(limit: int) -> replies.Reply:
    return replies.error(413, f"the body is larger than {limit} bytes; send fewer tokens, or send them packed")


def media_type(value: bytes) -> bytes:
    """The type of a content-type header, without parameters; empty for another charset than UTF-8."""
    kind, found, parameters = value.partition(b";")
    if found and b"charset" in parameters.lower() and b"utf-8" not in parameters.lower():
        return b""
    return kind.strip().lower()


def split_target(head: Head) -> replies.Reply | None:
    """Fill path and query from the request target, which may be in absolute form (RFC 9112 section 3.2)."""
    target = head.target
    if target[:1] == b"/":
        head.path, _, head.query = target.partition(b"?")
        return None
    try:
        parsed = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return replies.error(400, "the request target is not a URL")
    head.path, head.query = parsed.path or b"/", parsed.query or b""
    return None


class Routes:
    """The paths of port 8080: lookup, healthz, readyz, metrics.

    `ready` gives the whole answer of /readyz, `metrics` the text of /metrics. Both are called per request and must
    not block.
    """

    def __init__(
        self, *, lookup: Lookup, ready: Callable[[], replies.Reply], metrics: Callable[[], bytes], body_limit: int
    ) -> None:
        self.body_limit = body_limit
        self._lookup = lookup
        self._simple: dict[bytes, Handler] = {
            b"/healthz": lambda _: replies.Reply(200, replies.TEXT, b"ok\n"),
            b"/readyz": lambda _: ready(),
            b"/metrics": lambda _: replies.Reply(200, replies.PROMETHEUS, metrics()),
        }

    def resolve(self, head: Head) -> Handler | replies.Reply:
        """The handler of this request's body, or the refusal."""
        if (refusal := split_target(head)) is not None:
            return refusal
        for check in ANY_PATH:
            if (refusal := check(head, self.body_limit)) is not None:
                return refusal
        if head.path == LOOKUP_PATH:
            return self._resolve_lookup(head)
        if (simple := self._simple.get(head.path)) is not None:
            if head.method not in (b"GET", b"HEAD"):
                return not_allowed(head, b"GET, HEAD")
            return simple
        return replies.error(404, f"there is no {text(head.path)} here; see /v1/lookup, /healthz, /readyz, /metrics")

    def _resolve_lookup(self, head: Head) -> Handler | replies.Reply:
        if head.method != b"POST":
            return not_allowed(head, b"POST")
        for check in LOOKUP:
            if (refusal := check(head, self.body_limit)) is not None:
                return refusal
        value = head.headers.get(b"content-type", b"")
        kind = value if value == JSON_TYPE else media_type(value)
        if kind == JSON_TYPE:
            return self._json
        if kind == PACKED_TYPE:
            return functools.partial(self._packed, head.query)
        return replies.error(
            415,
            f"content-type {text(value)!r} is not understood; send application/json, or token ids as "
            "application/x-u32le with the other fields as query parameters",
        )

    def _json(self, body: bytes) -> replies.Reply:
        try:
            return replies.Reply(200, replies.JSON, self._lookup.json(body))
        except Malformed as error:
            return replies.error(400, str(error))

    def _packed(self, query: bytes, body: bytes) -> replies.Reply:
        try:
            return replies.Reply(200, replies.JSON, self._lookup.packed(body, query))
        except Malformed as error:
            return replies.error(400, str(error))


def not_allowed(head: Head, allow: bytes) -> replies.Reply:
    message = f"{text(head.method)} is not allowed for {text(head.path)}; use {text(allow)}"
    return replies.error(405, message, extra=b"allow: %b\r\n" % allow)


def text(raw: bytes) -> str:
    """Bytes of a request in a message: at most 80 of them, never an error."""
    return raw[:80].decode("utf-8", "replace")
