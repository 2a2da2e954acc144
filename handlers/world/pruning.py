"""What the world forgets, so that it stays as large as the cluster and not as its past.

Every rule is part of the fold and looks at nothing but the world: two folds of one log forget the same at the same
event, and a keyframe holds no more than a fold from the beginning would.

    objects       when they are gone
    our writes    with their object; a write that was recorded after its object went is not kept at all; of a creation
                  that no list showed, at the next list
    Events told   with the reconciled object; the newest 256 of one object
    replicas      when they are gone, or were not heard of for 7 days
    skipped       the newest 1,000 (state.KEPT_SKIPPED)

Rules: design.md section 2 ("Fold is total"), section 5.
"""

from typing import Final

from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.state import World

TOLD: Final = 256
SILENT_NS: Final = 7 * 24 * 3600 * 1_000_000_000


def is_late(world: World, key: Key, verb: str) -> bool:
    """A write to an object that is gone already. What we create is written before it is seen, so it is never late."""
    return verb in ("status", "patch", "delete") and world.find(key) is None


def forget_write(world: World, key: Key, uid: str) -> None:
    """Of the object of this uid; a namesake's that came after it stays."""
    applied = world.applied.get(key)
    if applied is not None and applied.uid == uid:
        del world.applied[key]


def remember_told(world: World, reconciled: str, event: str, sequence: int) -> None:
    parts = reconciled.split("/", 2)
    if len(parts) == 3 and parts[0] in kinds.KINDS and world.find(Key(*parts)) is None:  # what is no object stays
        return
    told = world.told.setdefault(reconciled, {})
    told[event] = sequence
    if len(told) > TOLD:
        # Names are of transitions, which count up: the oldest is never asked for again.
        del told[min(told, key=lambda name: (told[name], name))]


def unseen_writes(world: World, kind: str) -> None:
    """A complete list was told: what it does not show does not exist, and what we wrote to it is no baseline."""
    for key in [key for key in world.applied if key.kind == kind and world.find(key) is None]:
        del world.applied[key]


def silent_replicas(world: World) -> None:
    limit = world.now_ns - SILENT_NS
    for name in [name for name, one in world.replicas.items() if one.time_ns < limit]:
        del world.replicas[name]
