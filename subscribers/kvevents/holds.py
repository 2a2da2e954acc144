"""Which keys one replica holds, in which tiers, and which of that the server has not been told yet.

A key lives in a domain (adapter, block size) and counts its copies per tier. Beside the counts stands what was last
told: the tiers that a message taken from here has said. `take` gives the difference as final states, so a key that
changed back and forth since costs nothing; `count` and `sum` describe the told state, so that they agree with a server
that has applied everything taken so far, at the same n.

Not here: engine hashes (table.py) and messages (sessions). Nothing fails; dropping a copy that is not there is a bug
of the caller and raises.

Rules: design.md section 3 (operations are states; keyframes; digest).
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from eventstore import kvwire

_TOLD: Final = 7  # bits 0-2 of a packed entry; above them 20 bits of copies for each tier
_WIDTH: Final = 20
_UNIT: Final = {kvwire.T1: 1 << 3, kvwire.T2: 1 << (3 + _WIDTH), kvwire.T3: 1 << (3 + 2 * _WIDTH)}
_MASK: Final = {tier: ((1 << _WIDTH) - 1) * unit for tier, unit in _UNIT.items()}
_T1, _T2, _T3 = (_MASK[tier] for tier in (kvwire.T1, kvwire.T2, kvwire.T3))
_ALONE: Final = _T1 | _TOLD  # an entry within these bits has copies in T1 only, which nearly all have
#: What nearly all entries are at some time: one copy in T1 that was not told, that was, or that was and is gone.
NEW: Final = _UNIT[kvwire.T1]
_KEPT: Final = NEW | kvwire.T1
_LOST: Final = kvwire.T1

#: A domain's keys lie in this many dicts: a keyframe copies one dict's keys at a time, so the loop never waits for
#: all of them, and no dict grows in one long pause.
_BUCKETS: Final = 64


class Hold(NamedTuple):
    adapter: str
    size: int  # tokens per block
    key: int
    tiers: int


def _tiers(entry: int) -> int:
    if not entry & ~_ALONE:
        return 1 if entry & _T1 else 0
    return (kvwire.T1 if entry & _T1 else 0) | (kvwire.T2 if entry & _T2 else 0) | (kvwire.T3 if entry & _T3 else 0)


class Domain:
    """The keys of one adapter and block size. `untold` keeps the order in which keys came to differ."""

    __slots__ = ("adapter", "buckets", "size", "untold")

    def __init__(self, adapter: str, size: int) -> None:
        self.adapter = adapter
        self.size = size
        self.buckets: list[dict[int, int]] = [{} for _ in range(_BUCKETS)]
        self.untold: dict[int, None] = {}


class Holds:
    """All domains of one replica."""

    def __init__(self) -> None:
        self.domains: list[Domain] = []
        self._index: dict[tuple[str, int], int] = {}
        self.count = 0
        self.sum = 0

    def domain(self, adapter: str, size: int) -> int:
        """The number of a domain, made when it is new. Numbers stay valid for the life of this object."""
        number = self._index.get((adapter, size))
        if number is None:
            number = self._index[adapter, size] = len(self.domains)
            self.domains.append(Domain(adapter, size))
        return number

    def add(self, domain: int, key: int, tier: int) -> None:
        """One more copy of a key in a tier (one bit)."""
        here = self.domains[domain]
        bucket = here.buckets[key & 63]
        entry = bucket.get(key, 0) + _UNIT[tier]
        bucket[key] = entry
        if entry == NEW:  # by far the most frequent: what follows would come to the same
            here.untold[key] = None
            return
        if _tiers(entry) != entry & _TOLD:
            here.untold[key] = None
        else:
            here.untold.pop(key, None)

    def drop(self, domain: int, key: int, tier: int) -> None:
        """One copy less. Raises KeyError when there is none: counts never become negative."""
        here = self.domains[domain]
        bucket = here.buckets[key & 63]
        entry = bucket[key]
        if entry == _KEPT and tier == kvwire.T1:  # by far the most frequent: what follows would come to the same
            bucket[key] = _LOST
            here.untold[key] = None
            return
        if not entry & _MASK[tier]:
            raise KeyError(key)
        entry -= _UNIT[tier]
        if entry:
            bucket[key] = entry
        else:
            del bucket[key]
        if _tiers(entry) != entry & _TOLD:
            here.untold[key] = None
        else:
            here.untold.pop(key, None)

    @property
    def pending(self) -> int:
        """Keys whose tiers differ from what was told."""
        return sum(len(domain.untold) for domain in self.domains)

    def take(self, limit: int) -> list[kvwire.Group]:
        """Up to `limit` untold keys with their final tiers (0: not held any more); from here on they are told."""
        groups: list[kvwire.Group] = []
        for domain in self.domains:
            if limit <= 0:
                break
            if domain.untold:
                keys = list(islice(domain.untold, limit))
                limit -= len(keys)
                groups.append(
                    kvwire.Group(domain.adapter, domain.size, kvwire.pack_keys(keys), self._tell_all(domain, keys))
                )
        return groups

    def drop_pending(self) -> None:
        """Call everything told, without saying it: a keyframe that starts now will."""
        for domain in self.domains:
            for key in list(domain.untold):
                self._tell(domain, key)

    def _tell_all(self, domain: Domain, keys: list[int]) -> bytes:
        """`_tell` of each, with what nearly all of them are spelled out."""
        buckets, untold = domain.buckets, domain.untold
        tiers = bytearray(len(keys))
        for number, key in enumerate(keys):
            bucket = buckets[key & 63]
            entry = bucket[key]
            if entry == NEW:
                bucket[key] = _KEPT
                self.count += 1
                self.sum += key
                tiers[number] = kvwire.T1
                del untold[key]
            elif entry == _LOST:
                del bucket[key]
                self.count -= 1
                self.sum -= key
                del untold[key]
            else:
                tiers[number] = self._tell(domain, key)
        self.sum &= kvwire.MASK64
        return bytes(tiers)

    def _tell(self, domain: Domain, key: int) -> int:
        del domain.untold[key]
        bucket = domain.buckets[key & 63]
        entry = bucket[key]
        tiers = _tiers(entry)
        told = entry & _TOLD
        entry += tiers - told
        if entry:
            bucket[key] = entry
        else:
            del bucket[key]
        if tiers and not told:
            self.count += 1
            self.sum = (self.sum + key) & kvwire.MASK64
        elif told and not tiers:
            self.count -= 1
            self.sum = (self.sum - key) & kvwire.MASK64
        return tiers

    def each(self) -> Iterator[Hold]:
        """Every key told as held, with its told tiers at the moment of yielding.

        The table may change between two steps. A key that is told later than the iteration began may or may not
        appear; `take` has given it to the caller either way.
        """
        for domain in list(self.domains):
            for bucket in domain.buckets:
                for key in list(bucket):
                    told = bucket.get(key, 0) & _TOLD
                    if told:
                        yield Hold(domain.adapter, domain.size, key, told)

    def chunks(self, limit: int = kvwire.MAX_KEYS) -> Iterator[list[kvwire.Group]]:
        """`each` as the groups of keyframe chunks of at most `limit` keys. As there, changes may go on in between."""
        each = self.each()
        while part := list(islice(each, limit)):
            columns: dict[tuple[str, int], tuple[list[int], bytearray]] = {}
            for hold in part:
                keys, tiers = columns.setdefault((hold.adapter, hold.size), ([], bytearray()))
                keys.append(hold.key)
                tiers.append(hold.tiers)
            yield [
                kvwire.Group(adapter, size, kvwire.pack_keys(keys), bytes(tiers))
                for (adapter, size), (keys, tiers) in columns.items()
            ]

    def clear(self) -> None:
        """Hold nothing and call that told. Iterations under way find nothing more; domain numbers stay valid."""
        for domain in self.domains:
            domain.untold.clear()
            for bucket in domain.buckets:
                bucket.clear()
        self.count = self.sum = 0
