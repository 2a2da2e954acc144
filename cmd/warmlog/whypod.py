"""Why a Pod was wired, or was not: the recorded decision, the candidates that it looked at, and the facts under it.

Which decision is the Pod's: tying.

Rules: design.md section 2 ("admission.decided", `explain` is the read-set, followed).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from crds import core
from crds.cachebackend import CACHE_BACKENDS, CacheBackend
from eventstore import envelope, events, replay, store, subjects
from handlers import canonical
from handlers.admission import again
from handlers.cachebackend import admit
from handlers.outcome import Key
from handlers.system import Admitter
from handlers.world.reader import Unlisted
from handlers.world.state import World
from warmlog import facts, rewound, systems, tying, when


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    chosen: bool
    why: str
    seen: facts.Fact | None = None


class WhyDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One webhook's answer. `alike` are other decisions that could as well be this Pod's: they say the same."""

    webhook: str
    decision: facts.Fact
    verdict: str
    check: str
    reason: str = ""
    warnings: list[str] = []
    patch: list[dict[str, Any]] = []
    decided_at: str = ""
    tied_by: list[str] = []
    alike: list[int] = []
    again: str = ""
    candidates: list[Candidate] = []
    reads: dict[str, facts.Fact | None] = {}


class WhyPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """`decisions` in the order in which the webhooks answered."""

    key: str
    position: str
    time: str
    exists: bool
    note: str = ""
    decisions: list[WhyDecision] = []


async def explain(logs: rewound.Logs, at: when.When | None, key: Key) -> WhyPod:
    back = await rewound.world_at(logs, at)
    world = back.world
    known = world.find(key)
    pod: core.Pod | None = known.value if known is not None else None
    first = await tying.first_seen(logs.control, key, known.uid) if known is not None else None
    found = await tying.decisions(logs.control, key, pod, world.sequence)
    chosen = [tying.choose(many, key, pod, first) for many in tying.by_webhook(found)]
    told = [await _decision(logs, *one) for one in sorted(filter(None, chosen), key=lambda one: one.sequence)]
    return WhyPod(
        key=str(key),
        position=f"{world.incarnation}:{world.sequence}",
        time=envelope.rfc3339(world.now_ns),
        exists=known is not None,
        note="" if told else _nothing(world, pod, found),
        decisions=told,
    )


async def _decision(logs: rewound.Logs, chosen: tying.Decided, tied: list[str], alike: list[int]) -> WhyDecision:
    data = chosen.data
    told, candidates = await _again(logs, chosen)
    return WhyDecision(
        webhook=data.webhook,
        decision=facts.fact(chosen.stored),
        verdict=data.verdict,
        check=data.check,
        reason=data.reason,
        warnings=data.warnings,
        patch=data.patch,
        decided_at=data.position,
        tied_by=tied,
        alike=alike,
        again=told,
        candidates=candidates,
        reads={name: await facts.fact_at(logs.control, sequence) for name, sequence in sorted(data.reads.items())},
    )


def _nothing(world: World, pod: core.Pod | None, found: list[tying.Decided]) -> str:
    if found:
        return f"{len(found)} decisions are told under its name, and none of them fits what the Pod shows"
    if pod is None:
        return "there is no such Pod, and no decision is told under its name"
    if not world.keys(CACHE_BACKENDS, pod.metadata.namespace):
        return "no decision is told: no CacheBackend in its namespace could concern it, such Pods are only counted"
    return "no decision is told: it was made before a webhook answered, or nothing of ours concerned it then"


# Deciding again -------------------------------------------------------------------------------------------------------


async def _again(logs: rewound.Logs, chosen: tying.Decided) -> tuple[str, list[Candidate]]:
    data = chosen.data
    incarnation, _, sequence = data.position.rpartition(":")
    try:
        back = await rewound.world_at(logs, when.Sequence(int(sequence), incarnation))
    except replay.ReplayError as error:
        return f"cannot be decided again: {error}", []
    candidates = await _candidates(logs.control, data, back.world) if data.webhook == admit.Pods.name else []
    settings = await settings_of(logs.control, data.settings)
    if settings is None:
        return "cannot be decided again: the webhook's settings are not in the log", candidates
    admitter = admitter_of(data.webhook, settings)
    if admitter is None:
        return f"cannot be decided again: {data.webhook} is no webhook of this program", candidates
    try:
        differs = again.differences(data, again.decide(admitter, data, back.world))
    except Unlisted as unlisted:
        return f"cannot be decided again: {unlisted}", candidates
    if differs:
        return f"otherwise in {', '.join(differs)}: logic {data.logic} decided, this program has another", candidates
    return "the same verdict, reason, warnings and patch", candidates


def admitter_of(webhook: str, settings: Mapping[str, str]) -> Admitter | None:
    """Who answers for a webhook that was started with these settings."""
    hooks = systems.hooks(*systems.options(settings))
    return next((one.admitter for one in hooks if one.admitter.name == webhook), None)


async def settings_of(control: store.EventStore, digest: str) -> dict[str, str] | None:
    """What the webhook was told when it decided: its settings are in the log."""
    async for batch in control.read(subject=subjects.settings_subject("webhook")):
        for stored in batch:
            decoded = events.decode(stored)
            data = decoded.data if isinstance(decoded, events.Decoded) else None
            if isinstance(data, events.SettingsSeen) and canonical.digest(data.settings) == digest:
                return data.settings
    return None


async def _candidates(control: store.EventStore, data: events.AdmissionDecided, world: World) -> list[Candidate]:
    reader = again.reader(data, world)
    try:
        seen = reader.select(CACHE_BACKENDS, data.namespace)
    except Unlisted:
        return []
    labels = (data.view.get("metadata") or {}).get("labels") or {}
    taken, found = "", []
    for key, known in seen:
        chosen, why = judged(known.value, known.problem, labels, taken)
        taken = key.name if chosen else taken
        if chosen and data.check != "injected":
            why = f"{why}; {data.check}: {data.reason or 'the Pod was not wired'}"
        found.append(Candidate(key.name, chosen, why, await facts.fact_at(control, known.sequence)))
    return found


def judged(backend: CacheBackend | None, problem: str, labels: dict[str, str], taken: str) -> tuple[bool, str]:
    """Whether a Pod with these labels is this backend's, and why."""
    if backend is None:
        return False, f"it does not decode: {problem}"
    wanted = backend.spec.labels
    if not wanted:
        return False, "its selector is empty: it claims no Pod"
    missing = [f"{name}={value}" for name, value in sorted(wanted.items()) if labels.get(name) != value]
    if missing:
        return False, f"the Pod lacks {', '.join(missing)}"
    if taken:
        return False, f"it matches too, but {taken} comes first by name"
    return True, "the first by name whose labels the Pod all has"
