"""The world of a moment, for tools: from the nearest keyframe before it, and the events since.

A moment before everything that is kept whole is refused with the earliest one that is. A log whose beginning is gone
and that has no keyframe is folded from where it begins, and the answer says so.

Rules: design.md section 2, "Keyframes and retention".
"""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import NamedTuple

from eventstore import envelope, replay, store, streams
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from handlers.world import keyframe
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers import beginning
from warmlog import when


class Logs(NamedTuple):
    control: store.EventStore
    snaps: store.EventStore


class Rewound(NamedTuple):
    """`since` is the first event that was folded from the log; what came before it was in a keyframe, or is not known:
    then `whole` is False."""

    world: World
    since: int
    whole: bool


@contextlib.asynccontextmanager
async def logs(connection: connect.Connection) -> AsyncIterator[Logs]:
    control = jetstream.JetStreamStore(connection)
    snaps = jetstream.JetStreamStore(connection, name=streams.SNAPSHOTS)
    try:
        yield Logs(control, snaps)
    finally:
        await control.close()
        await snaps.close()


def until_of(at: when.When) -> replay.Until:
    """As eventstore.replay spells it."""
    if isinstance(at, when.Sequence):
        return at.number
    whole, rest = divmod(at.ns, 1_000_000_000)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest // 1_000)


async def same_incarnation(log: store.EventStore, at: when.When | None) -> None:
    """A position of another incarnation names a past that this log does not have. Raises ReplayError."""
    if isinstance(at, when.Sequence) and at.incarnation:
        now = (await log.extent()).incarnation
        if at.incarnation != now:
            raise replay.ReplayError(f"position {at.incarnation}:{at.number} is of another incarnation, this is {now}")


async def world_at(found: Logs, at: when.When | None) -> Rewound:
    """Folded up to `at` (None: the end). Raises ReplayError."""
    await same_incarnation(found.control, at)
    extent = await found.control.extent()
    if isinstance(at, when.Sequence) and at.number == 0:
        return Rewound(World(incarnation=extent.incarnation), 1, True)  # what a webhook knows before it has read
    until: replay.Until = extent.last if at is None else until_of(at)
    sequence = until if isinstance(until, int) else None
    time_ns = None if isinstance(until, int) else replay.nanoseconds(until)
    begun = await beginning.nearest(found.control, found.snaps, sequence=sequence, time_ns=time_ns)
    if begun is None and extent.first > 1:
        await _refuse(found, at)
    world = begun if begun is not None else World()
    since = world.sequence + 1 if begun is not None else extent.first
    await forward(found, world, until)
    return Rewound(world, since, begun is not None or extent.first == 1)


async def forward(found: Logs, world: World, until: replay.Until) -> World:
    """The same world, folded on up to a later moment."""
    incarnation = (await found.control.extent()).incarnation

    def step(world: World, one: store.Stored) -> World:
        fold(world, one, incarnation=incarnation)
        return world

    return (await replay.replay(found.control, step, world, until=until, after=world.sequence))[0]


def copied(world: World) -> World:
    """As it is now, whatever is folded on."""
    return keyframe.freeze(world)


async def _refuse(found: Logs, at: when.When | None) -> None:
    head = await beginning.earliest(found.control, found.snaps)
    if head is not None and at is not None:
        raise replay.ReplayError(
            f"the world of that moment is not kept: the earliest is that of {envelope.rfc3339(head.time_ns)} "
            f"(sequence {head.sequence})"
        )
