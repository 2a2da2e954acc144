"""What should be for one CacheBackend: its workload, its status, the Events that tell of changes.

Pure: the same world gives the same Outcome. What it wrote last shows in the world before a watch brings it back
(`Reader.status`), so latches and transition times never go back and forth.

Rules: seed 004, "Status", "Conditions"; spec/inferencecache.md section 8.
"""

from typing import Final

import msgspec

from crds import cachebackend, core, schema
from crds.cachebackend import CACHE_BACKENDS, CacheBackend
from handlers import conditions, goduration, moments, tokens
from handlers.cachebackend import advisory, engines, modes, narrate, providers, readiness, rolling, workload
from handlers.conditions import Shown
from handlers.outcome import NOTHING, Intent, Key, Object, Outcome, Status, Told
from handlers.world.reader import Reader
from handlers.world.state import Known

SECOND: Final = 1_000_000_000
#: Fields that only count; a write of nothing else may wait.
COUNTS: Final = ("matchedEnginePods", "indexParticipation")


def desired(world: Reader, key: Key) -> Outcome:
    known = world.get(*key)
    if known is None or known.value is None or known.value.metadata.deletion_timestamp:
        return NOTHING
    backend = _identified(known)
    live = workload.look(world, key)
    mode = modes.mode_of(backend.spec)
    made = workload.wanted(world, backend, live) if mode == "Managed" else workload.shed(backend, live)
    status, told, again = _status(world, key, backend, mode, live)
    rolled = rolling.roll(world, backend, status) if mode == "Managed" else rolling.NONE
    status = {**status, **rolled.status}
    again_ns = min((at for at in (again, rolled.again_ns) if at), default=0)
    before = world.status(key, msgspec.to_builtins(backend.status))
    written: list[Intent] = []
    if _normal(status) != _normal(before):
        written.append(Status(key=key, uid=known.uid, status=status, lazy=_only_counts(before, status)))
    return Outcome(intents=(*made, *rolled.intents, *written, *told), again_ns=again_ns)


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


# The status -----------------------------------------------------------------------------------------------------------


def _status(
    world: Reader, key: Key, backend: CacheBackend, mode: modes.Mode, live: workload.Live
) -> tuple[Object, list[Intent], int]:
    """The whole status, Events of what changed in it, and when it changes by itself (ns, 0 = never)."""
    before = world.status(key, msgspec.to_builtins(backend.status))
    prior = before.get("conditions", [])
    pods = engines.pods_of(world, key.namespace)
    matched, index = engines.matched(world, backend, pods), engines.participation(world, backend, pods)
    if index is None and before.get("indexParticipation"):
        index = {"prefixCount": 0}  # a view of now: what a drained engine held is no longer known
    now = world.now_ns // SECOND
    assessed = readiness.assess(_observed(backend, mode, live, before, index, now))
    advised = _advice(backend, mode, pods, index)
    if (kernels := advised.get("EngineKernelsHealthy")) is not None and advisory.gates(backend, pods):
        assessed = readiness.downgraded(assessed, "EngineKernelDegraded", kernels.message)
    shown = {kind: Shown(str(one.status), one.reason, one.message) for kind, one in assessed.conditions.items()}
    shown |= advised
    storage = backend.spec.remote_storage
    endpoint = ""
    if mode == "External" and storage is not None:
        endpoint = storage.endpoint.strip()
    elif mode == "Managed" and workload.owned(live.service, backend):
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
    status = tokens.settled({name: value for name, value in status.items() if value not in (None, "", [])})
    lines = narrate.changes(before, status, assessed)
    again = 0 if assessed.again is None else assessed.again * SECOND
    since = world.status_position(key)
    return status, [_told(key, backend, line, f"{line.reason}:{since}") for line in lines], again


def _text(moment: int | None) -> str | None:
    return None if moment is None else moments.text(moment)


def _observed(
    backend: CacheBackend, mode: modes.Mode, live: workload.Live, before: Object, index: Object | None, now: int
) -> readiness.Observed:
    spec = backend.spec
    timeout = goduration.nanoseconds((spec.observation.first_event_timeout if spec.observation else None) or "5m")
    storage, mine = spec.remote_storage, workload.owned(live.deployment, backend)
    return readiness.Observed(
        mode=mode,
        now=now,
        timeout=(timeout or 0) // SECOND or readiness.DEFAULT_TIMEOUT,
        annotations=backend.metadata.annotations,
        rollout=_rollout(live.deployment, spec) if mine and mode == "Managed" else None,
        foreign=_foreign(live, backend) if mode == "Managed" else "",
        provider=storage.provider if storage else "",
        endpoint=storage.endpoint if storage else "",
        had_server=bool(before.get("endpoint") or before.get("observedServerInstance")),
        prior_reason=conditions.reason_of(before.get("conditions", []), "Ready"),
        first_available=moments.seconds(before.get("firstAvailableAt")),
        first_event=moments.seconds(before.get("firstKVEventObservedAt")),
        last_event=moments.seconds((index or {}).get("lastEventAt")),
    )


def _foreign(live: workload.Live, backend: CacheBackend) -> str:
    """The kind of which somebody else has an object of the name; without its own a tier cannot be reached."""
    for kind, known in (("Deployment", live.deployment), ("Service", live.service)):
        if known is not None and not workload.owned(known, backend):
            return kind
    return ""


def _rollout(known: Known | None, spec: cachebackend.CacheBackendSpec) -> readiness.Rollout | None:
    """An autoscaler's choice is what the Deployment says; otherwise the CacheBackend's own is waited for."""
    if known is None or known.value is None:
        return None
    deployment: core.Deployment = known.value
    chosen = deployment.spec.replicas if providers.scaled(spec) else providers.replicas(spec)
    return readiness.Rollout(
        desired=1 if chosen is None else chosen,
        updated=deployment.status.updated_replicas,
        available=deployment.status.available_replicas,
        generation=deployment.metadata.generation,
        observed_generation=deployment.status.observed_generation,
    )


def _advice(backend: CacheBackend, mode: modes.Mode, pods: list[core.Pod], index: Object | None) -> dict[str, Shown]:
    """What is advised beside the three states."""
    found: dict[str, Shown | None] = {}
    if mode in ("Managed", "HostOnly"):
        found["EngineKernelsHealthy"] = advisory.kernels(backend, pods)
        found["EngineCompatibility"] = advisory.compatibility(backend, pods)
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
