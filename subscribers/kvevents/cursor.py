"""Where a source stands in an engine's sequence of batches, and what the next number means. Pure.

A publisher counts batches from 0 in every life of its process, so numbers alone prove neither completeness nor that
it is still the same process. Three standings:

    new       no life is known: only batch 0, or a replay from 0, says what came before
    doubtful  a position is known (journal, or a connection that came back) but not whose: the replay socket is asked
              for that very batch, and the hashes of the two payloads are compared
    sure      same life, same connection: the next number is the next batch

`live` and `applied` are separate watermarks: replay runs ahead of the live frames that wait in the queue, and those
are recognised by number and hash and applied once. A live number that is not above the last live one is a new life.

Not here: when to ask (sequencer.py), what a batch contains. Nothing raises.
Rules: TR-03, TR-04, TR-05, TR-06; docs/design/0001-kv-wire.md.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from subscribers.kvevents import facts

Standing = Literal["new", "doubtful", "sure"]
NOTHING: Final = -1
_NONE: Mapping[int, int] = {}


class Cursor(msgspec.Struct, frozen=True):
    """Watermarks of one engine life."""

    standing: Standing = "new"
    applied: int = NOTHING
    digest: int = 0  # of the applied batch
    live: int = NOTHING
    replayed: Mapping[int, int] = _NONE  # number -> digest of replayed batches that live frames may repeat
    ended: str = ""  # why the life before this one is over; empty at first contact

    @property
    def position(self) -> facts.Position | None:
        """What a journal should keep, or None before the first batch."""
        return facts.Position(self.applied, self.digest) if self.applied >= 0 else None


class Apply(msgspec.Struct, frozen=True):
    """Hand the batch over, after `fact` when there is one."""

    fact: facts.Attached | facts.NewLife | facts.Gap | None = None


class Skip(msgspec.Struct, frozen=True):
    """Already applied."""


class Ask(msgspec.Struct, frozen=True):
    """Ask the replay socket from this number on, then decide again."""

    start: int


class Restart(msgspec.Struct, frozen=True):
    """Another life: `restarted` gives the cursor with which to decide again."""

    reason: str


class Confirm(msgspec.Struct, frozen=True):
    """The replay socket returned the very batch that was applied last: same life."""


class Hole(msgspec.Struct, frozen=True):
    """Replay skipped numbers in the middle (its socket overflowed): ask again from the first missing one."""


_APPLY = Apply()
_SKIP = Skip()
_CONFIRM = Confirm()
_HOLE = Hole()


def resumed(position: facts.Position | None) -> Cursor:
    """The cursor of a subscriber that starts with, or without, a journal."""
    if position is None:
        return Cursor()
    return Cursor(standing="doubtful", applied=position.seq, digest=position.digest)


def reconnected(cursor: Cursor) -> Cursor:
    """The connection came back: perhaps to another process."""
    if cursor.standing == "sure":
        return msgspec.structs.replace(cursor, standing="doubtful" if cursor.applied >= 0 else "new")
    return cursor


def restarted(reason: str) -> Cursor:
    return Cursor(ended=reason)


def question(cursor: Cursor) -> int | None:
    """What to ask the replay socket for right after connecting, or None when nothing is in doubt."""
    if cursor.standing == "new":
        return 0
    return cursor.applied if cursor.standing == "doubtful" else None


def decide(cursor: Cursor, seq: int, digest: int) -> Apply | Skip | Ask | Restart:
    """What a live batch means."""
    if cursor.standing == "new":
        return Apply(attachment(cursor, seq, complete=True)) if seq == 0 else Ask(0)
    if seq <= cursor.live:
        return Restart(f"the sequence went back from {cursor.live} to {seq}")
    if seq <= cursor.applied:
        if cursor.replayed.get(seq) == digest:
            return _SKIP
        return Restart(f"batch {seq} is not the one that was applied under this number")
    if cursor.standing == "doubtful":
        return Ask(cursor.applied)
    return _APPLY if seq == cursor.applied + 1 else Ask(cursor.applied + 1)


def decide_replayed(cursor: Cursor, seq: int, digest: int, *, first: bool) -> Apply | Skip | Restart | Confirm | Hole:
    """What a replayed batch means; `first` in the answer to its request."""
    if cursor.standing == "new":
        complete = seq == 0
        return Apply(attachment(cursor, seq, complete=complete, why="" if complete else f"replay begins at {seq}"))
    if cursor.standing == "doubtful":
        if seq < cursor.applied:
            return _SKIP
        if seq > cursor.applied:
            return Apply(
                facts.NewLife(seq, False, f"replay begins at {seq}: batch {cursor.applied} is not there to compare")
            )
        if digest == cursor.digest:
            return _CONFIRM
        return Restart(f"batch {seq} is not the one that was applied under this number")
    if seq <= cursor.applied:
        return _SKIP
    if seq == cursor.applied + 1:
        return _APPLY
    if not first:
        return _HOLE
    return Apply(facts.Gap(cursor.applied + 1, seq - 1, f"replay begins at {seq}: older batches are no longer held"))


def decide_unanswered(cursor: Cursor, seq: int, reason: str) -> Apply:
    """What a live batch means when replay could not close the hole before it (`reason` says why)."""
    if cursor.standing == "new":
        return Apply(attachment(cursor, seq, complete=False, why=f"first contact at batch {seq}; {reason}"))
    if cursor.standing == "doubtful":
        return Apply(facts.NewLife(seq, False, f"the engine cannot be proved to be the same; {reason}"))
    if seq == cursor.applied + 1:
        return _APPLY
    return Apply(facts.Gap(cursor.applied + 1, seq - 1, reason))


def decide_empty(cursor: Cursor) -> Restart | facts.Attached | facts.NewLife | None:
    """What it means that replay had nothing to return, with no live batch waiting."""
    if cursor.standing == "new":
        return attachment(cursor, 0, complete=True, why="the engine has published nothing yet")
    if cursor.standing == "doubtful":
        return Restart(f"the engine has published fewer than {cursor.applied + 1} batches")
    return None


def attachment(cursor: Cursor, seq: int, *, complete: bool, why: str = "") -> facts.Attached | facts.NewLife:
    """The fact that opens a life: first contact ever, or the life after one that ended."""
    if not cursor.ended:
        return facts.Attached(seq, complete, reason=why)
    return facts.NewLife(seq, complete, f"{cursor.ended}; {why}" if why else cursor.ended)


def applied(cursor: Cursor, seq: int, digest: int, *, live: bool) -> Cursor:
    """The cursor after a batch was handed over."""
    if not live:
        return Cursor("sure", seq, digest, cursor.live, cursor.replayed)
    return Cursor("sure", seq, digest, seq)


def skipped(cursor: Cursor, seq: int) -> Cursor:
    """The cursor after a live frame that repeats a replayed batch."""
    return msgspec.structs.replace(cursor, live=seq)


def confirmed(cursor: Cursor) -> Cursor:
    return msgspec.structs.replace(cursor, standing="sure")


def emptied() -> Cursor:
    """The cursor of a life that has published nothing yet."""
    return Cursor("sure")
