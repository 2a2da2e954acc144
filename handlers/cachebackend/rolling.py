"""Rolling engines after their cache server was replaced: who the server is now, and which Deployments to touch.

The trigger is an annotation on the Pod template, as `kubectl rollout restart` writes one; it names the instance, so
writing it twice changes nothing. The rate limit, and which engines are left to roll, are read off our own last writes.

Rules: seed 004, status.observedServerInstance; spec/inferencecache.md section 8, "Cascade".
"""

from typing import Final, NamedTuple

from crds import core
from crds.cachebackend import CacheBackend
from handlers import canonical
from handlers.cachebackend import cascade, engines, names, providers, workload
from handlers.outcome import Intent, Key, Object, Patch
from handlers.world.reader import Reader
from handlers.world.state import Known

SECOND: Final = 1_000_000_000


class Rolled(NamedTuple):
    """`status` are fields to set; `again_ns` when to look again, 0 = never."""

    status: Object
    intents: tuple[Intent, ...] = ()
    again_ns: int = 0


NONE: Final = Rolled({})


def roll(world: Reader, backend: CacheBackend, status: Object) -> Rolled:
    namespace, name = backend.metadata.namespace, backend.metadata.name
    known = world.get(core.DEPLOYMENTS, namespace, name)
    pods = engines.pods_of(world, namespace)
    servers = _servers(world, backend, known, pods)
    targets = _targets(world, backend, pods)
    prior = str(status.get("observedServerInstance", ""))
    current = ",".join(f"{pod.metadata.uid}:{_restarts(pod, known)}" for pod in servers)
    last = max((one.time_ns for key, _ in targets if (one := world.applied(key)) and one.verb == "patch"), default=0)
    restarts = [_restart(key, one, current) for key, one in targets]
    left = [one for one in restarts if not _is_done(world, one)]
    begun = len(left) < len(restarts)
    age = (world.now_ns - last) // SECOND if last and not begun else None
    found = cascade.judge(prior=prior, current=current, converged=_converged(known, len(servers)), last_age=age)
    if found.cascade and left:  # the baseline moves when every engine was rolled: what failed is tried again
        return Rolled({"observedServerInstance": prior}, tuple(left))
    fields = {"observedServerInstance": found.baseline} if found.baseline else {}
    return Rolled(fields, again_ns=0 if found.requeue is None else world.now_ns + found.requeue * SECOND)


def _is_done(world: Reader, restart: Patch) -> bool:
    """Whether this very restart was our last write to its Deployment."""
    last = world.applied(restart.key)
    return (
        last is not None
        and (last.verb, last.uid) == ("patch", restart.uid)
        and last.desired == canonical.digest(restart.patch)
    )


def _servers(world: Reader, backend: CacheBackend, known: Known | None, pods: list[core.Pod]) -> list[core.Pod]:
    """Ready Pods of the managed workload, by name. Labels can be copied, so owners are followed by uid."""
    if known is None or not workload.owned(known, backend):
        return []
    labels = providers.selector(backend)
    mine = [
        pod
        for pod in pods
        if labels.items() <= pod.metadata.labels.items()
        and _deployment_of(world, pod) == (known.uid, backend.metadata.name)
    ]
    ready = [pod for pod in mine if pod.ready and not pod.terminal and not pod.metadata.deletion_timestamp]
    return sorted(ready, key=lambda pod: pod.metadata.name)


def _restarts(pod: core.Pod, known: Known | None) -> int:
    """Restarts of the server's own containers; what others injected may crash as it likes."""
    own = {one.name for one in known.value.spec.template.spec.containers} if known and known.value else set()
    return sum(one.restart_count for one in pod.status.container_statuses if one.name in own)


def _converged(known: Known | None, ready: int) -> bool:
    if known is None or known.value is None:
        return False
    deployment: core.Deployment = known.value
    wanted = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    status = deployment.status
    caught_up = status.observed_generation >= deployment.metadata.generation
    return caught_up and wanted == status.ready_replicas == status.updated_replicas == ready


def _targets(world: Reader, backend: CacheBackend, pods: list[core.Pod]) -> list[tuple[Key, Known]]:
    """Deployments whose Pods were wired to this backend, followed by uid from Pod to ReplicaSet to Deployment."""
    namespace, found = backend.metadata.namespace, {}
    for pod in pods:
        above = _deployment_of(world, pod) if engines.wired_to(pod, backend) else None
        if above is None or above.name == backend.metadata.name:
            continue
        known = world.get(core.DEPLOYMENTS, namespace, above.name)
        if known is not None and known.uid == above.uid and known.value is not None:
            found[Key(core.DEPLOYMENTS, namespace, above.name)] = known
    return sorted(found.items())


class _Above(NamedTuple):
    uid: str
    name: str


def _deployment_of(world: Reader, pod: core.Pod) -> _Above | None:
    """The Deployment above a Pod, by the uids of its owners."""
    owner = pod.metadata.controller
    if owner is None or owner.kind != "ReplicaSet":
        return None
    between = world.get(core.REPLICA_SETS, pod.metadata.namespace, owner.name)
    if between is None or between.uid != owner.uid or between.value is None:
        return None
    above = between.value.metadata.controller
    return _Above(above.uid, above.name) if above is not None and above.kind == "Deployment" else None


def _restart(key: Key, known: Known, instance: str) -> Patch:
    annotations = {names.RESTART_TRIGGER: instance}
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    return Patch(key=key, uid=known.uid, resource_version=known.resource_version, patch=patch)
