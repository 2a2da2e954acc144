"""The Python entry point, and the one place where the parts meet.

    async with DevKube(Settings()) as api:
        api.url, api.ca_file, api.kubeconfig, api.admin_token
        api.clock.freeze(); api.faults.…; api.expire_history()
        await api.request("GET", "/api/v1/namespaces")

Each part is an attribute, made in `__init__` in the order in which they need one another; a test may replace one
before it starts.
"""

from devkube.clock import Clock
from devkube.kinds import Catalog
from devkube.options import Settings
from devkube.store import Store
from devkube.verbs import Verbs


class DevKube:
    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.clock = Clock()
        self.store = Store(limit=self.settings.history)
        self.catalog = Catalog()  # builtin.catalog
        self.verbs = Verbs(self.store, self.catalog, self.clock)
        # Wired as they land:
        #   self.verbs.admission = admission.chain.Chain(objects, clock, webhook_services)
        #   self.verbs.virtual[...] = access.tokens / access.reviews
        #   self.authenticator (token -> User, 401), self.authorizer (user, verb, … -> 403)   access.authn, access.rbac
        #   self.registry = custom.registry.Registry(catalog), called by lifecycle when a CRD is written or gone
        #   self.http = http.application(self); certificates, kubeconfig
        #   self.simulation = simulation.Simulation(self)

    def expire_history(self) -> None:
        """Every version known to clients so far is too old now: 410 for those who resume."""
        self.store.compact()
