"""What a Deployment's status tells of its ReplicaSets, and whether it gets on. Pure.

Rules: upstream's pkg/controller/deployment/progress.go and sync.go; `kubectl rollout status` reads the result.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from devkube.kinds import Object
from devkube.simulation.client import stamp, unix
from devkube.simulation.owning import amount
from devkube.simulation.podstatus import condition

Json = dict[str, Any]


def bounds(spec: Mapping[str, Any]) -> tuple[int, int]:
    """How many Pods more than wanted there may be in a rolling update, and how many fewer available."""
    rolling, replicas = spec["strategy"].get("rollingUpdate") or {}, spec["replicas"]
    if spec["strategy"]["type"] != "RollingUpdate":
        return 0, 0
    surge = amount(rolling.get("maxSurge"), replicas, up=True)
    unavailable = min(amount(rolling.get("maxUnavailable"), replicas, up=False), replicas)
    return surge, unavailable if surge or unavailable else 1


def status_of(
    found: Object, new: Object | None, sets: Sequence[Object], now: float, *, made: bool
) -> tuple[Json, float | None, bool]:
    """The status, in how many seconds its deadline is to be looked at, and whether all is as wanted."""
    spec, old = found["spec"], found.get("status") or {}
    total, ready, available = (_sum(sets, key) for key in ("replicas", "readyReplicas", "availableReplicas"))
    updated = _sum([new] if new else [], "replicas")
    wanted: int = spec["replicas"]
    counts = {
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(one["spec"].get("replicas", 1) for one in sets) - available),
        "collisionCount": old.get("collisionCount") or 0,
    }
    status: Json = {key: value for key, value in counts.items() if value}
    status["observedGeneration"] = found["metadata"]["generation"]
    complete = updated == wanted == total == available
    gained = (
        updated > old.get("updatedReplicas", 0)
        or total - updated < old.get("replicas", 0) - old.get("updatedReplicas", 0)
        or ready > old.get("readyReplicas", 0)
        or available > old.get("availableReplicas", 0)
    )
    enough = available >= wanted - bounds(spec)[1]
    words = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    if not enough:
        words = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    progress, again = _progress(found, new, now, made=made, complete=complete, gained=gained)
    told = [_condition(found, "Available", words, now)]
    progress, again = _progress(found, new, now, made=made, complete=complete, gained=gained)
    if progress:
        told.append(progress)
    if new is not None and (failure := condition(new, "ReplicaFailure")):
        told.append(
            _condition(found, "ReplicaFailure", (failure["status"], failure["reason"], failure["message"]), now)
        )
    status["conditions"] = told
    return status, again, complete


def _progress(
    found: Object, new: Object | None, now: float, *, made: bool, complete: bool, gained: bool
) -> tuple[Json, float | None]:
    old, deadline = condition(found, "Progressing"), found["spec"].get("progressDeadlineSeconds", 600)
    if found["spec"].get("paused"):
        return _condition(found, "Progressing", ("Unknown", "DeploymentPaused", "Deployment is paused"), now), None
    if new is None:
        return old, None
    name = new["metadata"]["name"]
    if complete:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return _condition(found, "Progressing", ("True", "NewReplicaSetAvailable", text), now), None
    if made:
        words = ("True", "NewReplicaSetReason", f'Created new replica set "{name}"')
        return _condition(found, "Progressing", words, now, moved=True), deadline
    if gained or not old or old.get("reason") == "DeploymentPaused":
        words = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        return _condition(found, "Progressing", words, now, moved=True), deadline
    if old.get("reason") in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return old, None  # once it was complete, a Pod that is lost starts no deadline
    left = unix(old["lastUpdateTime"]) + deadline - now
    if left > 0:
        return old, left
    words = ("False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    return _condition(found, "Progressing", words, now), None


def _condition(found: Object, kind: str, words: tuple[str, str, str], now: float, *, moved: bool = False) -> Json:
    """`moved`: it is news even if the words are the same."""
    old = condition(found, kind)
    status, reason, message = words
    if old and (old["status"], old.get("reason"), old.get("message")) == words and not moved:
        return old
    since = old["lastTransitionTime"] if old and old["status"] == status else stamp(now)
    told = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**told, "lastUpdateTime": stamp(now), "lastTransitionTime": since}


def _sum(sets: Sequence[Object], key: str) -> int:
    return sum(int((one.get("status") or {}).get(key) or 0) for one in sets)
