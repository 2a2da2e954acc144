"""The Python entry point, and the one place where the parts meet.

    async with DevKube(Settings()) as api:
        api.url, api.ca_file, api.kubeconfig, api.admin_token
        api.clock.freeze(); api.faults.fail(503, verb="list"); api.expire_history()
        await api.request("GET", "/api/v1/namespaces")

Each part is an attribute; a test may replace one before it starts.
"""

import secrets
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from devkube import certificates, routes, selectors, wiring
from devkube.access.authn import Authenticator, impersonated
from devkube.access.rbac import Authorizer, Question
from devkube.admission.call import Caller
from devkube.admission.chain import Chain
from devkube.clock import Clock
from devkube.custom.registry import Registry
from devkube.faults import Faults
from devkube.http import HttpServer, tls
from devkube.kinds import Catalog, Object, Resource
from devkube.lifecycle import Lifecycle
from devkube.options import Settings
from devkube.requests import ADMIN, JSON, Answer, EventType, Stream, User
from devkube.routes import Route
from devkube.store import Store, encode
from devkube.strategies import CRDS
from devkube.tables import View
from devkube.verbs import Verbs

if TYPE_CHECKING:
    from devkube.simulation.simulation import Simulation


class DevKube:
    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.clock = Clock()
        self.catalog = Catalog(wiring.builtins())
        self.store = Store(self._selectable, limit=self.settings.history)
        self.verbs = Verbs(self.store, self.catalog, self.clock)
        self.admin_token = self.settings.admin_token or secrets.token_urlsafe(24)
        self.authenticator = Authenticator(self.store, self.clock, self.admin_token)
        self.authorizer = Authorizer(self.store, self.settings.authorization)
        self.admission = Chain(self.store, self.catalog, Caller(self.settings.webhook_services))
        self.verbs.admission = self.admission
        self.verbs.authorize = self._may
        self.verbs.virtual.update(wiring.virtual(self.verbs, self.authenticator, self.authorizer))
        self.registry = Registry(self.catalog)
        self.verbs.complete = self._complete
        self.issued = certificates.issue((self.settings.listen, *self.settings.names))
        self.lifecycle = Lifecycle(self.verbs, self.registry, authority=self.issued.authority.decode())
        self.faults = Faults()
        self.http = HttpServer(
            self.catalog,
            self.verbs,
            self.clock,
            authenticate=self._authenticate,
            authorize=self._authorize,
            faults=self.faults,
        )
        self.faults.cut_connections = self.http.cut
        self._simulation: Simulation | None = None
        self._started = AsyncExitStack()  # what is to be ended, the last first
        self.url = ""
        self.kubeconfig = self.ca_file = Path()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listening and with the kubeconfig written when it returns. OSError when the address is taken."""
        async with AsyncExitStack() as started:
            settings, directory = self.settings, self.settings.directory
            if directory is None:
                directory = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="devkube-")))
            files = certificates.write(self.issued, directory)
            wiring.seed(self.store, self.catalog, self.clock)
            started.push_async_callback(self.admission.close)
            self.lifecycle.start()
            started.push_async_callback(self.lifecycle.stop)
            if settings.simulate:
                from devkube.simulation.simulation import Simulation  # nothing of it where it is not asked for

                self._simulation = Simulation(self)
                started.push_async_callback(self._simulation.stop)
                await self._simulation.start()
            port = await self.http.start(settings.listen, settings.port, tls(files))
            started.push_async_callback(self.http.stop)
            address = f"{reachable(settings.listen)}:{port}"
            self.url = f"https://{address}"
            self.http.documents.address = address
            self.ca_file, self.kubeconfig = files.authority, directory / "kubeconfig"
            for path in filter(None, (self.kubeconfig, settings.kubeconfig)):
                certificates.write_kubeconfig(path, self.url, self.issued.authority, self.admin_token)
            self._started = started.pop_all()

    async def stop(self) -> None:
        await self._started.aclose()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        user: User = ADMIN,
        agent: str = "devkube",
    ) -> Any:
        """The decoded answer. StatusError when there is none; nothing is authorized, faults do not meet it."""
        raw = body if isinstance(body, bytes) else b"" if body is None else encode(body)
        answer = await self._ask(method, path, query or {}, body=raw, content_type=content_type, user=user, agent=agent)
        if not isinstance(answer, Answer):
            raise ValueError("a watch is a stream: use DevKube.watch")
        return msgspec.json.decode(b"".join(View("", "", self.clock).pieces(answer)))

    async def watch(
        self, path: str, *, query: Mapping[str, str] | None = None, user: User = ADMIN
    ) -> AsyncGenerator[tuple[EventType, Object], None]:
        """(type, object) as they happen. The watch ends when the generator is closed."""
        answer = await self._ask("GET", path, {"watch": "1", **(query or {})}, user=user)
        assert not isinstance(answer, Answer)
        async with aclosing(answer):
            async for batch in answer:
                for event in batch:
                    yield event.type, msgspec.json.decode(event.raw)

    async def _ask(self, method: str, path: str, query: Mapping[str, str], **more: Any) -> Answer | Stream:
        split = urlsplit(path)
        query = {**dict(parse_qsl(split.query, keep_blank_values=True)), **query}
        route = routes.parse(method, split.path, query)
        return await self.verbs.handle(routes.request(self.catalog, route, query, **more))

    @property
    def simulation(self) -> "Simulation":
        """For tests that let cluster life settle or time elapse."""
        if self._simulation is None:
            raise ValueError("nothing is simulated: start with Settings(simulate=True)")
        return self._simulation

    def expire_history(self) -> None:
        """Every version known to clients so far is too old now: 410 for those who resume."""
        self.store.compact()

    def _selectable(self, key: str, obj: Object) -> Mapping[str, str]:
        resource = self.catalog.stored_as(key)
        return selectors.values(resource, obj) if resource else {}

    def _authenticate(self, headers: Mapping[str, str]) -> User:
        user = self.authenticator.user(headers.get("authorization"))
        return impersonated(user, headers.items(), self.authorizer)

    def _authorize(self, user: User, route: Route) -> None:
        about = (route.group, route.plural, route.subresource, route.namespace, route.name)
        asked = Question(user, route.verb, *about) if route.plural else Question(user, route.verb, path=route.path)
        self.authorizer.require(asked)

    def _may(self, user: User, verb: str, resource: Resource, namespace: str, name: str) -> None:
        self.authorizer.require(Question(user, verb, resource.group, resource.plural, "", namespace, name))

    def _complete(self, resource: Resource, obj: Object) -> None:
        if resource.key == CRDS:
            obj["status"] = self.registry.status(obj, self.clock.timestamp())


def reachable(listen: str) -> str:
    """The host of the URL: an address to bind to is not always one to go to."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(listen, listen)
    return f"[{host}]" if ":" in host else host
