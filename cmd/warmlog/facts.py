"""Events of the control log as facts for people: which, when, about what, and what it said in one line."""

from typing import Any

import msgspec

from eventstore import envelope, events, store, subjects
from handlers import moments


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    sequence: int
    time: str
    type: str
    about: str
    said: str
    actor: str = ""


def fact(stored: store.Stored) -> Fact:
    at = envelope.rfc3339(stored.time_ns)
    decoded = events.decode(stored)
    if isinstance(decoded, events.Undecodable):
        return Fact(stored.sequence, at, decoded.type or "?", stored.subject, f"passed over: {decoded.reason}")
    kind = decoded.envelope.type.removeprefix(envelope.PREFIX).rpartition(".v")[0]
    actor = "" if decoded.envelope.actor is msgspec.UNSET else str(decoded.envelope.actor)
    return Fact(stored.sequence, at, kind, about(stored.subject), said(decoded.data, stored.subject), actor)


async def fact_at(control: store.EventStore, sequence: int) -> Fact | None:
    """The event of a sequence; None when it is 0 or no longer kept."""
    stored = await control.get(sequence) if sequence else None
    return None if stored is None else fact(stored)


def about(subject: str) -> str:
    """`wl.object.pods.team-a.p` as `pods/team-a/p`."""
    return "/".join(_plain(token) for token in subject.split(".")[2:]) or subject


def _plain(token: str) -> str:
    try:
        return subjects.unescape(token)
    except subjects.SubjectError:
        return token


def said(data: events.Event, subject: str = "") -> str:
    match data:
        case events.ObjectSeen():
            return (
                _object(data.object, runs=subject.startswith("wl.object.deployments%2E"))
                or f"as of resourceVersion {data.resource_version}"
            )
        case events.ObjectGone():
            return "is gone"
        case events.KindListed():
            return f"a complete list of {data.count}"
        case events.ReplicaObserved():
            why = f" ({data.reason})" if data.reason else ""
            return f"{data.edge}{why}, {data.blocks} blocks held, model {data.model}"
        case events.IndexSummarised():
            shown = ", ".join(f"{one.replica}: {one.state}, {one.blocks} blocks" for one in data.replicas[:4])
            return f"{shown}{' …' if len(data.replicas) > 4 else ''}"
        case events.TimerFired():
            return f"the deadline {moments.text(data.due_ns // 10**9)} has passed"
        case events.EffectApplied():
            return f"{data.verb} of {data.kind}/{data.namespace}/{data.name}, wanted at {data.position}"
        case events.EffectFailed():
            return f"{data.verb} refused: {data.code} {data.reason} {data.message}"
        case events.AdmissionDecided():
            return f"{data.verdict} by {data.check}" + (f": {data.reason}" if data.reason else "")
        case events.SettingsSeen():
            return f"version {data.version}, {len(data.settings)} settings of {data.instance}"
        case events.LeaderElected():
            return f"{data.instance} leads with epoch {data.epoch}"
    return ""


def _object(document: dict[str, Any], *, runs: bool) -> str:
    """What of an object a reader looks for first; `runs`: its replicas are Pods."""
    metadata, spec, status = (document.get(name) or {} for name in ("metadata", "spec", "status"))
    found = []
    if generation := metadata.get("generation"):
        found.append(f"generation {generation}")
    if phase := status.get("phase"):
        found.append(f"phase {phase}")
    for one in status.get("conditions") or ():
        if one.get("type") == "Ready":
            found.append(f"Ready {one.get('status')}")
    if runs and (replicas := spec.get("replicas")) is not None:
        found.append(f"{status.get('availableReplicas', 0)} of {replicas} replicas available")
    for name, value in (metadata.get("annotations") or {}).items():
        if name.endswith("/injected-by"):
            found.append(f"wired to {value}")
    if labels := metadata.get("labels"):
        found.append("labels " + ",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    return ", ".join(found)[:240]
