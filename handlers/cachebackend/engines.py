"""The engines of a backend: which Pods its selector matches, which were wired to it, and what the index holds of them.

Attribution of a replica: the mark that the webhook left wins; a Pod without one belongs to the first backend by name
whose selector matches it. A replica whose Pod is gone is nobody's.

Rules: seed 004, "Index Participation", status.matchedEnginePods; spec/inferencecache.md section 8.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crds import cachebackend, core
from crds.cachebackend import CacheBackend
from handlers import moments
from handlers.cachebackend import names
from handlers.cachebackend.inject import selected
from handlers.outcome import Object
from handlers.world.reader import Reader

_SECOND = 1_000_000_000


class Matched(NamedTuple):
    """`pods` None: no selector claims anything. `message` says why nothing matches where something should."""

    pods: int | None
    message: str = ""


def pods_of(world: Reader, namespace: str) -> list[core.Pod]:
    return [known.value for _, known in world.select(core.PODS, namespace) if known.value is not None]


def matched(world: Reader, backend: CacheBackend, pods: Sequence[core.Pod]) -> Matched:
    labels = backend.spec.labels
    if not labels:
        return Matched(None)
    count = sum(1 for pod in pods if labels.items() <= pod.metadata.labels.items())
    if count or not _expected(world, backend):
        return Matched(count)
    listed = ",".join(f"{key}:{value}" for key, value in sorted(labels.items()))
    return Matched(count, f"spec.engineSelector.matchLabels={{{listed}}} matches no Pod in this namespace")


def _expected(world: Reader, backend: CacheBackend) -> bool:
    """False where every Deployment whose Pods would match is scaled to zero on purpose."""
    labels = backend.spec.labels
    found = [
        known.value.spec.replicas
        for _, known in world.select(core.DEPLOYMENTS, backend.metadata.namespace)
        if known.value is not None and labels.items() <= known.value.spec.template.metadata.labels.items()
    ]
    return not found or any(replicas != 0 for replicas in found)


def wired_to(pod: core.Pod, backend: CacheBackend) -> bool:
    """The webhook's marks, name and uid: a copied template or an older namesake does not count."""
    marks = pod.metadata.annotations
    own = f"{backend.metadata.namespace}/{backend.metadata.name}"
    return marks.get(names.INJECTED_BY) == own and marks.get(names.INJECTED_BY_UID) == backend.metadata.uid


def participation(world: Reader, backend: CacheBackend, pods: Sequence[core.Pod]) -> Object | None:
    """status.indexParticipation, or None where no replica is attributed now. Shares are shortest decimals."""
    owners = {pod.metadata.name: pod for pod in pods}
    rivals = _backends(world, backend.metadata.namespace)
    mine = [
        one
        for one in world.replicas(backend.metadata.namespace)
        if (pod := owners.get(one.replica.split("@", 1)[0])) is not None
        and _owner(pod, rivals) == backend.metadata.name
    ]
    if not mine:
        return None
    found: Object = {"prefixCount": sum(one.blocks for one in mine)}
    if last := max(one.last_event_ns for one in mine):
        found["lastEventAt"] = moments.text(last // _SECOND)
    queries = sum(one.statistics.get("t2_query_tokens", 0) for one in mine)
    hits = sum(one.statistics.get("t2_hit_tokens", 0) for one in mine)
    if queries > 0:
        found["t2HitRate"] = share(hits / queries)
    return found


def share(value: float) -> str:
    """Between 0 and 1, without an exponent and without trailing zeros."""
    return f"{min(max(value, 0.0), 1.0):.7f}".rstrip("0").rstrip(".")


def _backends(world: Reader, namespace: str) -> list[CacheBackend]:
    kind = cachebackend.CACHE_BACKENDS
    return [known.value for _, known in world.select(kind, namespace) if known.value is not None]


def _owner(pod: core.Pod, backends: Sequence[CacheBackend]) -> str:
    """The name of the backend that a Pod's replica counts for, "" for none."""
    mark = pod.metadata.annotations.get(names.INJECTED_BY, "")
    namespace, slash, name = mark.partition("/")
    if slash and namespace == pod.metadata.namespace:
        return name if any(one.metadata.name == name for one in backends) else ""
    found = selected(backends, pod.metadata.labels)
    return found.metadata.name if found else ""
