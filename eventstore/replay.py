"""The past: folding the log up to a position or a time, and finding the moment that pairs the two logs.

`replay` gives the world as it was: the same fold over the same events in the same order. A time means the stream's
clock: everything stored at or before it. A time is answered by the first event that lies after it, so a stream whose
server set its clock back is read up to there and no further.

What cannot be answered is a `ReplayError` with one line: a position that is not there yet, or one that retention has
dropped already, in which case the earliest one is named.

A replay starts at the first event that is kept and says which it was, or behind a world that is known already (`after`;
keyframes bring such worlds).

Rules: design.md sections 1 and 2 ("Keyframes and retention", `moment`).
"""

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from eventstore import envelope, events, store, subjects

W = TypeVar("W")
Until = int | datetime  # a sequence, or a time with its zone


class ReplayError(Exception):
    """The past that was asked for is not in the log; the message says what is."""


class Replayed(NamedTuple):
    """How far a replay came. When `first` is not 1, what happened before it is in the world only if it was begun so."""

    first: int  # sequence of the first event that was folded
    last: int
    time_ns: int  # of the last one


class Paired(NamedTuple):
    """A moment: a position of the control log and the position of WARMLOG_KV that belongs to it."""

    control: store.Position
    time_ns: int
    kv: store.Position


async def replay(
    log: store.EventStore, fold: Callable[[W, store.Stored], W], world: W, *, until: Until, after: int = 0
) -> tuple[W, Replayed]:
    """Fold everything past `after`, which is what `world` holds already, up to and including `until`. Nothing to fold
    is an error only from the beginning. Raises ReplayError, and what EventStore.read raises."""
    extent = await log.extent()
    sequence = _reachable(extent, until)
    limit = None if isinstance(until, int) else nanoseconds(until)
    first, last, time_ns = 0, after, 0
    if sequence <= after:
        return world, Replayed(first, last, time_ns)
    async with contextlib.aclosing(log.read(after=after)) as chunks:
        async for chunk in chunks:
            for one in chunk:
                if one.sequence > sequence or (limit is not None and one.time_ns > limit):
                    break
                world = fold(world, one)
                first, last, time_ns = first or one.sequence, one.sequence, one.time_ns
            else:
                continue
            if not first and not after:
                raise ReplayError(f"{_shown(until)} lies before the first event that is kept: {_place(one)}")
            break
    return world, Replayed(first, last, time_ns)


def _reachable(extent: store.Extent, until: Until) -> int:
    """The last sequence to fold at most, or why it cannot be reached."""
    if extent.last < extent.first:
        raise ReplayError("the log holds no events")
    if not isinstance(until, int):
        return extent.last
    if until > extent.last:
        raise ReplayError(f"position {until} lies in the future: the log ends at {extent.last}")
    if until < extent.first:
        raise ReplayError(f"position {until} is not kept: the earliest is {extent.first}")
    return until


async def moment(log: store.EventStore, at: Until) -> Paired:
    """The newest `moment` event at or before a position or a time. Raises ReplayError when there is none."""
    if isinstance(at, int):
        found = await log.last_before(subjects.MOMENT, sequence=at)
    else:
        found = await log.last_before(subjects.MOMENT, time_ns=nanoseconds(at))
    if found is None:
        raise ReplayError(f"no moment was recorded at or before {_shown(at)}: {await _earliest(log)}")
    decoded = events.decode(found)
    if not isinstance(decoded, events.Decoded) or not isinstance(decoded.data, events.Moment):
        why = decoded.reason if isinstance(decoded, events.Undecodable) else f"it is a {type(decoded.data).__name__}"
        raise ReplayError(f"the moment at {found.sequence} cannot be read: {why}")
    extent = await log.extent()
    return Paired(
        control=store.Position(extent.incarnation, found.sequence),
        time_ns=found.time_ns,
        kv=store.Position(decoded.data.kv_incarnation, decoded.data.kv_sequence),
    )


async def _earliest(log: store.EventStore) -> str:
    async with contextlib.aclosing(log.read(subject=subjects.MOMENT)) as chunks:
        async for chunk in chunks:
            if chunk:
                return f"the earliest is {_place(chunk[0])}"
    return "there is none yet, a running server records one every 10 s"


def nanoseconds(moment: datetime) -> int:
    """Nanoseconds since the epoch, exactly. Raises ReplayError for a time without a zone."""
    if moment.tzinfo is None:
        raise ReplayError(f"{moment.isoformat()} has no time zone: add Z or an offset")
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000_000 + moment.microsecond * 1_000


def _shown(until: Until) -> str:
    return f"position {until}" if isinstance(until, int) else until.isoformat()


def _place(one: store.Stored) -> str:
    return f"{envelope.rfc3339(one.time_ns)} (sequence {one.sequence})"
