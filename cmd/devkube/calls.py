"""A request as it came and an answer as it goes, whatever carries them: what `http` and `frontend` hand each other."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from devkube.errors import StatusError
from devkube.negotiation import JSON
from devkube.requests import Event, Stream

_WARNINGS: Final = 4096  # bytes of warnings in one answer, more are cut as upstream cuts them


@dataclass(frozen=True)
class Call:
    """A request as it came. `headers` are looked up by lower-case name, their `items()` may have a name several times;
    `query` has the first value of each key."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[], Awaitable[bytes]] | None = None


@dataclass(frozen=True)
class Reply:
    status: int
    pieces: Iterable[bytes]
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Live:
    """A watch: `render` makes lines of each of the stream's batches, in order."""

    stream: Stream
    render: Callable[[Sequence[Event]], bytes]
    content_type: str = JSON


def refused(error: StatusError, warnings: Iterable[str] = ()) -> Reply:
    wait = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Reply(error.code, (msgspec.json.encode(error.body()),), JSON, (*wait, *warning_headers(warnings)))


def warning_headers(warnings: Iterable[str]) -> Iterable[tuple[str, str]]:
    """RFC 7234's Warning 299, each once. When they are too many, each is cut to 256 characters and the rest dropped."""
    texts = ["".join(c if c.isprintable() else " " for c in text) for text in dict.fromkeys(warnings)]
    if sum(map(len, texts)) > _WARNINGS:
        texts = [text[:256] for text in texts][: _WARNINGS // 256]
    for text in texts:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        yield "Warning", f'299 - "{escaped}"'
