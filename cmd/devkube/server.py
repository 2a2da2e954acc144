"""The Python entry point, and the one place where the parts meet.

    async with DevKube(Settings()) as api:
        api.url, api.ca_file, api.kubeconfig, api.admin_token
        api.clock.freeze(); api.faults.…; api.expire_history()
        await api.request("GET", "/api/v1/namespaces")

Each part is an attribute, made in `__init__` in the order in which they need one another; a test may replace one
before it starts.
"""

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from devkube import certificates, kubeconfig
from devkube.access import authn
from devkube.access.objects import StoredObjects
from devkube.access.rbac import Authorizer
from devkube.access.rules import Question
from devkube.access.signing import Signer
from devkube.builtin.catalog import builtin_resources
from devkube.clock import Clock
from devkube.frontend import Frontend
from devkube.http import HttpServer, tls
from devkube.kinds import Catalog
from devkube.options import Settings
from devkube.requests import User
from devkube.routes import Route
from devkube.store import Store
from devkube.verbs import Verbs


class DevKube:
    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.clock = Clock()
        self.store = Store(limit=self.settings.history)
        self.catalog = Catalog(builtin_resources())
        self.verbs = Verbs(self.store, self.catalog, self.clock)
        self.objects = StoredObjects(self.store)
        self.admin_token = self.settings.admin_token or secrets.token_urlsafe(32)
        self.authorizer = Authorizer(self.objects, self.settings.authorization)
        self.authenticator = authn.Authenticator(
            self.objects,
            Signer(),
            self.clock,
            self.admin_token,
            tokens=_tokens(self.settings.token_file),
            anonymous=self.settings.authorization == "RBAC",
        )
        # Wired as they land:
        #   self.verbs.admission = admission.chain.Chain(objects, clock, webhook_services)
        #   self.verbs.virtual[...] = access.tokens / access.reviews; access.defaults written at the start
        #   self.registry = custom.registry.Registry(catalog), called by lifecycle when a CRD is written or gone
        #   self.simulation = simulation.Simulation(self)
        self.frontend = Frontend(
            self.catalog, self.verbs, self.clock, authenticate=self._authenticate, authorize=self._authorize
        )
        self.http = HttpServer(self.frontend)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.url = ""
        self.ca_file = self.kubeconfig = Path()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listening and with the kubeconfig written when it returns. OSError when the address is taken."""
        directory = self.settings.directory
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="devkube-")
            directory = Path(self._temporary.name)
        try:
            issued = certificates.issue((self.settings.listen, *self.settings.names))
            files = certificates.write(issued, directory)
            port = await self.http.start(self.settings.listen, self.settings.port, tls(files))
            self.url = f"https://{reachable(self.settings.listen)}:{port}"
            self.ca_file, self.kubeconfig = files.authority, directory / "kubeconfig"
            content = kubeconfig.document(self.url, issued.authority, self.admin_token)
            for path in filter(None, (self.kubeconfig, self.settings.kubeconfig)):
                kubeconfig.write(path, content)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self.http.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def expire_history(self) -> None:
        """Every version known to clients so far is too old now: 410 for those who resume."""
        self.store.compact()

    def _authenticate(self, headers: Mapping[str, str]) -> User:
        user = self.authenticator.user(headers.get("authorization"))
        return authn.impersonated(user, tuple(headers.items()), self.authorizer)

    def _authorize(self, user: User, route: Route) -> None:
        if not route.plural:
            self.authorizer.require(Question(user, route.verb, path=route.path))
            return
        where = (route.group, route.plural, route.subresource, route.namespace, route.name)
        self.authorizer.require(Question(user, route.verb, *where))


def reachable(listen: str) -> str:
    """The host of the URL: an address to bind to is not always one to go to."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(listen, listen)
    return f"[{host}]" if ":" in host else host


def _tokens(path: Path | None) -> Mapping[str, User]:
    return {} if path is None else authn.read_token_file(path.read_text().splitlines())
