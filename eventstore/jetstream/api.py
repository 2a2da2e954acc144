"""JetStream's JSON API over a connection: questions, answers, and what its error codes mean to us.

Not nats-py's own API objects: they drop fields they do not know, and what is read here is compared or written back.

An answer of 404 is data (`None`), every other refusal is an `ApiError` for the caller to judge; no answer is
Unavailable.

Rules: spec/eventstore-nats.md sections 0, 3, 6 (codes as measured); JS-04, JS-06, JS-08.
"""

import base64
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from eventstore import store
from eventstore.jetstream import connect

WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})  # the second is a cluster's, or an atomic batch's
STORE_FAILED: Final = 10077  # "maximum bytes exceeded" and every other refusal of the stream's own limits
NO_RESOURCES: Final = frozenset({10023, 10028, 10047})  # the account's or the disk's limits
MESSAGE_TOO_LARGE: Final = 10054
STREAM_NOT_FOUND: Final = 10059
NAME_IN_USE: Final = 10058
NO_MESSAGE: Final = 10037


class ApiError(store.StoreError):
    """A refusal by JetStream, with its numbers."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({code}/{err_code})")
        self.code, self.err_code, self.description = code, err_code, description


class Message(NamedTuple):
    """A stored message as STREAM.MSG.GET returns it. `headers` is the raw block, empty when there is none."""

    sequence: int
    time_ns: int
    subject: str
    headers: bytes
    payload: bytes


async def call(connection: connect.Connection, verb: str, body: Any = None, *, timeout: float = 2.0) -> dict[str, Any]:
    """`$JS.API.<verb>` with a JSON body. Raises ApiError, Unavailable or Misconfigured."""
    subject = f"$JS.API.{verb}"
    reply = await connection.request(subject, b"" if body is None else msgspec.json.encode(body), timeout=timeout)
    if reply.status == 503:
        raise store.Unavailable(
            f"nobody answers {subject}: JetStream is starting, has no leader, or is not enabled on this server"
        )
    try:
        answer = msgspec.json.decode(reply.payload, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise store.Unavailable(f"{subject} was answered with what is no JSON: {error}") from error
    if (refusal := answer.get("error")) is not None:
        raise ApiError(refusal.get("code", 0), refusal.get("err_code", 0), refusal.get("description", "refused"))
    return answer


async def stream_info(connection: connect.Connection, stream: str) -> dict[str, Any] | None:
    """Config and state, or None when there is no such stream."""
    try:
        return await call(connection, f"STREAM.INFO.{stream}")
    except ApiError as error:
        if error.err_code == STREAM_NOT_FOUND:
            return None
        raise as_store_error(error, stream) from error


async def message(connection: connect.Connection, stream: str, which: dict[str, Any]) -> Message | None:
    """One stored message, read from the stream's leader: a follower could answer with its past.

    `which` is {"seq": n}, {"last_by_subj": s} or {"seq": n, "next_by_subj": s}.
    """
    try:
        answer = await call(connection, f"STREAM.MSG.GET.{stream}", which)
    except ApiError as error:
        if error.err_code == NO_MESSAGE:
            return None
        raise as_store_error(error, stream) from error
    found = answer["message"]
    return Message(
        sequence=found["seq"],
        time_ns=nanoseconds(found["time"]),
        subject=found["subject"],
        headers=base64.b64decode(found.get("hdrs", "")),
        payload=base64.b64decode(found.get("data", "")),
    )


async def last_before(
    connection: connect.Connection, stream: str, subject: str, *, sequence: int | None, time_ns: int | None
) -> Message | None:
    """The newest message of a subject at or before a sequence or a stream time (DIRECT.GET with multi_last)."""
    ask: dict[str, Any] = {"multi_last": [subject]}
    if sequence is not None:
        if sequence < 1:
            return None
        ask["up_to_seq"] = sequence
    if time_ns is not None:
        ask["up_to_time"] = rfc3339_nano(time_ns + 1)  # the server's bound is exclusive
    verb = f"$JS.API.DIRECT.GET.{stream}"
    reply = await connection.request(verb, msgspec.json.encode(ask))
    if reply.status == 503:
        raise store.Unavailable(f"nobody answers {verb}: the stream is missing, has no leader, or no direct reads")
    if reply.status in (204, 404):
        return None
    if reply.status:
        raise store.Misconfigured(f"{verb} is refused: {reply.status} {reply.headers.get('Description', '')}")
    return Message(
        sequence=int(reply.headers["Nats-Sequence"]),
        time_ns=nanoseconds(reply.headers["Nats-Time-Stamp"]),
        subject=reply.headers["Nats-Subject"],
        headers=b"",
        payload=reply.payload,
    )


def as_store_error(error: ApiError, stream: str) -> store.StoreError:
    """What a refusal means to a caller who cannot judge it further."""
    if error.err_code == STREAM_NOT_FOUND:
        return missing(stream)
    if error.err_code in NO_RESOURCES or error.err_code == STORE_FAILED:
        return full(stream, error.description)
    if error.code >= 500 or error.code == 429:
        return store.Unavailable(f"stream {stream}: {error}; try again")
    return store.Misconfigured(f"stream {stream}: JetStream refuses: {error}")


def full(stream: str, description: str) -> store.StreamFull:
    return store.StreamFull(
        f"stream {stream} takes no more ({description}); give it room: raise its max_bytes or the server's storage, "
        f"e.g. nats stream edit {stream} --max-bytes=<bytes>"
    )


def missing(stream: str) -> store.Misconfigured:
    return store.Misconfigured(
        f"there is no stream {stream} on this server; restore it, or let `warmlog server` make a new one"
    )


def nanoseconds(text: str) -> int:
    """RFC 3339 with up to nine decimals, as Go writes it, to nanoseconds since the epoch."""
    whole, _, rest = text.partition(".")
    fraction = "0"
    if rest:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        fraction, zone = rest[:digits], rest[digits:]
        whole += zone
    moment = datetime.fromisoformat(whole)
    return int(moment.astimezone(UTC).timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def rfc3339_nano(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as RFC 3339 in UTC with all nine decimals."""
    moment = datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 1_000_000_000:09d}Z"


def header(block: bytes, name: bytes) -> bytes | None:
    """The value of a header in a raw block; names compare as they are written, values come back trimmed."""
    at = block.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    start = at + len(name) + 3
    return block[start : block.find(b"\r\n", start)].strip()


def status(block: bytes) -> tuple[int, str]:
    """The status line `NATS/1.0 409 Consumer Deleted` as (409, "Consumer Deleted"); (0, "") when it has none."""
    line = block[8 : block.find(b"\r\n")].strip()
    code, _, words = line.partition(b" ")
    return (int(code), words.decode(errors="replace")) if code.isdigit() and len(code) <= 3 else (0, "")
