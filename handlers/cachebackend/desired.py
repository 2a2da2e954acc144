"""What should be for one CacheBackend: its workload, its status, the Events that tell of changes.

Pure: the same world gives the same Outcome. What it wrote last shows in the world before a watch brings it back
(`Reader.status`), so latches and transition times never go back and forth.

Rules: seed 004, "Status", "Conditions"; spec/inferencecache.md section 8.
"""

from typing import Any, Final, NamedTuple

import msgspec

from crds import cachebackend, core, schema
from crds.cachebackend import CACHE_BACKENDS, CacheBackend
from handlers import conditions, goduration, moments
from handlers.cachebackend import advisory, engines, modes, narrate, providers, readiness, rolling
from handlers.conditions import Shown
from handlers.outcome import NOTHING, Apply, Delete, Intent, Key, Object, Outcome, Status, Told
from handlers.world.reader import Reader
from handlers.world.state import Known

SECOND: Final = 1_000_000_000
#: Fields that only count; a write of nothing else may wait.
COUNTS: Final = ("matchedEnginePods", "indexParticipation")


class Live(NamedTuple):
    """The objects that carry the backend's name, ours or not."""

    deployment: Known | None
    service: Known | None
    autoscaler: Known | None


def desired(world: Reader, key: Key) -> Outcome:
    known = world.get(*key)
    if known is None or known.value is None or known.value.metadata.deletion_timestamp:
        return NOTHING
    backend = _identified(known)
    live = Live(
        world.get(core.DEPLOYMENTS, key.namespace, key.name),
        world.get(core.SERVICES, key.namespace, key.name),
        world.get(core.AUTOSCALERS, key.namespace, key.name),
    )
    mode = modes.mode_of(backend.spec)
    workload = _workload(backend, live) if mode == "Managed" else _shed(backend, live)
    status, told, again = _status(world, key, backend, mode, live)
    rolled = rolling.roll(world, backend, status) if mode == "Managed" else rolling.NONE
    status = {**status, **rolled.status}
    again_ns = min((at for at in (again, rolled.again_ns) if at), default=0)
    before = world.status(key, msgspec.to_builtins(backend.status))
    written: list[Intent] = []
    if _normal(status) != _normal(before):
        written.append(Status(key=key, uid=known.uid, status=status, lazy=_only_counts(before, status)))
    return Outcome(intents=(*workload, *rolled.intents, *written, *told), again_ns=again_ns)


def _identified(known: Known) -> CacheBackend:
    """The object with the identity that it was observed under."""
    backend: CacheBackend = known.value
    metadata = msgspec.structs.replace(backend.metadata, uid=known.uid, resource_version=known.resource_version)
    return msgspec.structs.replace(backend, metadata=metadata)


def _normal(status: Object) -> cachebackend.CacheBackendStatus:
    """What is absent and what is empty are the same."""
    return schema.read(status, cachebackend.CacheBackendStatus)


def _only_counts(before: Object, after: Object) -> bool:
    kept = [{k: v for k, v in one.items() if k not in COUNTS} for one in (before, after)]
    return _normal(kept[0]) == _normal(kept[1])


# The workload ---------------------------------------------------------------------------------------------------------


def owned(known: Known | None, backend: CacheBackend) -> bool:
    """Whether the live object is this backend's own: a foreign one of the same name is left alone."""
    owner = known.value.metadata.controller if known is not None and known.value is not None else None
    return owner is not None and owner.uid == backend.metadata.uid


def _workload(backend: CacheBackend, live: Live) -> list[Intent]:
    running = live.deployment.value.spec.replicas if live.deployment and live.deployment.value else None
    made = providers.render(backend, live_replicas=running)
    name, namespace, uid = backend.metadata.name, backend.metadata.namespace, backend.metadata.uid
    found: list[Intent] = []
    if live.deployment is None or owned(live.deployment, backend):
        found.append(Apply(key=Key(core.DEPLOYMENTS, namespace, name), body=made.deployment, owner=uid))
    if live.service is None or owned(live.service, backend):
        found.append(_service(backend, live.service, made.service))
    if made.autoscaler is not None and (live.autoscaler is None or owned(live.autoscaler, backend)):
        key = Key(core.AUTOSCALERS, namespace, name)
        shown = live.autoscaler.value.spec if live.autoscaler and live.autoscaler.value else made.autoscaler["spec"]
        drifted = not _covers(shown, made.autoscaler["spec"])
        found.append(Apply(key=key, body=made.autoscaler, owner=uid, drifted=drifted))
    if made.autoscaler is None and live.autoscaler is not None and owned(live.autoscaler, backend):
        found.append(_delete(core.AUTOSCALERS, backend, live.autoscaler))
    return found


def _service(backend: CacheBackend, live: Known | None, body: Object) -> Intent:
    """Applied, or deleted first where it must become headless or stop being so: clusterIP cannot change."""
    key = Key(core.SERVICES, backend.metadata.namespace, backend.metadata.name)
    if live is None or live.value is None:
        return Apply(key=key, body=body, owner=backend.metadata.uid)
    spec: core.ServiceSpec = live.value.spec
    if (spec.cluster_ip == "None") != (body["spec"].get("clusterIP") == "None"):
        return _delete(core.SERVICES, backend, live)
    shown = {(one.name, one.port, str(one.target_port), one.protocol) for one in spec.ports}
    wanted = {(one["name"], one["port"], one["targetPort"], one["protocol"]) for one in body["spec"]["ports"]}
    drifted = shown != wanted or spec.selector != body["spec"]["selector"]
    return Apply(key=key, body=body, owner=backend.metadata.uid, drifted=drifted)


