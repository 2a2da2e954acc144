"""An object of ours that cannot be used: its author is told where they look, and nothing else is done for it.

It was stored before a rule existed, or a field is of another type than today's schema says. Its status gets a condition
that says which field, an Event tells it once for each of its generations, and both come for every system that writes a
status: what systems decide is not asked. What else the status shows stays as it was last right, and so does what was
made for it; once it is put right, its system sees it again.

Rules: design.md section 2 ("Fold is total": an object that does not decode exists all the same).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from crds import schema
from handlers import conditions
from handlers.conditions import Shown
from handlers.outcome import NOTHING, Intent, Key, Object, Outcome, Status, Told
from handlers.world.reader import Reader
from handlers.world.state import Known

REASON: Final = "Invalid"
SECOND: Final = 1_000_000_000


class Written(NamedTuple):
    """A kind whose status a system writes. `conditions` are False while an object of it cannot be used; `judge` says in
    one line which rule a stored one breaks, "" for none."""

    api_version: str
    object_kind: str
    conditions: tuple[str, ...]
    judge: Callable[[Any], str] = lambda value: ""


def statuses(system: object) -> Mapping[str, Written]:
    """Of a system that writes any."""
    found: Mapping[str, Written] = getattr(system, "statuses", {})
    return found


def outcome(world: Reader, key: Key, known: Known, written: Written, problem: str) -> Outcome:
    """Of an object that is not handed to its system."""
    observed, _, deleting = _seen(known)
    if deleting:
        return NOTHING
    before = world.status(key, observed)
    status, told = _said(world, key, known, written, problem, base=before)
    writes: tuple[Intent, ...] = () if status == before else (Status(key=key, uid=known.uid, status=status),)
    return Outcome(intents=(told, *writes))


def completed(world: Reader, key: Key, known: Known, written: Written, found: Outcome) -> Outcome:
    """What a system made of an object; where that shows none of its conditions, and a rule is broken, it is told."""
    observed, _, deleting = _seen(known)
    before = world.status(key, observed)
    base = next((one.status for one in found.intents if isinstance(one, Status) and one.key == key), before)
    shown = {one.get("type") for one in base.get("conditions") or ()}
    if deleting or found.waits or shown & set(written.conditions) or not (problem := broken(known.value, written)):
        return found
    status, told = _said(world, key, known, written, problem, base={**base, "conditions": _kept(before, base)})
    others = [one for one in found.intents if not isinstance(one, Status) or one.key != key]
    writes = [] if status == before else [Status(key=key, uid=known.uid, status=status)]
    return msgspec.structs.replace(found, intents=(*others, told, *writes))


def _kept(before: Object, base: Object) -> list[Object]:
    """The base's conditions, and ours from before: their times of transition."""
    mine = [one for one in before.get("conditions") or () if one.get("reason") == REASON]
    return [*(base.get("conditions") or ()), *mine]


def _said(
    world: Reader, key: Key, known: Known, written: Written, problem: str, *, base: Object
) -> tuple[Object, Told]:
    """The status, and the Event. Conditions of the base that are not ours stay."""
    _, generation, _ = _seen(known)
    kept = "the last good version stays in force" if known.value is not None and known.rest is not None else ""
    message = f"{problem}; correct it with kubectl edit; until then {kept or 'nothing follows from this object'}"
    prior: list[Object] = base.get("conditions") or []
    wanted = {kind: Shown("False", REASON, message) for kind in written.conditions}
    made = conditions.merged(prior, wanted, now=world.now_ns // SECOND, generation=generation)
    made += [one for one in prior if one.get("type") not in wanted]
    told = Told(
        about=key,
        uid=known.uid,
        api_version=written.api_version,
        object_kind=written.object_kind,
        type="Warning",
        reason=REASON,
        message=message,
        transition=f"{generation}:{problem}",
    )
    shown = sorted(made, key=lambda one: str(one.get("type")))
    return {**base, "observedGeneration": generation, "conditions": shown}, told


def broken(value: Any, written: Written) -> str:
    """Which rule a stored object breaks, of its schema or of its kind: field and what it must be; "" for none."""
    spec = _set(schema.without_nulls(msgspec.to_builtins(value.spec)))
    for one in schema.violations(spec, type(value.spec), "spec"):
        return f"{one.field}: {one.detail}"
    return written.judge(value)


def _set(part: Any) -> Any:
    """What is empty was not set: Structs do not tell the two apart."""
    if isinstance(part, dict):
        return {key: _set(one) for key, one in part.items() if one != ""}
    return [_set(one) for one in part] if isinstance(part, list) else part


def _seen(known: Known) -> tuple[Object, int, bool]:
    """Status as it was observed, generation, whether it is being deleted."""
    if known.rest is not None:
        return known.rest.status, known.rest.generation, known.rest.deleting
    metadata = known.value.metadata
    shown: Object = msgspec.to_builtins(known.value.status)
    return shown, metadata.generation, bool(metadata.deletion_timestamp)
