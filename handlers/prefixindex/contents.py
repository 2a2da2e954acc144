"""All that one replica holds: a holding per adapter, counted together as its subscriber counts them.

Either what counts in lookups, or a keyframe in the making that will take its place; changing the one for the other
costs as much as there are adapters. Not here: when that happens (replicas.py). Nothing here fails.

Rules: design.md section 3 (keyframes).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eventstore import kvwire
from handlers.prefixindex import domain, holdings

if TYPE_CHECKING:
    from handlers.prefixindex import replicas

Open = Callable[[domain.DomainKey], domain.Domain]


class Contents:
    """All that a replica holds, one holding per adapter: either the part that counts, or a keyframe in the making."""

    __slots__ = ("_open", "counting", "holdings", "main", "owner")

    def __init__(self, owner: "replicas.Replica", opener: Open) -> None:
        self.owner = owner
        self.holdings: dict[str, holdings.Holding] = {}
        self.main: holdings.Holding | None = None  # the first of them: mostly the only one
        self.counting = False
        self._open = opener

    def holding(self, adapter: str) -> holdings.Holding:
        found = self.holdings.get(adapter)
        if found is None:
            owner = self.owner
            place = self._open(domain.DomainKey(owner.tenant, owner.model, owner.scheme, adapter))
            self.holdings[adapter] = found = place.open(owner)
            self.main = self.main or found
            if self.counting:
                place.admit(found)
        return found

    def apply(self, groups: list[kvwire.Group], sequence: int, *, change: bool) -> None:
        for group in groups:
            self.holding(group.adapter).apply(group, sequence, change=change)

    def admit(self) -> None:
        self.counting = True
        for holding in self.holdings.values():
            holding.domain.admit(holding)

    def drop(self) -> None:
        self.counting = False
        for holding in self.holdings.values():
            holding.domain.drop(holding)

    def agrees(self, count: int, total: int) -> bool:
        """Whether the subscriber's digest is ours."""
        holdings = self.holdings.values()
        return (
            sum(holding.count for holding in holdings) == count
            and sum(holding.total for holding in holdings) & kvwire.MASK64 == total
        )

    @property
    def blocks(self) -> int:
        return sum(holding.count for holding in self.holdings.values())
