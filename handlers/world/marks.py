"""Where keyframes are taken: every 50,000 events or 6 hours of the stream's clock, whichever comes first.

The rule is part of the fold, so every process that folds this log knows the same marks: the leader writes the world of
a mark, a standby compares its own with it. Quiet logs are marked too, `watch.contact` moves their clock.

Not here: the bytes (keyframe), writing and comparing them (subscribers.keyframing).

Rules: design.md section 2, "Keyframes and retention".
"""

from typing import Final

from handlers.world.state import World

EVENTS: Final = 50_000
SPAN_NS: Final = 6 * 3600 * 1_000_000_000


def due(world: World) -> bool:
    """Whether the event just folded is a mark."""
    if not world.marked_ns:
        world.marked_ns = world.now_ns
    return world.sequence - world.marked >= EVENTS or world.now_ns - world.marked_ns >= SPAN_NS


def take(world: World) -> None:
    world.marked, world.marked_ns = world.sequence, world.now_ns
