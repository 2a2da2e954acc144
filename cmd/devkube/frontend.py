"""One request from its URL to its answer, whatever carries it: authentication, route, authorization, verb, form.

The order is upstream's, so that who may not ask does not learn what exists. `http` brings requests from sockets;
`DevKube.request` asks in process. Every error leaves as a Status in JSON.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from devkube import discovery, negotiation, routes, tables
from devkube.clock import Clock
from devkube.errors import StatusError, internal, method_not_allowed, no_such_path
from devkube.kinds import Catalog, Resource
from devkube.negotiation import JSON, YAML, Output
from devkube.openapi import OpenApi
from devkube.requests import Answer, Event, Listing, Request, Stream, User
from devkube.routes import Route

log = logging.getLogger("devkube")

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+devkube",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
HEALTH: Final = ("/healthz", "/livez", "/readyz")
PINGS: Final = tuple(f"{path}/ping" for path in HEALTH)
PATHS: Final = ("/api", "/apis", *HEALTH, "/openapi/v2", "/openapi/v3", "/version")
_WARNINGS: Final = 4096  # bytes of warnings in one answer, more are cut as upstream cuts them

Authenticate = Callable[[Mapping[str, str]], User]
Authorize = Callable[[User, Route], None]


class Handler(Protocol):
    """Who carries requests out: `verbs.Verbs`."""

    async def handle(self, request: Request) -> Answer | Stream: ...


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


class Frontend:
    """`authenticate` raises 401, `authorize` 403; `before` may delay or fail a request (faults)."""

    def __init__(
        self,
        catalog: Catalog,
        verbs: Handler,
        clock: Clock,
        *,
        authenticate: Authenticate,
        authorize: Authorize,
        before: Callable[[Route], Awaitable[None]] | None = None,
    ) -> None:
        self._catalog, self._verbs, self._clock = catalog, verbs, clock
        self._authenticate, self._authorize, self._before = authenticate, authorize, before
        self._documents = discovery.Documents(catalog)
        self._openapi = OpenApi(catalog)
        self.address = ""  # host:port, told in /api; set when the port is known

    async def answer(self, call: Call) -> Reply | Live:
        """Never raises, except for cancellation and what `before` cuts off."""
        try:
            user = self._authenticate(call.headers)
            route = routes.parse(call.method, call.path, call.query)
            if self._before is not None:
                await self._before(route)
            self._authorize(user, route)
            return await self.perform(call, route, user)
        except StatusError as error:
            return refused(error)
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            return refused(internal("the request made the server fail; its log has the details"))

    async def perform(self, call: Call, route: Route, user: User) -> Reply | Live:
        """What is left once it is known who asks and that he may. StatusError."""
        if not route.plural:
            return self._document(call, route)
        resource = routes.find(self._catalog, route)
        accept = call.headers.get("accept", "")
        output = negotiation.output(accept, stream=route.verb == "watch")
        include = negotiation.include_object(call.query.get("includeObject", "")) if output.form else "Metadata"
        render = _renderer(resource, output, include, self._clock) if route.verb == "watch" else _plain
        body = await call.read() if call.read is not None and route.verb not in ("get", "list", "watch") else b""
        media = JSON
        if body or route.verb in ("create", "update", "patch"):
            media, body = negotiation.body_of(call.headers.get("content-type", ""), body, verb=route.verb)
        request = Request(
            verb=route.verb,
            resource=resource,
            namespace=route.namespace if resource.namespaced else "",
            name=route.name if route.named else "",
            subresource=route.subresource,
            query=call.query,
            body=body,
            content_type=media,
            user=user,
            agent=call.headers.get("user-agent", ""),
        )
        try:
            answer = await self._verbs.handle(request)
        except StatusError as error:
            return refused(error, request.warnings)
        if isinstance(answer, Stream):
            return Live(answer, render)
        pretty = output.pretty or negotiation.wants_pretty(call.query.get("pretty"), call.headers.get("user-agent", ""))
        pieces = _pieces(answer, output, include, self._clock.now().timestamp())
        pieces = _styled(pieces, output.media, pretty=pretty)
        return Reply(answer.status, pieces, output.media, tuple(warning_headers(answer.warnings)))

    def _document(self, call: Call, route: Route) -> Reply:
        """What is not about objects. A HEAD is a GET here; who carries it leaves the body out."""
        path = "/" + route.path.strip("/")
        if path not in ("/", *PATHS, *PINGS) and not path.startswith(("/api/", "/apis/", "/openapi/v3/")):
            raise no_such_path()
        if route.verb not in ("get", "head"):
            raise method_not_allowed(route.verb)
        if path in HEALTH or path in PINGS:
            told = f"[+]ping ok\n{path[1:]} check passed\n" if path in HEALTH and "verbose" in call.query else "ok"
            return Reply(200, (told.encode(),), "text/plain; charset=utf-8")
        if path == "/":
            return Reply(200, (msgspec.json.encode({"paths": PATHS}),))
        if path == "/version":
            return Reply(200, (msgspec.json.format(msgspec.json.encode(VERSION), indent=2),))
        accept = call.headers.get("accept", "")
        content_type = JSON
        parts = path.strip("/").split("/")
        if path in ("/api", "/apis"):
            form = negotiation.discovery(accept)
            content_type = form.content_type
            found = self._documents.get(f"{path} {form.version}", lambda: self._root(path, form.version))
        elif parts[0] == "openapi":
            if not negotiation.accepts_json(accept):
                raise negotiation.not_acceptable((JSON,))
            found = self._documents.get(path, lambda: self._specification(parts[1:]))
        else:
            found = self._documents.get(path, lambda: self._resources(parts))
        headers = (("ETag", found.etag), ("Vary", "Accept"))
        if call.headers.get("if-none-match") == found.etag:
            return Reply(304, (), content_type, headers)
        return Reply(200, (found.raw,), content_type, headers)

    def _root(self, path: str, version: str) -> dict[str, object]:
        if version:
            return discovery.aggregated(self._catalog, core=path == "/api", version=version)
        return discovery.api_versions(self.address) if path == "/api" else discovery.group_list(self._catalog)

    def _specification(self, parts: list[str]) -> dict[str, object]:
        if parts == ["v2"]:
            return self._openapi.v2()
        return self._openapi.v3("/".join(parts[1:])) if len(parts) > 1 else self._openapi.index()

    def _resources(self, parts: list[str]) -> dict[str, object]:
        if parts[0] == "apis" and len(parts) == 2:
            return discovery.group(self._catalog, parts[1])
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        return discovery.resource_list(self._catalog, group, version)


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


def _pieces(answer: Answer, output: Output, include: negotiation.Include, now: float) -> Iterable[bytes]:
    body = answer.body
    if isinstance(body, Listing):
        return tables.listing(body, output, include=include, now=now) if output.form else tables.plain(body)
    raw = answer.json()
    if output.form and answer.resource is not None:
        return (tables.one(answer.resource, raw, output, include=include, now=now),)
    return (raw,)


def _styled(pieces: Iterable[bytes], media: str, *, pretty: bool) -> Iterable[bytes]:
    if media == YAML:
        import yaml  # people ask for it, programs do not

        plain = msgspec.json.decode(b"".join(pieces))
        return (yaml.safe_dump(plain, default_flow_style=False, allow_unicode=True).encode(),)
    return (msgspec.json.format(b"".join(pieces), indent=2) + b"\n",) if pretty else pieces


def _plain(batch: Sequence[Event]) -> bytes:
    """The stored bytes as they are."""
    return b"".join([event.json() for event in batch])


def _renderer(
    resource: Resource, output: Output, include: negotiation.Include, clock: Clock
) -> Callable[[Sequence[Event]], bytes]:
    if not output.form:
        return _plain
    # Of a Table only the first event carries the columns' definitions.
    headers = output.form == "Table"
    tables.event(resource, output, include=include, now=0, headers=headers)  # its 406 now and not in the stream

    def render(batch: Sequence[Event]) -> bytes:
        nonlocal headers
        now, lines = clock.now().timestamp(), []
        for event in batch:
            form = (output.form, output.version, include, headers, resource.group_version)
            lines.append(event.line(form, tables.event(resource, output, include=include, now=now, headers=headers)))
            headers = headers and event.type == "ERROR"
        return b"".join(lines)

    return render
