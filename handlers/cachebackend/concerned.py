"""Which backends a Pod, or another backend, can matter to: so that a change of one does not look at all of them.

Memory of what was seen last is only for speed: what was not seen before concerns every backend of its namespace.

Rules: handlers/system.py, "too many is slow, too few is wrong"; handlers/cachebackend/engines.py, attribution.
"""

from crds import core
from crds.cachebackend import CACHE_BACKENDS, CacheBackend
from handlers.cachebackend import names
from handlers.cachebackend.inject import claims
from handlers.outcome import Key
from handlers.world.state import World

INSTANCE = "app.kubernetes.io/instance"


class Concerned:
    """Of one world after another: who is handed another world has forgotten the one before."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._pods: dict[Key, core.Pod | None] = {}
        self._selectors: dict[Key, dict[str, str]] = {}

    def by_pod(self, world: World, key: Key) -> list[Key]:
        """Backends that a Pod counts for, before or after this change; the Pod is folded already."""
        self._of(world)
        known = world.find(key)
        after: core.Pod | None = known.value if known is not None else None
        backends = world.keys(CACHE_BACKENDS, key.namespace)
        if key not in self._pods and known is None:
            return backends
        unseen, before = key not in self._pods, self._pods.get(key)
        if known is None:
            del self._pods[key]
        else:
            self._pods[key] = after
        if unseen:
            return backends
        pods = [one for one in (before, after) if one is not None]
        return [one for one in backends if any(_matters(world, one, pod) for pod in pods)]

    def by_backend(self, world: World, key: Key) -> list[Key]:
        """The backend itself; where engines report, every other one whenever it claims other Pods than before."""
        self._of(world)
        known = world.find(key)
        backend: CacheBackend | None = known.value if known is not None else None
        labels = dict(backend.spec.labels) if backend is not None else {}
        same = self._selectors.get(key) == labels
        if known is None:
            self._selectors.pop(key, None)
        else:
            self._selectors[key] = labels
        if same or not any(tenant == key.namespace for tenant, _ in world.replicas):
            return [key]
        return [key, *(one for one in world.keys(CACHE_BACKENDS, key.namespace) if one != key)]

    def _of(self, world: World) -> None:
        if world is not self._world:
            self._world, self._pods, self._selectors = world, {}, {}


def _matters(world: World, key: Key, pod: core.Pod) -> bool:
    """Claimed by its selector, marked by its webhook, or run by its workload."""
    known = world.find(key)
    if known is None or known.value is None:
        return True
    metadata = pod.metadata
    mark = metadata.annotations.get(names.INJECTED_BY, "")
    return (
        claims(known.value, metadata.labels)
        or mark.rpartition("/")[2] == key.name
        or metadata.labels.get(INSTANCE) == key.name
    )
