"""How one event changes the world. Total: whatever lies in the log, the world goes on and says what it passed over.

Decode, compute, assign once: nothing is changed until everything that could fail has been computed.

Rules: design.md section 2 ("Fold is total", the table of types).
"""

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from eventstore import events, store, subjects
from handlers.outcome import Key
from handlers.world import kinds, marks, pruning
from handlers.world.state import Applied, Known, Listed, Replica, Skipped, Summary, World


def fold(world: World, stored: store.Stored, *, incarnation: str) -> events.Decoded | None:
    """Fold one event in place; the event, or None when it was passed over. Never raises for what it reads."""
    decoded = events.decode(stored)
    change: Callable[[], None] | None = None
    reason = ""
    if isinstance(decoded, events.Decoded):
        try:
            change = _change(world, decoded)
        except (subjects.SubjectError, ValueError, TypeError, LookupError) as error:
            reason = f"{decoded.envelope.type} cannot be folded: {error}"
    else:
        reason = decoded.reason
    if change is not None:
        change()
    else:
        kind = decoded.envelope.type if isinstance(decoded, events.Decoded) else decoded.type
        world.skipped.append(Skipped(stored.sequence, kind, reason))
    world.incarnation, world.sequence = incarnation, stored.sequence
    world.now_ns = max(world.now_ns, stored.time_ns)
    if marks.due(world):
        pruning.silent_replicas(world)
        marks.take(world)
    return decoded if isinstance(decoded, events.Decoded) and change is not None else None


def _change(world: World, event: events.Decoded) -> Callable[[], None]:
    """What the event does, as a function that cannot fail any more."""
    stored = event.stored
    match event.data:
        case events.ObjectSeen() as seen:
            return _seen(world, stored, seen)
        case events.ObjectGone() as gone:
            return _gone(world, stored, gone)
        case events.KindListed() as listed:
            return _listed(world, _tokens(stored.subject, 3)[2], Listed(stored.sequence, listed.shape, listed.count))
        case events.WatchContact():
            return lambda: setattr(world, "contact_ns", stored.time_ns)
        case events.LeaderElected() as elected:
            return _elected(world, elected)
        case events.SettingsSeen() as settings:
            return _set(world.settings, settings.role, dict(settings.settings))
        case events.ReplicaObserved() as observed:
            return _observed(world, stored, observed)
        case events.IndexSummarised() as summary:
            return _summarised(world, stored, summary)
        case events.EffectApplied() as effect:
            return _applied(world, stored, effect)
    return lambda: None  # decisions, failures, moments and timers move the clock and nothing else


def _set(mapping: dict[Any, Any], key: Any, value: Any) -> Callable[[], None]:
    return lambda: mapping.__setitem__(key, value)


def _drop(mapping: dict[Any, Any], key: Any) -> None:
    mapping.pop(key, None)


def _tokens(subject: str, count: int) -> list[str]:
    parts = subject.split(".")
    if len(parts) != count:
        raise ValueError(f"subject {subject!r} has {len(parts)} tokens, expected {count}")
    return [*parts[:2], *(subjects.unescape(part) for part in parts[2:])]


def _key(subject: str) -> Key:
    _, _, kind, namespace, name = _tokens(subject, 5)
    return Key(kind, namespace, name)


def _listed(world: World, kind: str, listed: Listed) -> Callable[[], None]:
    def change() -> None:
        world.listed[kind] = listed
        pruning.unseen_writes(world, kind)

    return change


def _seen(world: World, stored: store.Stored, seen: events.ObjectSeen) -> Callable[[], None]:
    key = _key(stored.subject)
    if key.kind not in kinds.KINDS:
        return lambda: None
    value, problem = kinds.decode(key.kind, seen.object)
    judge = kinds.KINDS[key.kind].judge
    if judge is not None and (value is None or (problem := judge(value))):
        last = world.find(key)
        value = last.value if last is not None else None
    rest = kinds.rest(seen.object)
    known = Known(
        seen.uid, seen.resource_version, seen.shape, stored.sequence, stored.time_ns, value, problem, rest
    )  # an object that does not decode exists all the same

    def change() -> None:
        space = world.objects.setdefault(key.kind, {}).setdefault(key.namespace, {})
        old = space.get(key.name)
        if old is not None and old.uid != known.uid:
            _forget(world, key, old.uid)
        elif old is not None and _went_back(old.resource_version, known.resource_version):
            world.applied.pop(key, None)  # the API was restored: our write is not in it any more
        space[key.name] = known

    return change


