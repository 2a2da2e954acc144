"""Stored blocks whose parent has not been seen: kept with their tokens, bounded, until the parent appears.

They are never a match from the root; when the bound is reached the oldest are given up (they stay removable, and are
counted). Not here: what the parent is. Nothing fails.

Rules: IDX-02, KV-12, TR-06.
"""

from typing import Final, NamedTuple

from subscribers.kvevents import batch

MAX_BYTES: Final = 8 * 1024 * 1024  # of packed tokens and a fixed share per block
_PER_BLOCK: Final = 64


class Orphan(NamedTuple):
    group: int
    adapter: str
    event: batch.Stored

    @property
    def weight(self) -> int:
        return len(self.event.tokens or b"") + _PER_BLOCK * len(self.event.hashes)


class Orphans:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._waiting: dict[int, Orphan] = {}  # by age
        self._children: dict[tuple[int, batch.Hash], list[int]] = {}
        self._next = 0
        self._max = max_bytes
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, orphan: Orphan) -> int:
        """Keep one; its event names a parent. Returns how many older ones had to be given up."""
        assert orphan.event.parent is not None
        self._waiting[self._next] = orphan
        self._children.setdefault((orphan.group, orphan.event.parent), []).append(self._next)
        self._next += 1
        self.bytes += orphan.weight
        given_up = 0
        while self.bytes > self._max:
            self._forget(next(iter(self._waiting)))
            given_up += 1
        return given_up

    def _forget(self, number: int) -> None:
        orphan = self._waiting.pop(number)
        self.bytes -= orphan.weight
        assert orphan.event.parent is not None
        at = (orphan.group, orphan.event.parent)
        siblings = self._children[at]
        siblings.remove(number)
        if not siblings:
            del self._children[at]

    def pop(self, group: int, parent: batch.Hash) -> list[Orphan]:
        """Everything that waited for this parent, oldest first; it waits no longer."""
        orphans = []
        for number in self._children.pop((group, parent), ()):
            orphan = self._waiting.pop(number)
            self.bytes -= orphan.weight
            orphans.append(orphan)
        return orphans

    def all(self) -> list[Orphan]:
        """By age, oldest first."""
        return list(self._waiting.values())

    def clear(self) -> None:
        self._waiting.clear()
        self._children.clear()
        self.bytes = 0
