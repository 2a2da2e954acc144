"""What differs between two worlds: objects and their fields, what we wrote, replicas, settings.

Positions, times and resource versions differ all the time and say nothing; they are left out. `sequence` names the
event that brought the newer state.

Rules: design.md section 4 (`replay --diff`).
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from handlers.outcome import Key
from handlers.world.state import World


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """`what` is object, write, replica, settings or leader; `fields` are `path: [older, newer]`, null = absent."""

    what: str
    name: str
    how: str  # appeared, gone, changed
    sequence: int = 0
    fields: dict[str, list[Any]] = {}


_SILENT: Final = frozenset(("sequence", "time_ns", "resource_version", "resourceVersion", "shape"))


def differences(older: World, newer: World, about: Key | None = None) -> list[Change]:
    """Ordered by what and name. `about` narrows to one object and what was written to it."""
    before, after = dict(_entries(older, about)), dict(_entries(newer, about))
    found = []
    for what, name in sorted(before.keys() | after.keys()):
        old, new = before.get((what, name)), after.get((what, name))
        fields = dict(_fields("", old, new))
        if not fields:
            continue
        how = "appeared" if old is None else "gone" if new is None else "changed"
        sequence = new.get("sequence", 0) if isinstance(new, dict) else 0
        found.append(Change(what, name, how, sequence, fields if how == "changed" else {}))
    return found


def _entries(world: World, about: Key | None) -> Iterator[tuple[tuple[str, str], Any]]:
    if about is not None:
        known, applied = world.find(about), world.applied.get(about)
        if known is not None:
            yield ("object", str(about)), msgspec.to_builtins(known)
        if applied is not None:
            yield ("write", str(about)), msgspec.to_builtins(applied)
        return
    for kind in world.objects:
        for key in world.keys(kind):
            yield ("object", str(key)), msgspec.to_builtins(world.find(key))
    for key, applied in world.applied.items():
        yield ("write", str(key)), msgspec.to_builtins(applied)
    for name, replica in world.replicas.items():
        yield ("replica", "/".join(name)), msgspec.to_builtins(replica)
    for role, settings in world.settings.items():
        yield ("settings", role), settings
    yield ("leader", ""), {"epoch": world.epoch, "leader": world.leader}


def _fields(path: str, old: Any, new: Any) -> Iterator[tuple[str, list[Any]]]:
    """Leaves that differ. Lists are compared by index."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if name not in _SILENT:
                yield from _fields(f"{path}.{name}" if path else name, old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list):
        for at in range(max(len(old), len(new))):
            pair = [one[at] if at < len(one) else None for one in (old, new)]
            yield from _fields(f"{path}[{at}]", *pair)
    elif old != new:
        yield path, [old, new]
