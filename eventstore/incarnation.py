"""Which life of a stream a sequence number belongs to.

A stream that is deleted and made again counts from 1; one that was restored from a backup, or lost its unsynced end to
a power failure, hands out numbers a second time. The creation time shows the first, nothing shows the second. So an
incarnation is the creation time and a counter in the stream's metadata, which is raised by the first role that finds
the stream's end below a position it had seen. Positions of two incarnations are never compared.

    20261130T071727.123456789.0     made then, never found shorter than it was

Here: the name and the judgement, without input or output. Reading and raising: jetstream/stream.py, memory.

Rules: design.md section 2, "Positions"; JS-01 to JS-03.
"""

from collections.abc import Mapping
from typing import Final, Literal

from eventstore import store

#: In the stream's metadata; a decimal number, absent = 0.
COUNTER: Final = "warmlog-incarnation"

Judgement = Literal["holds", "regressed", "other"]


def name(created: str, metadata: Mapping[str, str]) -> str:
    """The incarnation of a stream made at `created` (RFC 3339 UTC, up to nanoseconds), e.g. from STREAM.INFO."""
    return f"{created.removesuffix('Z').replace('-', '').replace(':', '')}.{counter(metadata)}"


def counter(metadata: Mapping[str, str]) -> int:
    """How often the stream was found shorter. What is no number counts as 0: it was not written by us."""
    text = metadata.get(COUNTER, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def judge(known: store.Position, found: store.Extent, *, lost: bool = False) -> Judgement:
    """Whether a position that was acknowledged or folded still lies in the stream.

    "regressed": same incarnation, shorter: the counter has to be raised. "other": somebody raised it already, or it
    is another stream.
    """
    if known.incarnation != found.incarnation:
        return "other"
    return "regressed" if lost or found.last < known.sequence else "holds"
