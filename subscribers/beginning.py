"""A world to begin from: that of the nearest keyframe that belongs to this log, read in slices of one piece.

A damaged keyframe is passed over for the one before it; where there is no stream of keyframes there is none.

Rules: design.md section 2, "Keyframes and retention".
"""

import asyncio
import contextlib

import structlog

from eventstore import keyframes, store
from handlers.world import keyframe
from handlers.world.state import World

log = structlog.get_logger()


async def load(snaps: store.EventStore, head: keyframes.Head, *, incarnation: str) -> World | None:
    """The world of a keyframe, or None when it is damaged: pieces are missing, or say something else."""
    return await _read(keyframe.Loader(), snaps, head, incarnation)


async def check(snaps: store.EventStore, head: keyframes.Head) -> bool:
    """Whether a keyframe can be begun from; its world is not made whole for that."""
    return await _read(keyframe.Checker(), snaps, head, head.incarnation) is not None


async def _read(
    loader: keyframe.Loader, snaps: store.EventStore, head: keyframes.Head, incarnation: str
) -> World | None:
    try:
        async with contextlib.aclosing(keyframes.pieces(snaps, head)) as pieces:
            async for text in pieces:
                loader.take(text)
                await asyncio.sleep(0)
        world, digest = loader.done(incarnation=incarnation)
    except keyframe.KeyframeError as error:
        log.warning("keyframe-damaged", position=head.sequence, reason=str(error))
        return None
    if digest != head.digest:
        log.warning("keyframe-damaged", position=head.sequence, reason="its digest is another one")
        return None
    return world


async def nearest(
    control: store.EventStore, snaps: store.EventStore, *, sequence: int | None = None, time_ns: int | None = None
) -> World | None:
    """The world of the newest keyframe at or before a position or a time (neither: of all). One of an older fold is
    taken only where the log's beginning is gone: then it is the best that there is."""
    extent = await control.extent()
    last = extent.last if sequence is None else min(sequence, extent.last)
    found = [head for head in await _heads(snaps) if head.sequence <= last]
    found = [head for head in found if time_ns is None or head.time_ns <= time_ns]
    ours = [head for head in found if head.fold == keyframe.FOLD]
    older = [head for head in found if head.fold < keyframe.FOLD] if extent.first > 1 else []
    for head in (*reversed(ours), *reversed(older)):
        if await keyframes.belongs(control, head):
            world = await load(snaps, head, incarnation=extent.incarnation)
            if world is not None:
                return world
    return None


async def earliest(control: store.EventStore, snaps: store.EventStore) -> keyframes.Head | None:
    """The oldest keyframe that a replay can begin from."""
    for head in await _heads(snaps):
        if head.fold <= keyframe.FOLD and await keyframes.belongs(control, head):
            return head
    return None


async def _heads(snaps: store.EventStore) -> list[keyframes.Head]:
    """Whole keyframes, oldest first. None where there is no such stream."""
    try:
        return await keyframes.heads(snaps)
    except store.Misconfigured:
        return []
