"""What an engine said, in one form for every engine and version: the values that decoding gives and the table takes.

Not here: wire forms (strict.py, lenient.py) and what the events mean (table.py). Nothing in this module fails.

Rules: KV-02 (every version maps to the same type), KV-04 (a hash is an opaque typed value), KV-14 (one bad event loses
no other); spec of the schemas in tests/unit/kvevents/data/kv-event-schemas.json.
"""

import enum
from collections.abc import Sequence
from typing import Literal

import msgspec

#: An engine's own name of a block: never converted, never compared across types. 5, b"\x05" and "5" are three blocks.
Hash = int | bytes | str

Form = Literal["array", "map", "mixed", "none"]


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Blocks were written. `hashes`, `tokens` and `extra` run along one chain below `parent`."""

    hashes: Sequence[Hash]
    parent: Hash | None
    tokens: bytes | None  # u32 little-endian; None or empty: the event says where, not what (KV-11)
    block_size: int  # tokens per block, 0 when the engine does not say
    lora_id: int | None = None
    lora_name: str | None = None
    medium: str | None = None
    extra: Sequence[bytes | None] | None = None  # canonical bytes per block of what else the engine hashed
    salt: str | bytes | None = None
    group: int = 0
    kind: str | None = None  # of the cache group: full_attention, sliding_window, mamba …
    window: int | None = None
    lookahead: bytes | None = None  # tokens beyond the last block that its hash depends on (IDX-11)
    locality: str | None = None  # LOCAL, REMOTE
    bigram: bool = False  # token_ids were EAGLE pairs; `tokens` holds the first of each (KV-17)


class Removed(msgspec.Struct, frozen=True, gc=False):
    hashes: Sequence[Hash]
    medium: str | None = None
    group: int = 0
    locality: str | None = None


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """Everything was dropped, or everything on one medium when it is named."""

    medium: str | None = None


Event = Stored | Removed | Cleared


class Loss(enum.IntEnum):
    """What a problem may have cost. Above STORE the replica must forget what it claims."""

    NOTHING = 0  # an event we know nothing of and need nothing of
    STORE = 1  # blocks that we shall not know of: a miss at worst
    REMOVAL = 2  # blocks may be gone that we still claim: a wrong answer unless forgotten


class Problem(msgspec.Struct, frozen=True):
    """One line for people, and what it may have cost."""

    loss: Loss
    kind: Literal["undecodable", "malformed", "unknown-tag", "rank"]
    reason: str


class Batch(msgspec.Struct, frozen=True):
    """One payload. `rank` is None when the engine left it out: then the port implies it (KV-03)."""

    ts: float  # seconds, the engine host's clock: informational only, never for order
    events: Sequence[Event]
    rank: int | None
    problems: Sequence[Problem] = ()
    form: Form = "none"

    @property
    def loss(self) -> Loss:
        """The worst of the problems."""
        return max((problem.loss for problem in self.problems), default=Loss.NOTHING)


def repeats(hashes: Sequence[Hash]) -> bool:
    """Whether one of them stands twice."""
    return len(hashes) > 1 and len(set(hashes)) != len(hashes)


def hash_bytes(block: Hash) -> bytes:
    """Raw hashes as they are, text as UTF-8, numbers as 8 big-endian bytes (negative ones in two's complement)."""
    if isinstance(block, bytes):
        return block
    if isinstance(block, str):
        return block.encode("utf-8", "surrogatepass")
    return (block & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "big")


def spell(block: Hash) -> str:
    """A hash for people and logs; the first letter keeps the types apart, as in i:0000000000000102."""
    return f"{type(block).__name__[0]}:{hash_bytes(block).hex()}"
