"""Why an object of ours shows the status that it shows: each condition, and the event that brought it.

The log has every status that was written, with the position of the world that wanted it. A condition's cause is found
by going through the events again: after each one that concerns the object, what should be is computed, and the first
event after which the condition is as it is now brought it. The last write is decided again at its position; that the
bytes are the same says that nothing else went into it.

Rules: design.md section 2 (`explain` is the read-set, followed).
"""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from eventstore import envelope, events, replay, store, subjects
from handlers import canonical, reconcile
from handlers.outcome import Key, Object, Status
from handlers.system import System
from handlers.world.fold import fold
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import Known, World
from warmlog import facts, rewound, when


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    status: str
    reason: str
    message: str = ""
    since: str = ""
    cause: facts.Fact | None = None
    written: int = 0  # sequence of the write that showed it first


class WhyStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`reads` are the world's keys that the last write was computed from, each with the event that it stood on."""

    key: str
    position: str
    time: str
    exists: bool
    note: str = ""
    status: Any = None
    conditions: list[Condition] = []
    write: facts.Fact | None = None
    wanted_at: str = ""
    again: str = ""  # what deciding again at that position gave
    reads: dict[str, facts.Fact | None] = {}


class Write(NamedTuple):
    stored: store.Stored
    effect: events.EffectApplied

    @property
    def position(self) -> int:
        return int(self.effect.position.rpartition(":")[2] or 0)


async def explain(logs: rewound.Logs, at: when.When | None, key: Key, systems: Sequence[System]) -> WhyStatus:
    back = await rewound.world_at(logs, at)
    world = back.world
    base = WhyStatus(
        key=str(key),
        position=f"{world.incarnation}:{world.sequence}",
        time=envelope.rfc3339(world.now_ns),
        exists=world.find(key) is not None,
    )
    known = world.find(key)
    if known is None:
        told = (
            "it does not exist" if key.kind in world.listed else "nothing of its kind was listed yet: it is not known"
        )
        return msgspec.structs.replace(base, note=told)
    if known.value is None and known.rest is None:
        return msgspec.structs.replace(base, note=f"it does not decode, so nothing is decided of it: {known.problem}")
    system = next((one for one in systems if key in set(one.keys(world))), None)
    if system is None:
        told = f"no status of ours is written to it; `warmlog replay --about {key}` shows it"
        return msgspec.structs.replace(base, note=told)
    shown = Reader(world).status(key, _observed(known))
    writes = await _writes(logs.control, key, known.uid, world.sequence)
    if not writes:
        return msgspec.structs.replace(base, status=shown, note=_unwritten(world, key, system))
    causes = await _causes(logs, writes, shown, key, system)
    last = writes[-1]
    again, reads = await _again(logs, last, key, system)
    return msgspec.structs.replace(
        base,
        note="" if back.whole else f"what happened before sequence {back.since} is not kept",
        status=shown,
        conditions=causes,
        write=facts.fact(last.stored),
        wanted_at=last.effect.position,
        again=again,
        reads={name: await facts.fact_at(logs.control, sequence) for name, sequence in sorted(reads.items())},
    )


def _unwritten(world: World, key: Key, system: System) -> str:
    try:
        wanted = reconcile.wanted(system, Reader(world), key).intents
    except Unlisted as unlisted:
        return f"nothing was written yet: {unlisted}"
    waits = any(isinstance(intent, Status) for intent in wanted)
    return (
        "a status is wanted and was not written yet" if waits else "nothing of ours was written: it is as it should be"
    )


async def _writes(control: store.EventStore, key: Key, uid: str, until: int) -> list[Write]:
    found = []
    async for batch in control.read(subject=subjects.effect_subject(*key)):
        for stored in batch:
            decoded = events.decode(stored)
            effect = decoded.data if isinstance(decoded, events.Decoded) else None
            if not isinstance(effect, events.EffectApplied) or effect.verb != "status":
                continue
            if stored.sequence <= until and effect.uid in ("", uid):
                found.append(Write(stored, effect))
    return found


