"""Replay equivalence: every decision and every write of a log, decided again at its position.

One pass over the log: where a decision or a write stood on the world, the world is that of its position, and nothing
else is asked. What differs comes back as lines; nothing is asserted here.

Rules: design.md section 7 (tests/replay).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from eventstore import events, store
from handlers import canonical, reconcile
from handlers.admission import again
from handlers.effects import carry
from handlers.outcome import Intent, Key, Object, Told
from handlers.system import System
from handlers.world.fold import fold
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World
from warmlog import systems, whypod

#: The system's rule after a failure is no decision over a world.
RULES = ("failed-open", "failed-closed")
Check = Callable[[World, store.Stored, events.AdmissionDecided], Iterable[str]]


class Difference(NamedTuple):
    """`what` is decision, or the verb of a write."""

    what: str
    line: str


class Result(NamedTuple):
    decisions: int
    effects: int
    statuses: int
    rules: int
    differences: list[Difference]
    world: World


def _position(text: str) -> int:
    return int(text.rpartition(":")[2])


def judge(log: list[store.Stored], *, incarnation: str, more: Check | None = None) -> Result:
    """`more` may look at each decision as well, over the world at its position."""
    wanted: dict[int, list[events.Decoded]] = defaultdict(list)
    settings: dict[str, dict[str, str]] = {}
    counts = {"decisions": 0, "effects": 0, "statuses": 0, "rules": 0}
    for stored in log:
        decoded = events.decode(stored)
        match decoded.data if isinstance(decoded, events.Decoded) else None:
            case events.AdmissionDecided() as decided if decided.check in RULES:
                counts["rules"] += 1
            case events.AdmissionDecided() | events.EffectApplied() as data:
                assert isinstance(decoded, events.Decoded)
                wanted[_position(data.position)].append(decoded)
            case events.SettingsSeen(role="webhook", settings=told):
                settings[canonical.digest(told)] = told
    world, differences = World(), list[Difference]()
    by_name = {one.name: one for one in systems.systems()}

    def look() -> None:
        for event in wanted.pop(world.sequence, []):
            if isinstance(event.data, events.AdmissionDecided):
                counts["decisions"] += 1
                differences.extend(Difference("decision", one) for one in _decision(event, event.data, world, settings))
                if more is not None:
                    differences.extend(Difference("decision", one) for one in more(world, event.stored, event.data))
            elif isinstance(event.data, events.EffectApplied):
                counts["effects"] += 1
                counts["statuses"] += event.data.verb == "status"
                differences.extend(
                    Difference(event.data.verb, one) for one in _effect(event, event.data, world, by_name)
                )

    look()
    for stored in log:
        fold(world, stored, incarnation=incarnation)
        look()
    for one in (one for many in wanted.values() for one in many):
        differences.append(Difference("position", f"#{one.stored.sequence} stands on one that is not in the log"))
    return Result(**counts, differences=differences, world=world)


def _decision(
    event: events.Decoded, decided: events.AdmissionDecided, world: World, settings: Mapping[str, dict[str, str]]
) -> list[str]:
    where = f"#{event.stored.sequence} {decided.webhook} {decided.name or decided.generate_name}"
    told = settings.get(decided.settings)
    admitter = None if told is None else whypod.admitter_of(decided.webhook, told)
    if admitter is None:
        return [f"{where}: who decided is not known"]
    reading = again.reader(decided, world)
    try:
        question = again.question(decided)
        if not admitter.concerned(question, reading):
            return [f"{where}: nothing of ours is concerned"]
        found = admitter.decide(question, reading)
    except Unlisted as unlisted:
        return [f"{where}: {unlisted}"]
    lines = [f"{where}: {name} differs" for name in again.differences(decided, found)]
    if reading.reads != decided.reads:
        lines.append(f"{where}: reads differ: {decided.reads} was recorded, {reading.reads} now")
    return lines


def _effect(
    event: events.Decoded, effect: events.EffectApplied, world: World, by_name: Mapping[str, System]
) -> list[str]:
    where = f"#{event.stored.sequence} {effect.verb} of {effect.kind}/{effect.namespace}/{effect.name}"
    kind, namespace, name = effect.key.split("/", 2)
    try:
        system, key = by_name[effect.handler], Key(kind, namespace, name)
        intents = reconcile.wanted(system, Reader(world), key).intents
    except Unlisted as unlisted:
        return [f"{where}: {unlisted}"]
    bodies = [body for intent in intents for verb, target, body in [_described(intent)] if (verb, target) == (
        effect.verb, Key(effect.kind, effect.namespace, effect.name))]  # fmt: skip
    if not bodies:
        return [f"{where}: nothing of the kind is wanted at {effect.position}"]
    if effect.verb == "event":
        return []  # its name is that of the transition; its body has the leader's clock in it
    if effect.verb == "status" and canonical.encode(bodies[0]) != canonical.encode(effect.body):
        return [
            f"{where}: {canonical.encode(effect.body).decode()} was written, "
            f"{canonical.encode(bodies[0]).decode()} is wanted"
        ]
    return [] if canonical.digest(bodies[0]) == effect.desired else [f"{where}: another body is wanted"]


def _described(intent: Intent) -> tuple[str, Key, Object]:
    if isinstance(intent, Told):
        key, body = carry.event_of(intent, now_ns=0)
        return "event", key, body
    target, verb, body = carry.described(intent)
    return verb, target, body
