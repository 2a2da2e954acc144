"""One request from its URL to its answer, whatever carries it: authentication, route, authorization, verb, form.

The order is upstream's, so that who may not ask does not learn what exists. `http` brings requests from sockets;
`DevKube.request` asks in process. Every error leaves as a Status in JSON.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from devkube import negotiation, routes, tables
from devkube.calls import Call, Live, Reply, refused, warning_headers
from devkube.clock import Clock
from devkube.documents import Documents
from devkube.errors import StatusError, internal
from devkube.kinds import Catalog, Resource
from devkube.negotiation import JSON, Form
from devkube.requests import Answer, Event, Listing, Request, Stream, User
from devkube.routes import Route

log = logging.getLogger("devkube")

Authenticate = Callable[[Mapping[str, str]], User]
Authorize = Callable[[User, Route], None]


class Handler(Protocol):
    """Who carries requests out: `verbs.Verbs`."""

    async def handle(self, request: Request) -> Answer | Stream: ...


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
        self.documents = Documents(catalog)

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
            return self.documents.answer(call, route)
        resource = routes.find(self._catalog, route)
        accept = call.headers.get("accept", "")
        form = negotiation.output(accept, stream=route.verb == "watch")
        include = negotiation.include_object(call.query.get("includeObject", "")) if form else "Metadata"
        render = _renderer(resource, form, include, self._clock) if route.verb == "watch" else _plain
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
        pieces = _pieces(answer, form, include, self._clock.now().timestamp())
        return Reply(answer.status, pieces, JSON, tuple(warning_headers(answer.warnings)))


def _pieces(answer: Answer, form: Form, include: negotiation.Include, now: float) -> Iterable[bytes]:
    body = answer.body
    if isinstance(body, Listing):
        return tables.listing(body, form, include=include, now=now) if form else tables.plain(body)
    raw = answer.json()
    if form and answer.resource is not None:
        return (tables.one(answer.resource, raw, form, include=include, now=now),)
    return (raw,)


def _plain(batch: Sequence[Event]) -> bytes:
    """The stored bytes as they are."""
    return b"".join([event.json() for event in batch])


def _renderer(
    resource: Resource, form: Form, include: negotiation.Include, clock: Clock
) -> Callable[[Sequence[Event]], bytes]:
    if not form:
        return _plain
    # Of a Table only the first event carries the columns' definitions.
    headers = form == "Table"
    tables.event(resource, form, include=include, now=0, headers=headers)  # its 406 now and not in the stream

    def render(batch: Sequence[Event]) -> bytes:
        nonlocal headers
        now, lines = clock.now().timestamp(), []
        for event in batch:
            key = (form, include, headers, resource.group_version)
            lines.append(event.line(key, tables.event(resource, form, include=include, now=now, headers=headers)))
            headers = headers and event.type == "ERROR"
        return b"".join(lines)

    return render
