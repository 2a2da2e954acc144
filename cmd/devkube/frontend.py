"""One request from its URL to its answer, whatever carries it: authentication, route, authorization, verb, form.

The order is upstream's, so that who may not ask does not learn what exists. `http` brings requests from sockets;
`DevKube.request` asks in process. Every error leaves as a Status in JSON.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from aiohttp import web

from devkube import negotiation, routes
from devkube.clock import Clock
from devkube.documents import Documents
from devkube.errors import StatusError, bad_request, internal
from devkube.faults import Faults
from devkube.kinds import Catalog
from devkube.requests import Answer, Reply, User, refused, warning_headers
from devkube.routes import Route
from devkube.tables import View
from devkube.verbs import Verbs

log = logging.getLogger("devkube")
BODY_LIMIT: Final = 3 * 1024 * 1024  # bytes, as upstream's --max-request-bytes default for JSON


class Frontend:
    """`authenticate` raises 401, `authorize` 403."""

    def __init__(
        self,
        catalog: Catalog,
        verbs: Verbs,
        clock: Clock,
        *,
        authenticate: Callable[[Mapping[str, str]], User],
        authorize: Callable[[User, Route], None],
        faults: Faults,
    ) -> None:
        self._catalog, self._verbs, self._clock = catalog, verbs, clock
        self._authenticate, self._authorize, self._faults = authenticate, authorize, faults
        self.documents = Documents(catalog)

    async def answer(self, call: web.BaseRequest) -> Reply:
        """Never raises, except for cancellation and what a fault cuts off."""
        try:
            user = self._authenticate(call.headers)
            route = routes.parse(call.method, call.path, call.query)
            await self._faults.meet(route)
            self._authorize(user, route)
            return await self.perform(call, route, user)
        except StatusError as error:
            return refused(error)
        except web.HTTPRequestEntityTooLarge:
            told = f"Request entity too large: limit is {BODY_LIMIT}"
            return refused(StatusError(413, "RequestEntityTooLarge", told))
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            return refused(internal("the request made the server fail; its log has the details"))

    async def perform(self, call: web.BaseRequest, route: Route, user: User) -> Reply:
        """What is left once it is known who asks and that he may. StatusError."""
        if not route.plural:
            return self.documents.answer(call, route)
        agent = call.headers.get("user-agent", "")
        request = routes.request(self._catalog, route, call.query, user=user, agent=agent)
        listed = route.verb in ("list", "deletecollection")
        form = negotiation.form_of(call.headers.get("accept", ""), listed=listed)
        include = call.query.get("includeObject") or "Metadata"
        if form and include not in ("Metadata", "Object", "None"):
            raise bad_request(f"includeObject: it must be Metadata, Object or None, not {include!r}")
        view = View(form, include, self._clock)
        if route.verb not in ("get", "list", "watch"):
            body = await call.read()
            if body or route.verb in ("create", "update", "patch"):
                media, body = negotiation.body_of(call.headers.get("content-type", ""), body, verb=route.verb)
                request = replace(request, body=body, content_type=media)
        try:
            answer = await self._verbs.handle(request)
        except StatusError as error:
            return refused(error, request.warnings)
        if not isinstance(answer, Answer):
            return Reply(200, view.lines(answer, request.resource))
        return Reply(answer.status, view.pieces(answer), headers=warning_headers(request.warnings))
