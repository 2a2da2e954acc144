"""What a source tells its consumer: batches in order, and everything that bears on whether they are all.

After `NewLife`, `Gap`, and an `Attached` that does not continue, the consumer's table is void: it starts empty. It is
`complete` when every batch since the engine's own empty start follows; otherwise the replica is partial. `Gone` ends
the session, and NewLife comes before the next batch. A connection that comes back to the same life changes nothing.

    first contact           Attached, then Batch …
    journal still valid     Attached(continued), then Batch …
    journal of another life NewLife, then Batch …
    numbers missing         Bridged when replay had them all, else Gap; batches follow in both cases
    engine restarted        Disconnected, (Gone after 2 s), Connected, NewLife, then Batch …
    connection interrupted  Disconnected, Connected, then Batch …

Rules: design.md section 3; docs/design/0001-kv-wire.md; TR-03 to TR-06.
"""

from typing import Final

import msgspec

UNKNOWN: Final = -1  # stands for the number of a batch that is not known yet


class Position(msgspec.Struct, frozen=True, gc=False):
    """The last batch that was applied: its sequence number and the XXH3-64 of its payload. A journal keeps it."""

    seq: int
    digest: int


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One payload, exactly once and in order. It may not decode: that is for the consumer to say (KV-13)."""

    seq: int
    payload: bytes
    digest: int  # with seq, the Position after this batch
    replayed: bool = False


class Attached(msgspec.Struct, frozen=True):
    """First contact, once per process at most. `seq` is the number of the batch that follows. `continued`: exactly
    after the journal's position, the table and its coverage stand as they were (`complete` says nothing then);
    otherwise the table starts empty, `complete` or not."""

    seq: int
    complete: bool
    continued: bool = False
    reason: str = ""


class NewLife(msgspec.Struct, frozen=True):
    """The engine is not the one that filled the table, or cannot be proved to be: forget the table. `seq` is the number
    of the batch that follows; UNKNOWN when none has arrived, and then another NewLife may follow with it."""

    seq: int
    complete: bool
    reason: str


class Gap(msgspec.Struct, frozen=True):
    """Batches `first` to `last` are lost for good; a removal may have been among them: forget the table."""

    first: int
    last: int
    reason: str


class Bridged(msgspec.Struct, frozen=True):
    """Replay supplied batches `first` to `last` without a hole; they were handed over before this."""

    first: int
    last: int


class Connected(msgspec.Struct, frozen=True):
    """The engine's socket answered."""

    endpoint: str


class Disconnected(msgspec.Struct, frozen=True):
    """The engine's socket closed. What it holds is not known to have changed."""

    endpoint: str


class Gone(msgspec.Struct, frozen=True):
    """The engine's socket is refused since `seconds` after a disconnect: its process ended and its cache with it."""

    endpoint: str
    seconds: float


class Silent(msgspec.Struct, frozen=True):
    """Nothing was ever received; `advice` is one line that says what to look at. Told once."""

    endpoint: str
    advice: str


Fact = Batch | Attached | NewLife | Gap | Bridged | Connected | Disconnected | Gone | Silent
