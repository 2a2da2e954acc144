"""What should run for a managed backend: Deployment, Service and autoscaler of its name, and what is taken off them.

Objects are applied by server, which puts our own fields right and leaves what others added. What must not be there
(a second container, another port) is taken off by a patch after it, which then changes nothing that is ours.

Rules: seed 004, "Resources", "Template Overrides"; spec/inferencecache.md section 7 (drift, foreign objects, headless).
"""

from typing import Any, Final, NamedTuple

from crds import core
from crds.cachebackend import CacheBackend
from handlers.cachebackend import providers
from handlers.outcome import Apply, Delete, Intent, Key, Object, Patch
from handlers.world.reader import Reader
from handlers.world.state import Known

#: Of a Pod template, what nobody but the CacheBackend says.
EXACT: Final = (
    "initContainers", "volumes", "hostNetwork", "dnsPolicy", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "imagePullSecrets", "serviceAccountName", "serviceAccount", "securityContext",
    "priorityClassName", "schedulerName", "runtimeClassName", "terminationGracePeriodSeconds",
)  # fmt: skip


class Live(NamedTuple):
    """The objects that carry the backend's name, ours or not."""

    deployment: Known | None
    service: Known | None
    autoscaler: Known | None


def look(world: Reader, key: Key) -> Live:
    return Live(*(world.get(kind, key.namespace, key.name) for kind in _KINDS))


_KINDS: Final = (core.DEPLOYMENTS, core.SERVICES, core.AUTOSCALERS)


def owned(known: Known | None, backend: CacheBackend) -> bool:
    """Whether the live object is this backend's own: a foreign one of the same name is left alone."""
    owner = known.value.metadata.controller if known is not None and known.value is not None else None
    return owner is not None and owner.uid == backend.metadata.uid


def wanted(world: Reader, backend: CacheBackend, live: Live) -> list[Intent]:
    running = live.deployment.value.spec.replicas if live.deployment and live.deployment.value else None
    made = providers.render(backend, live_replicas=running)
    found: list[Intent] = []
    if live.deployment is None or owned(live.deployment, backend):
        found += _deployment(world, backend, live.deployment, made.deployment)
    if live.service is None or owned(live.service, backend):
        found += _service(backend, live.service, made.service)
    if made.autoscaler is not None and (live.autoscaler is None or owned(live.autoscaler, backend)):
        shown = live.autoscaler.value.spec if live.autoscaler and live.autoscaler.value else made.autoscaler["spec"]
        drifted = not _covers(shown, made.autoscaler["spec"])
        found.append(_apply(core.AUTOSCALERS, backend, made.autoscaler, drifted=drifted))
    if made.autoscaler is None and live.autoscaler is not None and owned(live.autoscaler, backend):
        found.append(_delete(core.AUTOSCALERS, backend, live.autoscaler))
    return found


def shed(backend: CacheBackend, live: Live) -> list[Intent]:
    """A backend that has no workload any more gives up the one that it had."""
    pairs = zip(_KINDS, live, strict=True)
    return [_delete(kind, backend, known) for kind, known in pairs if known is not None and owned(known, backend)]


def _key(kind: str, backend: CacheBackend) -> Key:
    return Key(kind, backend.metadata.namespace, backend.metadata.name)


def _apply(kind: str, backend: CacheBackend, body: Object, *, drifted: bool = False) -> Apply:
    return Apply(key=_key(kind, backend), body=body, owner=backend.metadata.uid, drifted=drifted)


def _delete(kind: str, backend: CacheBackend, known: Known) -> Delete:
    return Delete(key=_key(kind, backend), uid=known.uid)


def _off(kind: str, backend: CacheBackend, known: Known, patch: Object) -> Patch:
    return Patch(key=_key(kind, backend), uid=known.uid, resource_version=known.resource_version, patch=patch)


# The Deployment -------------------------------------------------------------------------------------------------------


def _deployment(world: Reader, backend: CacheBackend, live: Known | None, body: Object) -> list[Intent]:
    """Deleted first where another provider's must become one that is recreated, not rolled: an apply cannot take off
    what the API server filled in for rolling, and refuses the two together. Its Pods would all be replaced anyway."""
    if live is not None and "strategy" in body["spec"] and not _runs(live, body):
        return [_delete(core.DEPLOYMENTS, backend, live)]
    found: list[Intent] = [_apply(core.DEPLOYMENTS, backend, body)]
    if live is not None and _changed_by_others(world, _key(core.DEPLOYMENTS, backend), live):
        given = body["spec"]["template"]["spec"]
        exact = {**{name: given.get(name) for name in EXACT}, "containers": given["containers"]}
        found.append(_off(core.DEPLOYMENTS, backend, live, {"spec": {"template": {"spec": exact}}}))
    return found


def _runs(live: Known, body: Object) -> bool:
    """Whether the live Deployment has the container that we want."""
    (container,) = body["spec"]["template"]["spec"]["containers"]
    shown = live.value.spec.template.spec.containers if live.value is not None else []
    return any(one.name == container["name"] for one in shown)


def _changed_by_others(world: Reader, key: Key, live: Known) -> bool:
    """Whether its generation is another than the one that our last write left. Most of a Deployment is not watched, so
    what was changed is not known; and it is asked once per change, whatever comes of it."""
    last = world.applied(key)
    if last is None or last.uid != live.uid or live.value is None:
        return False
    versions = live.resource_version, last.resource_version
    if all(one.isdigit() for one in versions) and int(versions[0]) < int(versions[1]):
        return False  # observed before our write
    return live.value.metadata.generation not in (0, last.generation)


# The Service ----------------------------------------------------------------------------------------------------------


def _service(backend: CacheBackend, live: Known | None, body: Object) -> list[Intent]:
    """Deleted first where it must become headless or stop being so: clusterIP cannot change."""
    if live is None or live.value is None:
        return [_apply(core.SERVICES, backend, body)]
    shown: core.ServiceSpec = live.value.spec
    given = body["spec"]
    if (shown.cluster_ip == "None") != (given.get("clusterIP") == "None"):
        return [_delete(core.SERVICES, backend, live)]
    ports = {(one.name, one.port, str(one.target_port), one.protocol) for one in shown.ports}
    wanted = {(one["name"], one["port"], one["targetPort"], one["protocol"]) for one in given["ports"]}
    strange = {name: None for name in shown.selector if name not in given["selector"]}
    if ports == wanted and shown.selector == given["selector"] and shown.type == given["type"]:
        return [_apply(core.SERVICES, backend, body)]
    found: list[Intent] = [_apply(core.SERVICES, backend, body, drifted=True)]
    if ports - wanted or strange:
        patch = {"spec": {"selector": {**given["selector"], **strange}, "ports": given["ports"]}}
        found.append(_off(core.SERVICES, backend, live, patch))
    return found


# The autoscaler -------------------------------------------------------------------------------------------------------


def _covers(shown: Any, wanted: Any) -> bool:
    """Whether everything wanted is shown; what the API server added besides does not matter."""
    if isinstance(wanted, dict):
        return isinstance(shown, dict) and all(_covers(shown.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(shown, list) and len(shown) == len(wanted) and all(map(_covers, shown, wanted))
    return bool(shown == wanted)