def _state(status: Object, kind: str) -> tuple[str, str] | None:
    """Status and reason of a condition."""
    for one in status.get("conditions") or ():
        if one.get("type") == kind:
            return str(one.get("status")), str(one.get("reason", ""))
    return None


def _first(writes: list[Write], kind: str, state: tuple[str, str] | None) -> int:
    """Index of the write from which on every one shows this state; len(writes) when the last does not."""
    at = len(writes)
    while at and _state(writes[at - 1].effect.body.get("status", {}), kind) == state:
        at -= 1
    return at


async def _causes(logs: rewound.Logs, writes: list[Write], shown: Object, key: Key, system: System) -> list[Condition]:
    firsts = {}
    for one in shown.get("conditions") or ():
        at = _first(writes, one["type"], _state(shown, one["type"]))
        if at < len(writes):
            firsts[one["type"]] = at
    begin = min((writes[at - 1].position if at else 0 for at in firsts.values()), default=0)
    brought = await _brought(
        logs, begin, writes[-1].position, key, system, {kind: _state(shown, kind) for kind in firsts}
    )
    return [
        Condition(
            type=one["type"],
            status=one.get("status", ""),
            reason=one.get("reason", ""),
            message=one.get("message", ""),
            since=one.get("lastTransitionTime", ""),
            cause=brought.get(one["type"]),
            written=writes[firsts[one["type"]]].stored.sequence if one["type"] in firsts else 0,
        )
        for one in shown.get("conditions") or ()
    ]


async def _brought(
    logs: rewound.Logs, begin: int, end: int, key: Key, system: System, states: dict[str, tuple[str, str] | None]
) -> dict[str, facts.Fact]:
    """Per condition the event after which it was, for the last time, no longer anything else."""
    control, world = logs.control, World()
    extent = await control.extent()
    if begin:
        with contextlib.suppress(replay.ReplayError):
            world = (await rewound.world_at(logs, when.Sequence(begin))).world
    held: dict[str, bool] = {}
    found: dict[str, facts.Fact] = {}
    async with contextlib.aclosing(control.read(after=world.sequence)) as batches:
        async for batch in batches:
            for stored in batch:
                if stored.sequence > end:
                    return found
                event = fold(world, stored, incarnation=extent.incarnation)
                if event is None or (key not in system.concerns(event, world) and event.stored.sequence != end):
                    continue
                status = _wanted(world, key, system)
                for kind, state in states.items():
                    holds = status is not None and _state(status, kind) == state
                    if holds and not held.get(kind):
                        found[kind] = facts.fact(stored)
                    held[kind] = holds
    return found


def _wanted(world: World, key: Key, system: System) -> Object | None:
    """The status that should be: the one that would be written, else the one that is shown."""
    try:
        outcome = reconcile.wanted(system, Reader(world), key)
    except Unlisted:
        return None
    for intent in outcome.intents:
        if isinstance(intent, Status) and intent.key == key:
            return intent.status
    known = world.find(key)
    return None if known is None else Reader(world).status(key, _observed(known))


def _observed(known: Known) -> Object:
    """The status as it was last seen, also of an object that does not decode."""
    if known.rest is not None:
        return known.rest.status
    shown: Object = msgspec.to_builtins(known.value).get("status", {}) if known.value is not None else {}
    return shown


async def _again(logs: rewound.Logs, last: Write, key: Key, system: System) -> tuple[str, dict[str, int]]:
    try:
        back = await rewound.world_at(logs, when.Sequence(last.position, last.effect.position.rpartition(":")[0]))
    except replay.ReplayError as error:
        return f"cannot be decided again: {error}", {}
    reader = Reader(back.world)
    try:
        outcome = reconcile.wanted(system, reader, key)
    except Unlisted as unlisted:
        return f"cannot be decided again: {unlisted}", reader.reads
    for intent in outcome.intents:
        if isinstance(intent, Status) and intent.key == key:
            same = canonical.encode({"status": intent.status}) == canonical.encode(last.effect.body)
            return (
                "the same bytes" if same else "another status: this program's logic is not the one that wrote it",
                reader.reads,
            )
    return "no write: this program's logic is not the one that wrote it", reader.reads
