"""Keyframes taken, verified and compared. Beginning from one: beginning.

    at a mark     every controller freezes its world (handlers.world.marks says where) and computes its digest
    the leader    writes the pieces, reads them back, makes what the world holds of them and bytes of that again; only
                  when they are the same bytes the head is appended
    a standby     compares its own digest with the head's: a difference is an alarm, for two folds of one log disagree
    a new leader  writes what the old one did not come to: the newest mark, or where it is when it never saw that mark

Everything heavy is done in slices of one piece. What the log or the stream cannot do now is tried again.

Rules: design.md section 2, "Keyframes and retention"; section 5 ("slices").
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import structlog

from eventstore import keyframes, store, subjects
from handlers.world import keyframe
from handlers.world.state import World
from subscribers import beginning

log = structlog.get_logger()
T = TypeVar("T")

LOOK: Final = 5.0  # seconds between two looks at whether there is something to do
KEPT: Final = 8  # digests and heads that wait for each other


class Counts(NamedTuple):
    """For metrics."""

    written: int
    compared: int
    mismatches: int
    failures: int
    newest: int  # position of the newest keyframe seen, 0 = none


class _Mark(NamedTuple):
    world: World  # frozen
    event: str  # digest of the event at its position


class Keyframer:
    """`run` until cancelled; the follower calls `marked`."""

    def __init__(
        self,
        control: store.EventStore,
        snaps: store.EventStore,
        *,
        instance: str,
        leads: Callable[[], bool],
        world: Callable[[], World],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.control, self.snaps, self.instance = control, snaps, instance
        self.leads, self.world, self.clock = leads, world, clock
        self.written = self.compared = self.mismatches = self.failures = 0
        self._mark: _Mark | None = None
        self._digests: dict[int, tuple[str, str]] = {}  # sequence -> digest of its event, of the world
        self._heads: dict[int, keyframes.Head] = {}
        self._known = False  # all heads that are kept were read
        self._wake = asyncio.Event()

    def marked(self, world: World, stored: store.Stored) -> None:
        """The world has just come to a mark. Freezing it takes a moment, the rest is done by `run`."""
        self._mark = _Mark(keyframe.freeze(world), keyframes.event_digest(stored.body))
        self._wake.set()

    @property
    def counts(self) -> Counts:
        return Counts(self.written, self.compared, self.mismatches, self.failures, max(self._heads, default=0))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._work())

    # Comparing ----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                async for batch in self.snaps.read(subject=subjects.SNAP_HEAD, follow=True):
                    for one in batch:
                        if (head := keyframes.head_of(one)) is not None and head.fold == keyframe.FOLD:
                            _keep(self._heads, head.sequence, head)
                            self._compare(head.sequence)
                    if not batch:
                        self._known = True
                        self._wake.set()
            except store.StoreError as error:
                log.warning("keyframes-unreadable", reason=str(error))
                await asyncio.sleep(LOOK)

    def _compare(self, sequence: int) -> None:
        head, mine = self._heads.get(sequence), self._digests.get(sequence)
        if head is None or mine is None or mine[0] != head.event or head.form != keyframe.form():
            return
        self.compared += 1
        if mine[1] != head.digest:
            self.mismatches += 1
            log.error(
                "keyframe-mismatch", position=sequence, ours=mine[1], theirs=head.digest, remedy="report it: two folds "
                "of one log disagree; `warmlog replay --at` that position on both versions shows where",
            )  # fmt: skip

    # Taking -------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._look()
            except (store.StoreError, keyframe.KeyframeError) as error:
                self.failures += 1
                log.warning("keyframe-not-taken", reason=str(error))

    async def _look(self) -> None:
        mark = self._mark
        if mark is not None and mark.world.sequence not in self._digests:
            digest = await _digest(mark.world)
            _keep(self._digests, mark.world.sequence, (mark.event, digest))
            self._compare(mark.world.sequence)
        if mark is not None and mark.world.sequence in self._heads:
            self._mark = None  # it is written: the frozen world need not be kept
        if not self.leads() or not self._known:
            return
        wanted = self.world().marked
        if not wanted or max(self._heads, default=0) >= wanted:
            return
        if mark is None or mark.world.sequence < wanted:
            mark = await self._here()
        if mark is not None:
            await self._write(mark)

    async def _here(self) -> _Mark | None:
        """Where this world is now: it began after the newest mark."""
        frozen = keyframe.freeze(self.world())
        stored = await self.control.get(frozen.sequence)
        return None if stored is None else _Mark(frozen, keyframes.event_digest(stored.body))

    async def _write(self, mark: _Mark) -> None:
        pieces, digest = await _pieces(mark.world)
        sequence, now, actor = mark.world.sequence, self.clock(), f"controller/{self.instance}"
        first = 0
        for number, text in enumerate(pieces):
            piece = keyframes.Piece(sequence=sequence, fold=keyframe.FOLD, digest=digest, number=number, text=text)
            at = await keyframes.put_piece(self.snaps, piece, time_ns=now, actor=actor)
            first = min(first or at, at)
        head = keyframes.Head(
            sequence=sequence,
            time_ns=mark.world.now_ns,
            incarnation=mark.world.incarnation,
            fold=keyframe.FOLD,
            form=keyframe.form(),
            digest=digest,
            event=mark.event,
            pieces=len(pieces),
            bytes=sum(len(text.encode()) for text in pieces),
            first=first,
        )
        if not await beginning.check(self.snaps, head):
            raise keyframe.KeyframeError(f"what was written of position {sequence} does not give the same world again")
        if not self.leads():
            return
        try:
            await keyframes.put_head(self.snaps, head, time_ns=now, actor=actor)
        except store.IdentityAlarm:
            return  # another leader's; the two are compared when its head is read
        self.written += 1
        _keep(self._heads, sequence, head)
        log.info("keyframe-taken", position=sequence, pieces=head.pieces, bytes=head.bytes)


def _keep(mapping: dict[int, T], sequence: int, value: T) -> None:
    mapping[sequence] = value
    while len(mapping) > KEPT:
        del mapping[min(mapping)]


# In slices ------------------------------------------------------------------------------------------------------------


async def _pieces(world: World) -> tuple[list[str], str]:
    found, hashed = [], hashlib.sha256()
    for text in keyframe.cut(keyframe.rows(world)):
        hashed.update(text.encode())
        found.append(text)
        await asyncio.sleep(0)
    return found, keyframe.named(hashed)


async def _digest(world: World) -> str:
    hashed = hashlib.sha256()
    for text in keyframe.cut(keyframe.rows(world)):
        hashed.update(text.encode())
        await asyncio.sleep(0)
    return keyframe.named(hashed)
