"""Is a backend up, and does anything flow through it: Ready, Degraded and Progressing, and the two latches behind them.

First the base: what the workload, the endpoint or the mere existence say. Then the gate: a backend that is up is Ready
only when a KV event was ever seen of its engines; after `firstEventTimeout` without one it is Degraded, and stays so
until an event comes. The start of the wait is latched, so a flap of the workload does not restart it; a change from a
backend with a server to one without does.

All times are seconds of the stream's clock; None is never.

Rules: seed 004, "KV-event readiness gate", "Conditions"; spec/inferencecache.md section 8.
"""

from typing import Final, NamedTuple

import msgspec

from handlers.cachebackend import endpoint, modes, names

DEFAULT_TIMEOUT: Final = 300
STATES: Final = ("Ready", "Degraded", "Progressing")


class Rollout(NamedTuple):
    """What the managed Deployment shows; `desired` is what its controller was told."""

    desired: int
    updated: int
    available: int
    generation: int
    observed_generation: int


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    mode: modes.Mode
    now: int
    timeout: int = DEFAULT_TIMEOUT
    annotations: dict[str, str] = {}
    rollout: Rollout | None = None  # None: there is no Deployment of ours
    foreign: str = ""  # Deployment or Service, where somebody else's has the name
    provider: str = ""
    endpoint: str = ""  # External: what the spec says
    had_server: bool = False  # its status still shows an endpoint or a server instance
    prior_reason: str = ""  # of Ready
    first_available: int | None = None
    first_event: int | None = None
    last_event: int | None = None


class State(NamedTuple):
    status: bool
    reason: str
    message: str = ""


class Assessed(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions by type; a type that is absent is taken off. `again` is when the answer changes by itself."""

    conditions: dict[str, State]
    first_available: int | None
    first_event: int | None
    again: int | None = None


def assess(seen: Observed) -> Assessed:
    first_event = seen.first_event if seen.first_event is not None else seen.last_event
    if seen.mode in ("HiCache", "Unmanaged"):
        return Assessed(conditions={}, first_available=None, first_event=seen.first_event)
    if seen.mode == "External":  # the gate does not apply, so its latches rest
        kept = (seen.first_available, seen.first_event)
        return Assessed(conditions=_external(seen), first_available=kept[0], first_event=kept[1])
    base = (
        _workload(seen.rollout, foreign=seen.foreign) if seen.mode == "Managed" else State(True, f"{seen.mode}Active")
    )
    flipped = seen.mode in modes.SERVERLESS and seen.had_server
    first_available = None if flipped else seen.first_available
    if base.status and first_available is None:
        first_available = seen.now
    gated = base.status and seen.annotations.get(names.REQUIRE_KV_EVENTS) != "false"
    ready, again = _gate(seen, base, first_event, first_available, flipped=flipped) if gated else (base, None)
    return Assessed(
        conditions={"Ready": ready, "Degraded": _degraded(ready), "Progressing": _progressing(ready)},
        first_available=first_available,
        first_event=first_event,
        again=again,
    )


def _external(seen: Observed) -> dict[str, State]:
    text = seen.endpoint.strip()
    if not text:
        ready = State(False, "ExternalEndpointMissing", "spec.remoteStorage.endpoint is empty")
    else:
        try:
            endpoint.parse(seen.provider, text)
            ready = State(True, "ExternalEndpointAccepted", f"spec.remoteStorage.endpoint {text} is accepted as given")
        except endpoint.EndpointError as error:
            ready = State(False, "ExternalEndpointInvalid", f"spec.remoteStorage.endpoint {error}")
    return {"Ready": ready, "Progressing": State(False, ready.reason, ready.message)}


def downgraded(assessed: Assessed, reason: str, message: str) -> Assessed:
    """Ready taken away by what was found besides; whether the workload is degraded is not touched."""
    if "Ready" not in assessed.conditions:
        return assessed
    ready = State(False, reason, message)
    changed = {**assessed.conditions, "Ready": ready, "Progressing": _progressing(ready)}
    return msgspec.structs.replace(assessed, conditions=changed)


def _workload(rollout: Rollout | None, *, foreign: str) -> State:
    if foreign:
        return State(False, "RolloutInProgress", f"a {foreign} of this name belongs to somebody else; it is left alone")
    if rollout is None:
        return State(False, "RolloutInProgress", "the workload is not there yet")
    desired, updated, available, generation, observed = rollout
    if desired == 0:
        return State(False, "ScaledToZero", "spec.replicas is 0")
    caught_up = observed >= generation
    if caught_up and updated >= desired and available >= desired:
        return State(True, "BackendReady", f"{available} of {desired} replicas are available")
    if not caught_up or updated < desired:
        return State(False, "RolloutInProgress", f"{updated} of {desired} replicas are updated")
    return State(False, "ReplicasUnavailable", f"{available} of {desired} replicas are available")


def _gate(
    seen: Observed, base: State, first_event: int | None, first_available: int | None, *, flipped: bool
) -> tuple[State, int | None]:
    if first_event is not None:
        return State(True, "KVEventsObserved", "KV events of its engines were observed"), None
    start = seen.now if first_available is None else first_available
    timeout = seen.timeout if seen.timeout > 0 else DEFAULT_TIMEOUT
    silent = seen.prior_reason == "NoKVEventsObserved" and not flipped
    if silent or seen.now - start >= timeout:
        hint = "check that engine Pods are wired to it, and their --kv-events-config"
        return State(False, "NoKVEventsObserved", f"no KV event within {timeout} s of {base.reason}; {hint}"), None
    return State(False, "AwaitingFirstKVEvent", f"{base.reason}; waiting for the first KV event"), start + timeout


def _degraded(ready: State) -> State:
    if ready.reason in ("ReplicasUnavailable", "NoKVEventsObserved"):
        return State(True, ready.reason, ready.message)
    return State(False, "NotDegraded")


def _progressing(ready: State) -> State:
    if ready.status:
        return State(False, "Synced")
    if ready.reason in ("RolloutInProgress", "AwaitingFirstKVEvent"):
        return State(True, ready.reason, ready.message)
    return State(False, "Degraded" if ready.reason == "ReplicasUnavailable" else ready.reason, ready.message)
