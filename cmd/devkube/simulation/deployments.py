"""Deployments and ReplicaSets: one ReplicaSet per Pod template, scaled so that an update rolls over.

Rules: upstream's pkg/controller/deployment (rolling.go). Recreate is an update that needs no Pod to be available.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from devkube.kinds import Object
from devkube.simulation import workloads
from devkube.simulation.client import Client, conditions
from devkube.values import clone

_HASH: Final = "pod-template-hash"


async def deployment(client: Client, found: Object) -> None:
    if found["spec"].get("paused"):
        return
    sets = await workloads.owned(client, found, "ReplicaSet")
    hashed = workloads.fingerprint(found["spec"]["template"])
    new = next((one for one in sets if one["metadata"]["labels"][_HASH] == hashed), None)
    old = [one for one in sets if one is not new]
    new = new or await _make(client, found, hashed)
    await _roll(client, found, new, old)
    await _tell(client, found, new, old)


async def _make(client: Client, found: Object, hashed: str) -> Object:
    template, selector = clone(found["spec"]["template"]), clone(found["spec"]["selector"])
    template.setdefault("metadata", {}).setdefault("labels", {})[_HASH] = hashed
    selector.setdefault("matchLabels", {})[_HASH] = hashed
    meta = {
        "name": f"{found['metadata']['name']}-{hashed}",
        "namespace": found["metadata"]["namespace"],
        "labels": template["metadata"]["labels"],
        "ownerReferences": [workloads.reference(found)],
    }
    spec = {"replicas": 0, "selector": selector, "template": template}
    return await client.create("ReplicaSet", {"metadata": meta, "spec": spec})


async def _roll(client: Client, found: Object, new: Object, old: Sequence[Object]) -> None:
    wanted, ours, others = found["spec"]["replicas"], _replicas(new), sum(map(_replicas, old))
    surge, unavailable = _bounds(found["spec"])
    await _scale(client, found, new, min(wanted, max(ours, wanted + surge - others)))
    # Only as many old ones go as are not needed: those that are not available first.
    spare = others + _told(new, "readyReplicas") - (wanted - unavailable)
    ready = {one["metadata"]["name"]: min(_replicas(one), _told(one, "readyReplicas")) for one in old}
    sick = {name: _replicas(one) - ready[name] for one in old for name in [one["metadata"]["name"]]}
    going = Counter([*Counter(sick).elements(), *Counter(ready).elements()][: max(0, spare)])
    for one in old:
        await _scale(client, found, one, _replicas(one) - going[one["metadata"]["name"]])


async def _scale(client: Client, found: Object, one: Object, replicas: int) -> None:
    before, name = _replicas(one), one["metadata"]["name"]
    if before != replicas:
        await client.patch(one, {"spec": {"replicas": replicas}})
        await client.tell(found, "ScalingReplicaSet", f"Scaled replica set {name} from {before} to {replicas}")


async def _tell(client: Client, found: Object, new: Object, old: Sequence[Object]) -> None:
    """What `kubectl rollout status` reads. What was just scaled is heard of again, and told then."""
    wanted, updated = found["spec"]["replicas"], _told(new, "replicas")
    total, ready = (sum(_told(one, key) for one in (new, *old)) for key in ("replicas", "readyReplicas"))
    enough, done = ready >= wanted - _bounds(found["spec"])[1], updated == wanted == total == ready
    available = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    progress = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
    told = (
        {"type": "Available", "status": str(enough), "reason": available},
        {"type": "Progressing", "status": "True", "reason": progress},
    )
    status = {
        "observedGeneration": found["metadata"]["generation"],
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(total, wanted) - ready,
        "conditions": conditions(found, client.clock.timestamp(), *told),
    }
    await client.status(found, {key: value for key, value in status.items() if value})


async def replica_set(client: Client, found: Object) -> None:
    """As many Pods of the template as are wanted."""
    pods, wanted = list(filter(workloads.active, await workloads.owned(client, found))), _replicas(found)
    try:
        for _ in range(wanted - len(pods)):
            await workloads.make(client, found, workloads.pod_of(found))
        for pod in sorted(pods, key=_expendable)[: max(0, len(pods) - wanted)]:
            await workloads.drop(client, found, pod)
    finally:
        pods = list(filter(workloads.active, await workloads.owned(client, found)))
        ready = sum(map(workloads.ready, pods))
        status = {"observedGeneration": found["metadata"]["generation"], "readyReplicas": ready}
        await client.status(found, {**status, "replicas": len(pods), "availableReplicas": ready})


def _bounds(spec: Mapping[str, Any]) -> tuple[int, int]:
    """How many Pods more than wanted there may be in a rolling update, and how many fewer available."""
    rolling, replicas = spec["strategy"].get("rollingUpdate") or {}, spec["replicas"]
    if spec["strategy"]["type"] != "RollingUpdate":
        return 0, replicas
    surge = math.ceil(_amount(rolling.get("maxSurge"), replicas))
    unavailable = min(math.floor(_amount(rolling.get("maxUnavailable"), replicas)), replicas)
    return surge, unavailable if surge or unavailable else 1


def _amount(value: int | str | None, whole: int) -> float:
    """A number, or a percentage of `whole`."""
    text = str(value or 0)
    return whole * int(text[:-1]) / 100 if text.endswith("%") else int(text)


def _expendable(pod: Object) -> tuple[bool, bool, str]:
    """The order in which Pods go when there are too many: not placed, then not ready first."""
    return bool(pod["spec"].get("nodeName")), workloads.ready(pod), pod["metadata"]["name"]


def _replicas(one: Object) -> int:
    return int(one["spec"].get("replicas", 1))


def _told(one: Object, key: str) -> int:
    return int((one.get("status") or {}).get(key) or 0)
