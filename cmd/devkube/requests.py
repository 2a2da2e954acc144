"""What goes into the verbs and what comes out of them: the seam between HTTP (or a test) and Kubernetes' semantics.

`http` makes a `Request` of a URL and its headers, `Verbs.handle` answers with an `Answer` or, for a watch, a `Stream`.
Objects leave as the bytes they are stored as wherever possible; whoever renders another form (a Table, only the
metadata) decodes them. Errors are `StatusError`s.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from devkube.kinds import Object, Resource
from devkube.store import beginning, encode

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
JSON = "application/json"


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
    warnings: list[str] = field(default_factory=list)  # filled on the way; they reach the client with a refusal too


@dataclass(frozen=True)
class Listing:
    """A list of objects. `items` are JSON objects; `resource` gives their kind and version.

    `bare` are the items as an ordinary list has them (those of built-in kinds without apiVersion and kind, as
    upstream); `items` always have both.
    """

    resource: Resource
    metadata: Mapping[str, Any]
    items: Sequence[bytes]

    def json(self) -> bytes:
        head = encode({"kind": self.resource.listing, "apiVersion": self.resource.group_version})
        return b"".join(
            (head[:-1], b',"metadata":', encode(self.metadata), b',"items":[', b",".join(self.bare()), b"]}")
        )

    def bare(self) -> Sequence[bytes]:
        if self.resource.custom or not self.items:
            return self.items
        cut = len(beginning(self.resource.group_version, self.resource.kind)) + 1  # the order of what follows is any
        return [b"{" + item[cut:] for item in self.items]


Body = Object | bytes | Listing


@dataclass(frozen=True)
class Answer:
    """`body` is one object (decoded or not) or a list of them; `resource` what type it is, None for a Status and for
    subresources' own kinds: such bodies have no other form than JSON."""

    status: int
    body: Body
    resource: Resource | None = None
    warnings: Sequence[str] = ()

    def json(self) -> bytes:
        if isinstance(self.body, Listing):
            return self.body.json()
        return self.body if isinstance(self.body, bytes) else encode(self.body)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch. `raw` is the object's JSON (a Status for ERROR).

    All watchers that see the same change the same way get equal `raw` and one `shared`, where `line` keeps what
    was encoded for the first of them.
    """

    type: EventType
    raw: bytes
    shared: dict[object, bytes] | None = None

    def json(self) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.raw)

    def line(self, form: object, render: Callable[[bytes], bytes]) -> bytes:
        """The line in another form (`form` names it: a hashable value that tells all of a rendering's parameters);
        `render` makes the `object` of it."""
        if self.type == "ERROR":
            return self.json()
        key = (form, self.type)
        if self.shared is not None and (found := self.shared.get(key)):
            return found
        line = b'{"type":"%s","object":%s}\n' % (self.type.encode(), render(self.raw))
        if self.shared is not None:
            self.shared[key] = line
        return line


class Stream:
    """A watch's answer: an async iterator of batches of events (what is there at once goes out in one write).

    It ends by itself at timeoutSeconds and after an ERROR; `http` closes it when the client goes.
    """

    def __init__(self, resource: Resource, batches: AsyncIterator[Sequence[Event]]) -> None:
        self.resource = resource
        self.status = 200
        self._batches = batches

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        return self._batches

    async def aclose(self) -> None:
        close = getattr(self._batches, "aclose", None)
        if close is not None:
            await close()


class Subresource(Protocol):
    """A subresource or a kind that is not stored, answered by a module of its own: TokenRequest, reviews, …

    `obj` is the decoded body (decoded by the rules of the resource where they know its kind, else as sent).
    """

    async def __call__(self, request: Request, obj: Object) -> Answer: ...


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
    options: Object = field(default_factory=dict)  # CreateOptions, UpdateOptions, PatchOptions or DeleteOptions
    kind: tuple[str, str, str] | None = None  # group, version, kind when the object is not the resource's (Scale, …)
    warnings: list[str] = field(default_factory=list)
    audit: dict[str, str] = field(default_factory=dict)


class Admission(Protocol):
    """The webhooks that are configured. Denials are StatusErrors."""

    async def mutate(self, attributes: Attributes) -> Object:
        """The object after all mutating webhooks (the same one when there are none)."""
        ...

    async def validate(self, attributes: Attributes) -> None: ...


class NoAdmission:
    async def mutate(self, attributes: Attributes) -> Object:
        return attributes.object or {}

    async def validate(self, attributes: Attributes) -> None:
        return None
