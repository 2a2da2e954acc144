"""Which replicas hold which block, within one domain: a dict from a block's key to a mask of replicas.

A domain is one (tenant, model, scheme, adapter); keys of different domains never meet. It may hold several block sizes.
A replica's contents in a domain stand under one bit of the masks (a Holding); masks are interned, so a run of blocks
with the same holders is a run of the same object and a walk compares identities. Only bits in `alive` count: taking a
replica's bit out of `alive` forgets all of its blocks in constant time, and the sweep that follows is exact,
incremental and costs only that replica's entries, because each holding logs the keys it set. A bit is used again only
after its sweep.

The masks hold a block's replicas; on which tier is kept only for blocks whose warmest tier is not T1. Keys that a limit
has hidden (limits.py) stay in the masks and do not match.

Not here: how columns change a holding (holdings.py), sessions (replicas.py), what a lookup makes of a run (ranking.py).
Nothing here fails.

Rules: design.md section 3 (exact, no ancestor assumed; bits per domain; 4,096 keys a slice); IDX-03, IDX-10,
KV-20, TR-16.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from operator import not_
from typing import TYPE_CHECKING, Final, NamedTuple

from eventstore import kvwire
from handlers.prefixindex import holdings, visibility
from handlers.prefixindex.keys import native

if TYPE_CHECKING:
    from handlers.prefixindex import replicas

SLICE: Final = 4096
_CHUNK: Final = 64  # keys fetched before a walk looks whether it may stop
#: Tiers byte -> its warmest tier; T1 and 0 are not in the side table.
COLDER: Final = {2: kvwire.T2, 6: kvwire.T2, 4: kvwire.T3}


class DomainKey(NamedTuple):
    tenant: str
    model: str
    scheme: str
    adapter: str


Member = tuple["replicas.Replica", holdings.Holding]


class Domain:
    """The blocks of one (tenant, model, scheme, adapter)."""

    __slots__ = (
        "_compacting",
        "_dying",
        "_free",
        "_members",
        "_next",
        "alive",
        "colder",
        "held",
        "hidden",
        "holders",
        "key",
        "masks",
        "sizes",
        "special",
        "visibility",
    )

    def __init__(self, key: DomainKey) -> None:
        self.key = key
        self.held: dict[int, int] = {}
        self.masks: dict[int, int] = {}
        self.alive = 0
        self.holders: dict[int, holdings.Holding] = {}  # by bit; dropped ones stay until swept
        self.sizes: dict[int, int] = {}  # block size -> mask of the holdings that use it
        self.colder: dict[int, dict[int, int]] = {kvwire.T2: {}, kvwire.T3: {}}  # warmest tier -> key -> mask
        self.visibility = visibility.Visibility()
        self.hidden = self.visibility.hidden  # key -> mask of the bits that do not match
        self.special = False  # any of the side tables is in use
        self._free: list[int] = []
        self._next = 1
        self._dying: deque[holdings.Holding] = deque()
        self._compacting: tuple[holdings.Holding, int, set[int], array[int]] | None = None
        self._members: dict[int, tuple[Member, ...]] = {}

    # Bits ------------------------------------------------------------------------------------------------------------

    def open(self, owner: "replicas.Replica") -> holdings.Holding:
        """A new, empty holding under a bit of its own; it does not count yet."""
        if self._free:
            bit = self._free.pop()
        else:
            bit, self._next = self._next, self._next << 1
        self.holders[bit] = holding = holdings.Holding(self, bit, owner)
        return holding

    def admit(self, holding: holdings.Holding) -> None:
        """From now on the holding counts in lookups."""
        self.alive |= holding.bit
        self._members.clear()

    def drop(self, holding: holdings.Holding) -> None:
        """From now on the holding counts no more; its entries go with later sweeps."""
        self.alive &= ~holding.bit
        self._members.clear()
        for size, mask in list(self.sizes.items()):
            if left := mask & ~holding.bit:
                self.sizes[size] = left
            else:
                del self.sizes[size]
        self.visibility.credits.pop(holding.bit, None)
        self._dying.append(holding)

    def inherit(self, old: holdings.Holding, new: holdings.Holding) -> None:
        """The same replica under another bit: what limits know of the old one is true of the new one."""
        self.visibility.inherit(old.bit, new.bit, old.log)

    def add_size(self, holding: holdings.Holding, size: int) -> None:
        holding.sizes.add(size)
        self.sizes[size] = self.sizes.get(size, 0) | holding.bit

    @property
    def busy(self) -> bool:
        """True while entries of dropped holdings remain."""
        return bool(self._dying)

    @property
    def empty(self) -> bool:
        return not self.holders

    @property
    def blocks(self) -> int:
        """Holds that count: keys times replicas, hidden ones included."""
        return sum(holding.count for bit, holding in self.holders.items() if bit & self.alive)

    # Upkeep, in slices -----------------------------------------------------------------------------------------------

    def sweep(self, budget: int = SLICE) -> int:
        """Clear dropped bits from up to `budget` entries; returns how many it looked at. 0 means: nothing to do."""
        spent = 0
        while self._dying and spent < budget:
            holding = self._dying[0]
            piece = holding.log[holding.swept : holding.swept + budget - spent]
            self._clear(holding, piece.tolist())
            holding.swept += len(piece)
            spent += len(piece)
            if holding.swept >= len(holding.log):
                self._dying.popleft()
                del self.holders[holding.bit]
                self._free.append(holding.bit)
        return spent

    def _clear(self, holding: holdings.Holding, keys: Sequence[int]) -> None:
        """Take a bit out of some keys, in loops that run in C. Keys named twice, or held no more, are no matter."""
        held, off = self.held, holding.off
        after = list(map(off.__getitem__, map(held.get, keys, repeat(0))))
        held.update(compress(zip(keys, after, strict=True), after))
        gone = list(compress(keys, map(not_, after)))
        deque(map(held.pop, gone, repeat(None)), 0)
        if not self.special:
            return
        for side in self.colder.values():
            for key in keys if side else ():
                _clear_bit(side, off, key)
        for key in keys if self.hidden else ():
            self.visibility.uncover(key, holding.bit)
        for key in gone if not self.visibility.idle else ():
            self.visibility.depart(key)

    def compact(self, budget: int = SLICE) -> int:
        """Drop dead and double entries from a wasteful log, `budget` at a time; returns how many it looked at."""
        if self._compacting is None:
            wasteful = next((h for h in self.holders.values() if h.wasteful and h not in self._dying), None)
            if wasteful is None:
                return 0
            self._compacting = (wasteful, 0, set(), array("Q"))
        holding, at, seen, kept = self._compacting
        if self.holders.get(holding.bit) is not holding or holding in self._dying:
            self._compacting = None  # dropped meanwhile: its sweep reads the old log
            return 1
        bit, held = holding.bit, self.held
        piece = holding.log[at : at + budget]
        for key in piece:
            if held.get(key, 0) & bit and key not in seen:
                seen.add(key)
                kept.append(key)
        at += len(piece)
        if at >= len(holding.log):
            holding.log = kept
            self._compacting = None
        else:
            self._compacting = (holding, at, seen, kept)
        return max(1, len(piece))

    # Side tables -----------------------------------------------------------------------------------------------------

    def specially(
        self, holding: holdings.Holding, keys: Sequence[int], tiers: bytes, sequence: int, *, change: bool
    ) -> None:
        """The rarer facts of states just applied: colder tiers, recency, hiding."""
        self._tiers(holding, keys, tiers)
        if not self.visibility.idle:
            note = self.visibility.changed if change else self.visibility.confirmed
            note(holding.bit, keys, tiers, self.held, sequence)

    def _tiers(self, holding: holdings.Holding, keys: Sequence[int], tiers: bytes) -> None:
        for key, tier in zip(keys, tiers, strict=True):
            warmest = COLDER.get(tier, 0)
            for level, side in self.colder.items():
                if level == warmest:
                    side[key] = holding.on[side.get(key, 0)]
                    self.special = True
                elif side:
                    _clear_bit(side, holding.off, key)

    def watch(self) -> None:
        """After the limits changed what they track: whether states take the slower path."""
        self.special = any(self.colder.values()) or not self.visibility.idle

    # Questions -------------------------------------------------------------------------------------------------------

    def runs(self, keys: Sequence[int], among: int = -1) -> list[tuple[int, int]]:
        """Leading runs of `keys`: (length, mask of the bits whose run is exactly that long), shortest first.

        Exact: a bit is in a run only if it holds every key of it. Bits outside `alive & among`, and runs of length 0,
        are not named.
        """
        if native is not None and not self.hidden and type(keys) is list:
            return native.runs(self.held, keys, self.alive & among)
        return self.runs_in_python(keys, among)

    def runs_in_python(self, keys: Sequence[int], among: int = -1) -> list[tuple[int, int]]:
        """As `runs`, without the native helper, and where keys are hidden."""
        standing = self.alive & among
        found: list[tuple[int, int]] = []
        get, hidden = self.held.get, self.hidden
        last: int | None = -1
        length = 0
        for start in range(0, len(keys), _CHUNK):
            piece = keys[start : start + _CHUNK]
            masks = list(map(get, piece))
            if hidden and not hidden.keys().isdisjoint(piece):
                masks = [(mask or 0) & ~hidden.get(key, 0) for key, mask in zip(piece, masks, strict=True)]
            if masks[0] is last and masks.count(last) == len(masks):
                length += len(masks)
                continue
            for mask in masks:
                if mask is not last:
                    left = standing & mask if mask else 0
                    if left != standing:
                        if length:
                            found.append((length, standing ^ left))
                        standing = left
                    if not left:
                        return found
                    last = mask
                length += 1
        if length:
            found.append((length, standing))
        return found

    def holders_of(self, key: int) -> int:
        """Mask of the counting bits that hold a key."""
        return self.held.get(key, 0) & self.alive & ~self.hidden.get(key, 0)

    def members(self, mask: int) -> tuple["Member", ...]:
        """The replicas of a mask and their holdings, by name."""
        found = self._members.get(mask)
        if found is None:
            if len(self._members) >= 1024:
                self._members.clear()
            named = sorted((self.holders[bit] for bit in bits(mask)), key=lambda holding: holding.owner.name)
            self._members[mask] = found = tuple((holding.owner, holding) for holding in named)
        return found

    def coldest(self, keys: Sequence[int], bit: int) -> int:
        """The coldest of the warmest tiers under which `bit` holds these keys: T1, T2 or T3."""
        for tier in (kvwire.T3, kvwire.T2):
            side = self.colder[tier]
            if side and any(mask & bit for key in keys if (mask := side.get(key))):
                return tier
        return kvwire.T1

    def visible(self) -> int:
        """Distinct keys that a lookup can match. Costs a pass over all masks only while some do not count."""
        if not self.hidden and len(self.holders) == self.alive.bit_count():
            return len(self.held)
        hidden, alive = self.hidden, self.alive
        return sum(1 for key, mask in self.held.items() if mask & alive & ~hidden.get(key, 0))

    def hidden_of(self, bit: int) -> int:
        """How many keys under a bit are hidden."""
        return sum(1 for key, mask in self.hidden.items() if mask & bit and self.held.get(key, 0) & bit)


def bits(mask: int) -> Iterator[int]:
    """The single bits of a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


def _clear_bit(masks: dict[int, int], off: holdings.Transitions, key: int) -> None:
    before = masks.get(key)
    if before is not None:
        after = off[before]
        if after:
            masks[key] = after
        else:
            del masks[key]
