"""Where a prompt that nobody holds should go, so that the next one like it finds it there.

    seed     of each key of the chain its length as 4 big-endian bytes, then its bytes; without a chain, the exact key
    replica  of the sorted replica names, number (first 8 bytes of SHA-256(seed), big-endian) mod their count

Pure and total. Not here: whether affinity applies (lookup.py). Rules: spec/inferencecache.md section 1.4 step 9; golden
vector: tokens 1..32 in blocks of 16, mod 4 = 1.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import sha256


def seed(chain: Iterable[bytes], exact: bytes) -> bytes:
    """Empty when the request has neither a chain nor an exact key."""
    return b"".join(len(key).to_bytes(4, "big") + key for key in chain) or exact


def seed_of(chain: Sequence[int]) -> bytes:
    """The seed of a chain of 8-byte keys, given as numbers: the same bytes, column by column."""
    column = array("Q", chain)
    if sys.byteorder == "little":
        column.byteswap()
    packed = column.tobytes()
    seeded = bytearray(b"\x00\x00\x00\x08" + bytes(8)) * len(chain)
    for at in range(8):
        seeded[4 + at :: 12] = packed[at::8]
    return bytes(seeded)


def pick(seeded: bytes, names: Iterable[str]) -> str | None:
    """One of the names, whatever their order; None of none."""
    ordered: Sequence[str] = sorted(names)
    if not ordered:
        return None
    return ordered[int.from_bytes(sha256(seeded).digest()[:8], "big") % len(ordered)]