def _covers(shown: Any, wanted: Any) -> bool:
    """Whether everything wanted is shown; what the API server added besides does not matter."""
    if isinstance(wanted, dict):
        return isinstance(shown, dict) and all(_covers(shown.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(shown, list) and len(shown) == len(wanted) and all(map(_covers, shown, wanted))
    return bool(shown == wanted)


def _shed(backend: CacheBackend, live: Live) -> list[Intent]:
    """A backend that has no workload any more gives up the one that it had."""
    kinds = ((core.DEPLOYMENTS, live.deployment), (core.SERVICES, live.service), (core.AUTOSCALERS, live.autoscaler))
    return [_delete(kind, backend, known) for kind, known in kinds if known is not None and owned(known, backend)]


def _delete(kind: str, backend: CacheBackend, known: Known) -> Delete:
    return Delete(key=Key(kind, backend.metadata.namespace, backend.metadata.name), uid=known.uid)


# The status -----------------------------------------------------------------------------------------------------------


def _status(
    world: Reader, key: Key, backend: CacheBackend, mode: modes.Mode, live: Live
) -> tuple[Object, list[Intent], int]:
    """The whole status, Events of what changed in it, and when it changes by itself (ns, 0 = never)."""
    before = world.status(key, msgspec.to_builtins(backend.status))
    prior = before.get("conditions", [])
    pods = engines.pods_of(world, key.namespace)
    matched, index = engines.matched(world, backend, pods), engines.participation(world, backend, pods)
    if index is None and before.get("indexParticipation"):
        index = {**before["indexParticipation"], "prefixCount": 0}
    now = world.now_ns // SECOND
    assessed = readiness.assess(_observed(backend, mode, live, before, index, now))
    shown = {kind: Shown(str(one.status), one.reason, one.message) for kind, one in assessed.conditions.items()}
    shown |= _advice(backend, mode, pods, index, shown)
    storage = backend.spec.remote_storage
    endpoint = ""
    if mode == "External" and storage is not None:
        endpoint = storage.endpoint.strip()
    elif mode == "Managed" and owned(live.service, backend):
        endpoint = providers.endpoint(backend)
    status = {
        "observedGeneration": backend.metadata.generation,
        "endpoint": endpoint,
        "matchedEnginePods": matched.pods,
        "engineSelectorMessage": matched.message,
        "failOpen": backend.spec.wiring.fail_open,
        "indexParticipation": index,
        "firstKVEventObservedAt": _text(assessed.first_event),
        "firstAvailableAt": _text(assessed.first_available),
        "observedServerInstance": before.get("observedServerInstance", "") if mode == "Managed" else "",
        "conditions": conditions.merged(prior, shown, now=now, generation=backend.metadata.generation),
    }
    status = {name: value for name, value in status.items() if value not in (None, "", [])}
    lines = narrate.changes(before, status, assessed)
    again = 0 if assessed.again is None else assessed.again * SECOND
    since = world.status_position(key)
    return status, [_told(key, backend, line, f"{line.reason}:{since}") for line in lines], again


def _text(moment: int | None) -> str | None:
    return None if moment is None else moments.text(moment)


def _observed(
    backend: CacheBackend, mode: modes.Mode, live: Live, before: Object, index: Object | None, now: int
) -> readiness.Observed:
    spec = backend.spec
    timeout = goduration.nanoseconds((spec.observation.first_event_timeout if spec.observation else None) or "5m")
    storage = spec.remote_storage
    return readiness.Observed(
        mode=mode,
        now=now,
        timeout=(timeout or 0) // SECOND or readiness.DEFAULT_TIMEOUT,
        annotations=backend.metadata.annotations,
        rollout=_rollout(live.deployment) if owned(live.deployment, backend) else None,
        provider=storage.provider if storage else "",
        endpoint=storage.endpoint if storage else "",
        had_server=bool(before.get("endpoint") or before.get("observedServerInstance")),
        prior_reason=conditions.reason_of(before.get("conditions", []), "Ready"),
        first_available=moments.seconds(before.get("firstAvailableAt")),
        first_event=moments.seconds(before.get("firstKVEventObservedAt")),
        last_event=moments.seconds((index or {}).get("lastEventAt")),
    )


def _rollout(known: Known | None) -> readiness.Rollout | None:
    if known is None or known.value is None:
        return None
    deployment: core.Deployment = known.value
    return readiness.Rollout(
        desired=1 if deployment.spec.replicas is None else deployment.spec.replicas,
        updated=deployment.status.updated_replicas,
        available=deployment.status.available_replicas,
        generation=deployment.metadata.generation,
        observed_generation=deployment.status.observed_generation,
    )


def _advice(
    backend: CacheBackend, mode: modes.Mode, pods: list[core.Pod], index: Object | None, shown: dict[str, Shown]
) -> dict[str, Shown]:
    """What is advised beside the three states, and Ready where a strict kernel check takes it away."""
    found: dict[str, Shown | None] = {}
    if mode in ("Managed", "HostOnly"):
        found["EngineKernelsHealthy"] = kernels = advisory.kernels(backend, pods)
        found["EngineCompatibility"] = advisory.compatibility(backend, pods)
        if kernels is not None and kernels.status == "False" and advisory.strict(backend) and "Ready" in shown:
            found["Ready"] = Shown("False", "EngineKernelDegraded", kernels.message)
    if mode == "Managed":
        found["T2Degraded"] = advisory.remote_tier(index)
    return {kind: one for kind, one in found.items() if one is not None}


def _told(key: Key, backend: CacheBackend, line: narrate.Line, at: str) -> Told:
    return Told(
        about=Key(CACHE_BACKENDS, key.namespace, key.name),
        uid=backend.metadata.uid,
        api_version="inferencecache.io/v1alpha1",
        object_kind="CacheBackend",
        type=line.type,
        reason=line.reason,
        message=line.message,
        transition=at,
    )
