"""Objects of the world and differences between two of its moments, as tools print them."""

import textwrap
from typing import Any

import msgspec

from eventstore import envelope
from handlers.outcome import Key
from handlers.world import difference
from handlers.world.reader import Reader
from handlers.world.state import Known, World
from warmlog import output, rewound


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One object at a position. `status` is what it shows: our own last write where that is newer."""

    key: str
    exists: bool
    known: bool = True  # False: nothing of its kind was listed yet, absence means nothing
    seen: int = 0  # sequence of the event that told it
    uid: str = ""
    value: Any = None
    problem: str = ""
    status: Any = None
    written: Any = None  # our last write to it
    told: dict[str, int] = {}  # names of Kubernetes Events that were told of it, with the sequence of each


class Differs(msgspec.Struct, frozen=True, omit_defaults=True):
    older: str
    newer: str
    changes: list[difference.Change]
    incomplete: str = ""


def incomplete(back: rewound.Rewound) -> str:
    return "" if back.whole else f"what happened before sequence {back.since} is not kept and not in this world"


def shown(world: World, key: Key) -> Shown:
    known, written = world.find(key), world.applied.get(key)
    plain = None if known is None or known.value is None else msgspec.to_builtins(known.value)
    return Shown(
        key=str(key),
        exists=known is not None,
        known=known is not None or key.kind in world.listed,
        seen=0 if known is None else known.sequence,
        uid="" if known is None else known.uid,
        value=plain,
        problem="" if known is None else known.problem,
        status=None if (seen := _observed(known, plain)) is None else Reader(world).status(key, seen),
        written=None if written is None else msgspec.to_builtins(written),
        told=dict(sorted(world.told.get(str(key), {}).items())),
    )


def _observed(known: Known | None, plain: Any) -> dict[str, Any] | None:
    if known is not None and known.rest is not None:
        return known.rest.status
    return None if plain is None else dict(plain.get("status", {}))


def place(world: World) -> str:
    return f"{world.incarnation}:{world.sequence} of {envelope.rfc3339(world.now_ns)}"


def lines_of_object(one: Shown, note: str) -> list[str]:
    if not one.exists:
        absent = "does not exist" if one.known else "is not known: nothing of its kind was listed yet"
        return [f"  {one.key} {absent}", *_noted(note)]
    lines = [f"  {one.key} uid {one.uid}, as event #{one.seen} told it"]
    if one.problem:
        lines.append(f"  it does not decode: {one.problem}")
    for name, part in (("object", one.value), ("status shown", one.status), ("last write of ours", one.written)):
        if part:
            lines += [f"  {name}:", textwrap.indent(output.yaml_of(part), "    ")]
    lines += [f"  told the Event {name} (#{sequence})" for name, sequence in one.told.items()]
    return lines + _noted(note)


def lines_of_difference(seen: Differs) -> list[str]:
    lines = [f"from {seen.older}", f"to   {seen.newer}"]
    for one in seen.changes:
        at = f" (#{one.sequence})" if one.sequence else ""
        lines.append(f"  {one.what} {one.name} {one.how}{at}".replace("  leader  ", "  leader "))
        lines += [f"    {path}: {_brief(old)} -> {_brief(new)}" for path, (old, new) in one.fields.items()]
    if not seen.changes:
        lines.append("  nothing differs")
    return lines + _noted(seen.incomplete)


def _brief(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}..."


def _noted(note: str) -> list[str]:
    return [f"  note: {note}"] if note else []
