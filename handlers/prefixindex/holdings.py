"""One replica's blocks in one domain, under one bit of the domain's masks; and the columns that change them.

`apply` takes a group of states as it came over the wire, in loops that run in C: this is where ingest spends its time.
A message is checked as a whole first (`flaw`); after that nothing here fails.

A key named twice in one message is counted twice. That is malformed, leaves the masks right, and shows at the next
digest, which then disagrees.

Not here: which bits count, sweeping, walks (domain.py). Rules: design.md section 3 (states, not deltas); KV-20.
"""

import sys
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import ne, not_
from typing import TYPE_CHECKING, Final

from eventstore import kvwire
from handlers.prefixindex.keys import native

if TYPE_CHECKING:
    from handlers.prefixindex import domain, replicas

LARGEST: Final = 4 * kvwire.MAX_KEYS  # keys in one message: more would stall the loop
_MASKS: Final = 1 << 16  # interned masks of a domain
_REMEMBERED: Final = 1 << 12  # transitions of one bit
_SLACK: Final = 8192  # log entries a holding may waste before it is compacted
_TIERS: Final = bytes(range(8))
_ONE: Final = frozenset(bytes([tiers]) for tiers in _TIERS)
PLAIN: Final = (b"\x00", b"\x01")  # one block, gone or in T1
_NATIVE: Final = sys.byteorder == "little"


class Transitions(dict[int, int]):
    """Mask before -> mask after one bit was set (or cleared); filled when first asked, values interned."""

    __slots__ = ("bit", "masks", "setting")

    def __init__(self, bit: int, *, setting: bool, masks: dict[int, int]) -> None:
        super().__init__()
        self.bit = bit
        self.setting = setting
        self.masks = masks

    def __missing__(self, mask: int) -> int:
        # Masks that no block has any more would pile up. Nothing but speed depends on what is remembered.
        if len(self) >= _REMEMBERED:
            self.clear()
        if len(self.masks) >= _MASKS:
            self.masks.clear()
        after = mask | self.bit if self.setting else mask & ~self.bit
        self[mask] = after = self.masks.setdefault(after, after)
        return after


class Holding:
    """What one replica holds in one domain: a bit, the digest of the keys under it, and the log of keys set.

    `total` is the exact sum of the keys held. `log` names every key under the bit, and some that no longer are.
    """

    __slots__ = ("bit", "count", "domain", "held", "log", "off", "on", "owner", "sizes", "swept", "total")

    def __init__(self, place: "domain.Domain", bit: int, owner: "replicas.Replica") -> None:
        self.domain = place
        self.held = place.held
        self.bit = bit
        self.owner = owner
        self.on = Transitions(bit, setting=True, masks=place.masks)
        self.off = Transitions(bit, setting=False, masks=place.masks)
        self.log = array("Q")
        self.count = 0
        self.total = 0
        self.sizes: set[int] = set()
        self.swept = 0  # entries of the log already swept, once the holding was dropped

    def apply(self, group: kvwire.Group, sequence: int, *, change: bool) -> None:
        """One checked group of states. `change` is False for a keyframe's chunks: they refresh no recency."""
        tiers = group.tiers
        if group.size not in self.sizes:
            self.domain.add_size(self, group.size)
        if native is None:
            self.change_in_python(group.keys, tiers)
        else:
            came, total_in, column, went, total_out = native.change(self.held, group.keys, tiers, self.on, self.off)
            self.count += came - went
            self.total += total_in - total_out
            self.log.frombytes(column)
        if self.domain.special or tiers.translate(None, b"\x00\x01"):
            keys = kvwire.unpack_keys(group.keys).tolist()
            self.domain.specially(self, keys, tiers, sequence, change=change)

    def change_in_python(self, column: bytes, tiers: bytes) -> None:
        """What the native helper does where there is one: who holds what, the digest and the log."""
        keys = kvwire.unpack_keys(column).tolist()
        if not tiers.strip(b"\x01"):
            self._store(keys, column)
        elif not tiers.strip(b"\x00"):
            self._remove(keys)
        else:
            self._store(list(compress(keys, tiers)))
            self._remove(list(compress(keys, map(not_, tiers))))

    def apply_one(self, key: int, tiers: bytes, sequence: int) -> None:
        """One block changed, gone or in T1: the commonest message by far, so what `apply` would do is spelled out."""
        before = self.held.get(key, 0)
        if tiers == b"\x01":
            after = self.on[before]
            if after != before:
                self.held[key] = after
                self.count += 1
                self.total += key
                self.log.append(key)
        else:
            after = self.off[before]
            if after != before:
                if after:
                    self.held[key] = after
                else:
                    del self.held[key]
                self.count -= 1
                self.total -= key
        if self.domain.special:
            self.domain.specially(self, (key,), tiers, sequence, change=True)

    def _store(self, keys: Sequence[int], column: bytes | None = None) -> None:
        """`column` is the keys as they came, when all of them are stored."""
        held = self.held
        before = list(map(held.get, keys, repeat(0)))
        fresh = keys
        if any(before):
            after = list(map(self.on.__getitem__, before))
            held.update(zip(keys, after, strict=True))
            fresh = list(compress(keys, map(ne, before, after)))
        else:
            held.update(zip(keys, repeat(self.on[0])))  # the repeat has no end
        if column is not None and len(fresh) == len(keys) and _NATIVE:
            self.log.frombytes(column)
        else:
            self.log.extend(fresh)
        self.count += len(fresh)
        self.total += sum(fresh)

    def _remove(self, keys: Sequence[int]) -> None:
        held = self.held
        before = list(map(held.get, keys, repeat(0)))
        after = list(map(self.off.__getitem__, before))
        lost = list(compress(keys, map(ne, before, after)))
        gone: Iterable[int] = keys
        if any(after):  # others hold some of them
            held.update(compress(zip(keys, after, strict=True), after))
            gone = compress(keys, map(not_, after))
        deque(map(held.pop, gone, repeat(None)), 0)  # a default: a message may name a key twice, or one not held
        self.count -= len(lost)
        self.total -= sum(lost)

    @property
    def wasteful(self) -> bool:
        return len(self.log) > 2 * self.count + _SLACK


def flaw(groups: Sequence[kvwire.Group]) -> str | None:
    """Why these columns cannot be applied, or None. Checked before anything is touched."""
    if len(groups) == 1:
        only = groups[0]
        tiers = only.tiers
        if tiers in _ONE and len(only.keys) == 8 and only.size > 0:
            return None  # one block: by far the commonest message
    total = 0
    for group in groups:
        count = len(group.tiers)
        total += count
        if len(group.keys) != 8 * count:
            return f"a group has {len(group.keys)} bytes of keys for {count} tiers; expected 8 bytes a key"
        if group.size <= 0:
            return f"a group has block size {group.size}; expected 1 or more tokens"
        if group.tiers.translate(None, _TIERS):
            return "a tiers byte is above 7; expected a set of T1, T2 and T3"
    if total > LARGEST:
        return f"{total} keys in one message; at most {LARGEST} are read, send smaller pieces"
    return None
