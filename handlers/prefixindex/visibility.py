"""What the limits know of one domain: when keys last changed, which are hidden, how often a hold was of use.

`ages` is complete for a tenant with a quota (its first key is the oldest), sparse while only the cap needs it (an
absent key is older than the start of tracking), None while nothing needs it. It costs about 200 bytes a key.

Not here: whose turn it is to be hidden (limits.py), what a hidden key means to a walk (domain.py).
Rules: design.md section 3 (hidden, not forgotten; a keyframe refreshes no recency).
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: In `hidden`: under whichever bit.
EVERYWHERE: Final = -1
_DEPARTED: Final = 1 << 17  # swept keys whose age is remembered; the longest gone are forgotten first


class Visibility:
    """Soft state of one domain; empty, and free, while no limit concerns its tenant."""

    __slots__ = ("ages", "complete", "credits", "departed", "hidden", "ordered", "parked")

    def __init__(self) -> None:
        self.ages: OrderedDict[int, int] | None = None  # visible key -> stream sequence of its last change
        self.complete = False
        self.ordered = True  # `ages` is in order
        self.departed: dict[int, tuple[int, bool]] = {}  # key that was swept -> its age, and whether it was parked
        self.hidden: dict[int, int] = {}  # key -> mask of the bits that do not match, or EVERYWHERE
        self.parked: dict[int, int] = {}  # key hidden EVERYWHERE -> its age
        self.credits: dict[int, dict[int, int]] = {}  # bit -> key -> delivered matches

    @property
    def idle(self) -> bool:
        return self.ages is None and not self.hidden and not self.credits

    @property
    def size(self) -> int:
        """Keys that a quota counts."""
        return len(self.ages) if self.ages is not None else 0

    def oldest(self) -> tuple[int, int] | None:
        """(key, age) of the visible key that changed longest ago."""
        if not self.ages:
            return None
        if not self.ordered:
            self.ages, self.ordered = _sorted(self.ages), True
        return next(iter(self.ages.items()))

    def track(self, held: Iterable[int], *, complete: bool) -> None:
        """Remember changes from now on. Keys held already count as older, in the order in which they were created."""
        known = self.ages if self.ages is not None else OrderedDict[int, int]()
        if complete and not self.complete:
            older = [key for key in held if key not in known and key not in self.parked]
            known = OrderedDict((key, at - len(older)) for at, key in enumerate(older)) | known
        self.ages, self.complete = known, complete

    def untrack(self) -> None:
        self.restore()
        self.ages, self.complete, self.ordered = None, False, True
        self.hidden.clear()
        self.departed.clear()

    def changed(self, bit: int, keys: Sequence[int], tiers: bytes, held: Mapping[int, int], sequence: int) -> None:
        """Ops: states that were just applied under `bit`."""
        self._removed(bit, keys, tiers, held)
        for key in sorted(key for key, tier in zip(keys, tiers, strict=True) if tier):
            self._show(key, bit)
            if self.ages is not None:
                self.departed.pop(key, None)
                self.ages[key] = sequence
                self.ages.move_to_end(key)

    def confirmed(self, bit: int, keys: Sequence[int], tiers: bytes, held: Mapping[int, int], sequence: int) -> None:
        """A keyframe's chunk: what is known stays as old, and as hidden, as it was."""
        self._removed(bit, keys, tiers, held)
        if self.ages is not None:
            for key in sorted(key for key, tier in zip(keys, tiers, strict=True) if tier):
                if key in self.departed:
                    self._return(key)
                elif key not in self.parked:
                    self.ages.setdefault(key, sequence)

    def _removed(self, bit: int, keys: Sequence[int], tiers: bytes, held: Mapping[int, int]) -> None:
        counts = self.credits.get(bit)
        for key, tier in zip(keys, tiers, strict=True):
            if not tier:
                if key not in held:
                    self.forget(key)
                if counts is not None:
                    counts.pop(key, None)

    def _show(self, key: int, bit: int) -> None:
        mask = self.hidden.get(key, 0)
        if mask == EVERYWHERE:
            del self.hidden[key]
            self.parked.pop(key, None)
        elif mask:
            self.uncover(key, bit)

    def uncover(self, key: int, bit: int) -> None:
        """A single bit is no longer hidden."""
        mask = self.hidden.get(key, 0)
        if mask > 0:
            if left := mask & ~bit:
                self.hidden[key] = left
            else:
                del self.hidden[key]

    def forget(self, key: int) -> None:
        """Nobody holds the key any more."""
        if self.ages is not None:
            self.ages.pop(key, None)
        self.hidden.pop(key, None)
        self.parked.pop(key, None)

    def depart(self, key: int) -> None:
        """Swept: nobody holds the key, but a keyframe may bring it back, and then it is as old as it was."""
        age = self.parked.get(key)
        if age is None and self.ages is not None:
            age = self.ages.get(key)
        parked = key in self.parked
        self.forget(key)
        if age is not None and self.complete:
            self.departed[key] = age, parked
            if len(self.departed) > _DEPARTED:
                del self.departed[next(iter(self.departed))]

    def _return(self, key: int) -> None:
        assert self.ages is not None
        age, parked = self.departed.pop(key)
        self.ages[key] = age
        self.ordered = False
        if parked:
            self.hide_key(key)

    def hide_key(self, key: int) -> None:
        """By quota: with all its replicas."""
        assert self.ages is not None
        self.hidden[key] = EVERYWHERE
        self.parked[key] = self.ages.pop(key)

    def hide_hold(self, key: int, bit: int) -> None:
        """By the cap: under one bit."""
        self.hidden[key] = self.hidden.get(key, 0) | bit

    def restore(self) -> None:
        """Bring back all that a quota hid, in its place among the ages."""
        if self.parked and self.ages is not None:
            self.ages = _sorted({**self.parked, **self.ages})
            self.ordered = True
        for key in self.parked:
            del self.hidden[key]
        self.parked.clear()

    def inherit(self, old: int, new: int, keys: Iterable[int]) -> None:
        """The same replica under another bit."""
        if (counts := self.credits.pop(old, None)) is not None:
            self.credits[new] = counts
        if len(self.hidden) > len(self.parked):
            for key in keys:
                mask = self.hidden.get(key, 0)
                if mask > 0 and mask & old:
                    self.hidden[key] = mask | new

    def credit(self, bit: int, keys: Iterable[int]) -> None:
        counts = self.credits.setdefault(bit, {})
        for key in keys:
            counts[key] = counts.get(key, 0) + 1


def _sorted(ages: Mapping[int, int]) -> OrderedDict[int, int]:
    """By age, then by key."""
    return OrderedDict(sorted(ages.items(), key=lambda item: item[::-1]))
