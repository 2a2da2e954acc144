"""Kubernetes Events of a CacheBackend: each tells one change, once.

Here: which changes are worth telling. Each is named by the position of the status that it changes (`Told.transition`),
so that a second leader, or a replay, names the same Event.

Rules: seed 004, Events; spec/inferencecache.md section 8, "Events on CacheBackend".
"""

from typing import Literal, NamedTuple

from handlers import conditions, moments
from handlers.cachebackend.readiness import Assessed
from handlers.outcome import Object


class Line(NamedTuple):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def of_readiness(prior_reason: str, first_event: int | None, now: Assessed) -> list[Line]:
    """`prior_reason` of Ready and the latch as they were before."""
    found: list[Line] = []
    ready = now.conditions.get("Ready")
    if ready is None:
        return found
    if first_event is None and now.first_event is not None:
        found.append(Line("Normal", "KVEventsObserved", "the first KV event of its engines was observed"))
    if ready.reason == prior_reason:
        return found
    if ready.reason == "ReplicasUnavailable" and prior_reason != "NoKVEventsObserved":  # Degraded was told then
        found.append(Line("Warning", "BackendDegraded", ready.message))
    if prior_reason == "ReplicasUnavailable" and ready.status:  # from silence, KVEventsObserved tells it
        found.append(Line("Normal", "BackendRecovered", ready.message))
    if ready.reason == "AwaitingFirstKVEvent":
        found.append(Line("Normal", "AwaitingFirstKVEvent", ready.message))
    if ready.reason == "NoKVEventsObserved":
        found.append(Line("Warning", "NoKVEventsObserved", ready.message))
    return found


def of_fail_open(before: bool | None, now: bool) -> list[Line]:
    """The echo in status; never written before counts as true."""
    was = before is not False
    if was and not now:
        return [Line("Warning", "FailClosedEnabled", "engines do not serve while the cache cannot be reached")]
    if not was and now:
        return [Line("Normal", "FailOpenRestored", "engines serve without the cache when it cannot be reached")]
    return []


def changes(before: Object, after: Object, assessed: Assessed) -> list[Line]:
    """Every Event of a change of status."""
    prior, now = before.get("conditions", []), after.get("conditions", [])
    first = moments.seconds(before.get("firstKVEventObservedAt"))
    told = of_readiness(conditions.reason_of(prior, "Ready"), first, assessed)
    told += of_fail_open(before.get("failOpen"), bool(after.get("failOpen")))
    message = str(after.get("engineSelectorMessage", ""))
    if message and (before.get("matchedEnginePods") != 0 or not before.get("engineSelectorMessage")):
        told.append(Line("Normal", "EngineSelectorUnmatched", message))
    crashed = next((one["message"] for one in now if one["type"] == "EngineCompatibility"), "")
    if crashed and not conditions.reason_of(prior, "EngineCompatibility"):
        told.append(Line("Warning", "InjectedEngineCrashLooping", crashed))
    return told
