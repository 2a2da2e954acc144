"""CacheBackend as a system of the machine: which kinds it reads, which events concern which backends.

Rules: handlers/system.py.
"""

from collections.abc import Iterable
from typing import Final

from crds import cachebackend, core
from eventstore import events, subjects
from handlers.cachebackend import desired, names, podevents, validate
from handlers.cachebackend.concerned import Concerned
from handlers.outcome import Key, Outcome
from handlers.unusable import Written
from handlers.world.reader import Reader
from handlers.world.state import World

KINDS: Final = frozenset(
    (cachebackend.CACHE_BACKENDS, core.PODS, core.DEPLOYMENTS, core.REPLICA_SETS, core.SERVICES, core.AUTOSCALERS)
)


def _broken(backend: cachebackend.CacheBackend) -> str:
    found = next(iter(validate.violations(backend)), None)
    return f"{found.field}: {found.detail}" if found is not None else ""


STATUSES: Final = {
    cachebackend.CACHE_BACKENDS: Written(
        "inferencecache.io/v1alpha1", "CacheBackend", ("Progressing", "Ready"), _broken
    )
}


class CacheBackends:
    name = names.HANDLER
    kinds = KINDS
    statuses = STATUSES

    def __init__(self) -> None:
        self._concerned = Concerned()

    def concerns(self, event: events.Decoded, world: World) -> Iterable[Key]:
        """Objects concern the backend of their name and, as Pods and their owners do, every backend that they may count
        for; what the index saw concerns the backends of its tenant."""
        match event.data:
            case events.ObjectSeen() | events.ObjectGone():
                return self._object(event.stored.subject, world)
            case events.KindListed():
                return self.keys(world)
            case events.ReplicaObserved() as seen:
                return _of(world, seen.tenant)
            case events.IndexSummarised() as summary:
                tenants = {one.tenant for one in summary.replicas}
                return [key for tenant in sorted(tenants) for key in _of(world, tenant)]
            case events.TimerFired() as timer if timer.handler == self.name:
                return [_parsed(timer.key)]
        return ()

    def _object(self, subject: str, world: World) -> Iterable[Key]:
        kind, namespace, name = (subjects.unescape(part) for part in subject.split(".")[2:])
        if kind not in KINDS:
            return ()
        key = Key(kind, namespace, name)
        if kind == cachebackend.CACHE_BACKENDS:
            return self._concerned.by_backend(world, key)
        if kind == core.PODS:
            return [*self._concerned.by_pod(world, key), key]
        return _of(world, namespace)

    def keys(self, world: World) -> Iterable[Key]:
        return [*world.keys(cachebackend.CACHE_BACKENDS), *world.keys(core.PODS)]

    def desired(self, world: Reader, key: Key) -> Outcome:
        return podevents.desired(world, key) if key.kind == core.PODS else desired.desired(world, key)


def _of(world: World, namespace: str) -> list[Key]:
    return world.keys(cachebackend.CACHE_BACKENDS, namespace)


def _parsed(text: str) -> Key:
    kind, namespace, name = text.split("/", 2)
    return Key(kind, namespace, name)
