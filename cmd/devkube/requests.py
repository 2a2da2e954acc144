"""What goes into the verbs and what comes out of them: the seam between HTTP (or a test) and Kubernetes' semantics.

`http` makes a `Request` of what came, `Verbs.handle` answers with an `Answer` or, for a watch, a `Stream`, and a
`Reply` goes back. Objects leave as the bytes they are stored as wherever possible; whoever renders a Table decodes
them. Errors are `StatusError`s.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from devkube.errors import StatusError
from devkube.kinds import Object, Resource
from devkube.store import beginning, encode

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
JSON: Final = "application/json"


@dataclass(frozen=True)
class Reply:
    """An answer as it goes; the pieces of a watch come as they happen."""

    status: int
    pieces: Iterable[bytes] | AsyncGenerator[bytes, None]
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class User:
    """Who asks, as authentication found out."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


ADMIN = User("kubernetes-admin", groups=("system:masters", "system:authenticated"))


@dataclass(frozen=True)
class Request:
    """One request for a resource, authenticated and authorized.

    `body` is not decoded yet (`bodies.decode` does, by `content_type`, the media type without parameters).
    """

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    user: User = ADMIN
    agent: str = ""  # the User-Agent header: its beginning is the default name of the field manager
    warnings: list[str] = field(default_factory=list)  # filled on the way; they reach the client with any answer


@dataclass(frozen=True)
class Listing:
    """A list of objects. `items` are JSON objects with apiVersion and kind; `resource` gives their type."""

    resource: Resource
    metadata: Mapping[str, Any]
    items: Sequence[bytes]

    def bare(self) -> Iterator[bytes]:
        """The items as an ordinary list has them: those of built-in kinds without apiVersion and kind, as upstream."""
        if self.resource.custom:
            return iter(self.items)
        cut = len(beginning(self.resource.group_version, self.resource.kind)) + 1  # the order of what follows is any
        return (b"{" + item[cut:] for item in self.items)


@dataclass(frozen=True)
class Answer:
    """`body` is one object (decoded or not) or a list of them; `resource` what type it is, None for a Status and for
    subresources' own kinds: such bodies have no other form than JSON."""

    status: int
    body: Object | bytes | Listing
    resource: Resource | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch. `raw` is the object's JSON (a Status for ERROR)."""

    type: EventType
    raw: bytes

    def line(self) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.raw)


# A watch's answer: batches of events (what is there at once goes out in one write). It ends by itself at
# timeoutSeconds and after an ERROR; whoever reads it closes it.
Stream = AsyncGenerator[Sequence[Event], None]

# A subresource or a kind that is not stored, answered by a module of its own: TokenRequest, reviews, … It gets the
# decoded body.
Subresource = Callable[[Request, Object], Awaitable[Answer]]


@dataclass
class Attributes:
    """What admission decides about. `object` is what webhooks change; `old` what is stored.

    `warnings` and `audit` are filled by the chain; `warnings` go out as headers.
    """

    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    resource: Resource
    namespace: str
    name: str
    object: Object | None
    old: Object | None
    user: User
    subresource: str = ""
    dry_run: bool = False
    options: Object = field(default_factory=dict)  # CreateOptions, UpdateOptions or DeleteOptions
    kind: tuple[str, str, str] | None = None  # group, version, kind when the object is not the resource's (Scale, …)
    warnings: list[str] = field(default_factory=list)
    audit: dict[str, str] = field(default_factory=dict)


class Admission(Protocol):
    """The webhooks that are configured. Denials are StatusErrors."""

    async def mutate(self, attributes: Attributes) -> Object:
        """The object after all mutating webhooks (the same one when there are none)."""

    async def validate(self, attributes: Attributes) -> None: ...


def refused(error: StatusError, warnings: Iterable[str] = ()) -> Reply:
    wait = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Reply(error.code, (encode(error.body()),), headers=(*wait, *warning_headers(warnings)))


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """RFC 7234's Warning 299, each once. Beyond 4096 characters only the beginnings of 16, as upstream cuts them."""
    told = list(dict.fromkeys(warnings))
    if sum(map(len, told)) > 4096:
        told = [text[:256] for text in told[:16]]
    printable = ("".join(f"\\{c}" if c in '\\"' else c if c.isprintable() else " " for c in text) for text in told)
    return tuple(("Warning", f'299 - "{text}"') for text in printable)