def _gone(world: World, stored: store.Stored, gone: events.ObjectGone) -> Callable[[], None]:
    key = _key(stored.subject)

    def change() -> None:
        known = world.find(key)
        if known is not None and known.uid == gone.uid:
            del world.objects[key.kind][key.namespace][key.name]
            if not world.objects[key.kind][key.namespace]:
                del world.objects[key.kind][key.namespace]
            _forget(world, key, gone.uid)

    return change


def _forget(world: World, key: Key, uid: str) -> None:
    """What was remembered of an object that is gone, or is another one now. The other one may be ours already."""
    pruning.forget_write(world, key, uid)
    world.told.pop(str(key), None)


def _went_back(before: str, after: str) -> bool:
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)


def _elected(world: World, elected: events.LeaderElected) -> Callable[[], None]:
    def change() -> None:
        if elected.epoch > world.epoch:
            world.epoch, world.leader = elected.epoch, elected.instance

    return change


def _observed(world: World, stored: store.Stored, observed: events.ReplicaObserved) -> Callable[[], None]:
    name = (observed.tenant, observed.replica)
    old = world.replicas.get(name)
    if observed.edge == "gone":
        return functools.partial(_drop, world.replicas, name)
    same = old is not None and old.uid == observed.uid
    first = old.first_event_ns if old is not None and same else 0
    new = Replica(
        tenant=observed.tenant,
        replica=observed.replica,
        model=observed.model,
        scheme=observed.scheme,
        uid=observed.uid,
        state=old.state if old is not None and observed.edge == "statistics" else observed.edge,
        sequence=stored.sequence,
        first_event_ns=first or (stored.time_ns if observed.edge == "first-event" else 0),
        last_event_ns=_last_event(old if same else None, stored.time_ns, observed),
        blocks=observed.blocks,
        hit_rate=old.hit_rate if old is not None and same else 0.0,
        statistics=observed.statistics or (old.statistics if old is not None and same else {}),
        time_ns=stored.time_ns,
    )
    return _set(world.replicas, name, new)


def _last_event(old: Replica | None, now: int, observed: events.ReplicaObserved) -> int:
    """Edges of silence and loss are no events of the engine."""
    heard = observed.edge == "first-event" or (old is not None and observed.blocks not in (0, old.blocks))
    return now if heard else (old.last_event_ns if old is not None else 0)


def _summarised(world: World, stored: store.Stored, summary: events.IndexSummarised) -> Callable[[], None]:
    found = {}
    for one in summary.replicas:
        old = world.replicas.get((one.tenant, one.replica))
        if old is not None:
            found[one.tenant, one.replica] = msgspec.structs.replace(
                old,
                model=one.model,
                state=one.state,
                blocks=one.blocks,
                hit_rate=one.hit_rate,
                sequence=stored.sequence,
                time_ns=stored.time_ns,
            )
    tenants = None if summary.tenants is None else Summary(stored.sequence, summary.tenants)

    def change() -> None:
        world.replicas.update(found)
        if tenants is not None:
            world.summaries[summary.shard] = tenants

    return change


def _applied(world: World, stored: store.Stored, effect: events.EffectApplied) -> Callable[[], None]:
    key = Key(effect.kind, effect.namespace, effect.name)
    if effect.verb == "event":
        return functools.partial(pruning.remember_told, world, effect.key, effect.name, stored.sequence)
    if pruning.is_late(world, key, effect.verb):
        return functools.partial(pruning.forget_write, world, key, effect.uid)
    status = effect.body.get("status", {}) if effect.verb == "status" else None
    old = world.applied.get(key)
    if status is None and old is not None and old.uid == effect.uid:
        status = old.status
    applied = Applied(
        sequence=stored.sequence,
        time_ns=stored.time_ns,
        verb=effect.verb,
        desired=effect.desired,
        resource_version=effect.resource_version,
        uid=effect.uid,
        generation=effect.generation,
        status=status,
    )
    return _set(world.applied, key, applied)
