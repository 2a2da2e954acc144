"""Keyframes in WARMLOG_SNAP: a world in pieces, and a head that says it is whole.

Pieces lie under `wlsnap.chunk.<sequence>`, heads under `wlsnap.head`. A head is appended after every piece of it was
read back and gave the digest, so what has a head is verified. A head also holds the hash of the event at its position:
a keyframe belongs to a log when that event is the same there. So a log that was restored keeps the keyframes of the
past that it still has, whatever its incarnation is called now.

Not here: what the text of a piece means (handlers.world.keyframe).

Rules: design.md section 2, "Keyframes and retention".
"""

import contextlib
import hashlib
from collections.abc import AsyncGenerator

import msgspec

from eventstore import envelope, events, facts, store, subjects

HEAD: str = "io.warmlog.keyframe.taken.v1"
CHUNK: str = "io.warmlog.keyframe.chunk.v1"


class Head(events.Event, frozen=True, kw_only=True):
    """A whole keyframe. `digest` is over the text of all pieces, `event` over the body of the event at `sequence`;
    `form` names the shape of the rows, digests of two forms say nothing of each other."""

    sequence: int
    time_ns: int  # newest stream time folded
    incarnation: str
    fold: int
    form: str = ""
    digest: str
    event: str
    pieces: int
    bytes: int
    first: int  # sequence in WARMLOG_SNAP of its first piece


class Piece(events.Event, frozen=True, kw_only=True):
    sequence: int
    fold: int
    digest: str  # of the whole keyframe
    number: int  # from 0
    text: str


async def put_piece(snaps: store.EventStore, piece: Piece, *, time_ns: int, actor: str) -> int:
    """Its sequence in WARMLOG_SNAP. The same piece again is stored once."""
    id = f"keyframe.chunk:{piece.sequence}:{piece.fold}:{piece.digest[-16:]}:{piece.number}"
    subject = subjects.snap_subject(piece.sequence)
    return (await snaps.append(_event(CHUNK, piece, id=id, subject=subject, time_ns=time_ns, actor=actor))).sequence


async def put_head(snaps: store.EventStore, head: Head, *, time_ns: int, actor: str) -> None:
    """Raises IdentityAlarm when there is another keyframe of this position: two folds disagree."""
    id = f"keyframe.taken:{head.event[-16:]}:{head.sequence}:{head.fold}:{head.form}"
    event = _event(HEAD, head, id=id, subject=subjects.SNAP_HEAD, time_ns=time_ns, actor=actor)
    await snaps.append(event)


def _event(name: str, data: events.Event, *, id: str, subject: str, time_ns: int, actor: str) -> envelope.Envelope:
    return envelope.Envelope(
        id=id,
        source="warmlog/controller",
        type=name,
        time=envelope.rfc3339(time_ns),
        subject=subject,
        actor=actor,
        data=msgspec.Raw(facts.encode(data)),
    )


def head_of(stored: store.Stored) -> Head | None:
    """None for what is no head of ours."""
    try:
        found = msgspec.json.decode(stored.body, type=envelope.Envelope)
        return msgspec.json.decode(found.data, type=Head) if found.type == HEAD else None
    except msgspec.MsgspecError:
        return None


async def heads(snaps: store.EventStore) -> list[Head]:
    """Every whole keyframe that is kept, oldest position first."""
    extent = await snaps.extent()
    found = []
    async for batch in snaps.read(subject=subjects.SNAP_HEAD):
        found += [head for one in batch if (head := head_of(one)) is not None and head.first >= extent.first]
    return sorted(found, key=lambda head: head.sequence)


async def pieces(snaps: store.EventStore, head: Head) -> AsyncGenerator[str, None]:
    """The text, piece by piece, in order. Ends early when pieces are missing: the digest says so."""
    number = 0
    reading = snaps.read(after=head.first - 1, subject=subjects.snap_subject(head.sequence))
    async with contextlib.aclosing(reading) as batches:
        async for batch in batches:
            for stored in batch:
                piece = _piece(stored)
                if piece is not None and piece.digest == head.digest and piece.number == number:
                    yield piece.text
                    number += 1
                    if number == head.pieces:
                        return


def _piece(stored: store.Stored) -> Piece | None:
    try:
        found = msgspec.json.decode(stored.body, type=envelope.Envelope)
        return msgspec.json.decode(found.data, type=Piece) if found.type == CHUNK else None
    except msgspec.MsgspecError:
        return None


async def belongs(log: store.EventStore, head: Head) -> bool:
    """Whether this log is the one that the keyframe was taken of, up to its position."""
    stored = await log.get(head.sequence)
    return stored is not None and event_digest(stored.body) == head.event


def event_digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
