"""How much may match: a cap over all holds, a quota of distinct keys per tenant, least used or least recent first.

Soft server state, not part of the fold: what a limit evicts is hidden, not forgotten. It stays in the masks and in the
digest, does not match, and comes back when the engine stores it anew or when the limit is raised. A keyframe does not
refresh recency, so a restart of a subscriber cannot push a tenant's newer keys out.

    quota  distinct keys of a tenant (CacheTenant); oldest last change first, then model, scheme, adapter, key;
           a key goes with all its replicas; 0 keeps nothing, no quota is unbounded
    cap    holds (key x replica) of everybody but the reserved tenant; least credits first where the tenant's policy
           says LFU (0 elsewhere), then last change, tenant, model, scheme, adapter, key, replica

Recency is kept per key, only for tenants with a quota and, for all, once 90 % of the cap are in use. Keys older than
that start count as oldest, in the order in which they were created. Quotas hold after every message; the cap is looked
at in slices (`scan`), so that a large index may exceed it for as long as the slices take.

Rules: design.md section 3; spec/inferencecache.md section 4.
"""

from collections import Counter
from collections.abc import Iterator
from heapq import heappush, heappushpop
from typing import Final, NamedTuple

from handlers.prefixindex import domain, holdings, policies

CAP: Final = 10_000_000
_NEAR: Final = 0.9
_BATCH: Final = 4096  # least number of victims that one pass over all holds looks for


class _Victim(NamedTuple):
    """A hold, in the order of eviction."""

    credits: int
    age: int
    created: int  # place in its replica's log when the age is not known
    domain: domain.DomainKey
    key: int
    replica: str
    bit: int


class _Reversed:
    """Orders the last victim first, for a heap that keeps the first ones."""

    __slots__ = ("victim",)

    def __init__(self, victim: _Victim) -> None:
        self.victim = victim

    def __lt__(self, other: "_Reversed") -> bool:
        return other.victim < self.victim


class Limits:
    """Which keys are hidden, and how many were evicted why."""

    def __init__(self, domains: dict[domain.DomainKey, domain.Domain], *, cap: int = CAP) -> None:
        self.cap = cap
        self.tenant_evictions: Counter[str] = Counter()
        self.index_evictions: Counter[tuple[str, str]] = Counter()  # (lru or lfu, cap)
        self.active = False  # some tenant has a quota
        self._domains = domains
        self._policies = policies.UNKNOWN
        self._tracked: dict[str, list[domain.Domain]] = {}  # tenants with a quota
        self._near = False
        self._pass: Iterator[int] | None = None
        self._passed_at: int | None = None  # position of the index at the last pass

    # Quotas ----------------------------------------------------------------------------------------------------------

    def govern(self, known: policies.Policies) -> None:
        """New quotas: a lower one hides more, a higher one brings the newest hidden keys back."""
        before, self._policies = self._policies, known
        self.active = bool(known.quotas)
        self._tracked.clear()
        for place in self._domains.values():
            tenant = place.key.tenant
            if before.quotas.get(tenant) != known.quotas.get(tenant):
                place.visibility.restore()
            self.prepare(place)

    def prepare(self, place: domain.Domain) -> None:
        """A domain is tracked while a quota or the cap needs its recency."""
        if place.key.tenant in self._policies.quotas:
            place.visibility.track(place.held, complete=True)
            self._tracked.setdefault(place.key.tenant, []).append(place)
        elif self._near:
            place.visibility.track(place.held, complete=False)
        elif place.visibility.ages is not None:
            place.visibility.untrack()
        place.watch()

    def release(self, place: domain.Domain) -> None:
        """A domain is gone."""
        if place in (tracked := self._tracked.get(place.key.tenant, [])):
            tracked.remove(place)

    def enforce(self, tenant: str | None = None) -> None:
        """Hide the oldest keys of tenants that hold more than their quota."""
        for name in (tenant,) if tenant is not None else tuple(self._tracked):
            if name in self._tracked:
                self._hold_to(name, self._policies.quotas[name])

    def _hold_to(self, tenant: str, quota: int) -> None:
        tracked = self._tracked[tenant]
        excess = sum(place.visibility.size for place in tracked) - quota
        for _ in range(excess):
            (_, where, key) = min(
                (oldest[1], place.key, oldest[0])
                for place in tracked
                if (oldest := place.visibility.oldest()) is not None
            )
            self._domains[where].visibility.hide_key(key)
            self.tenant_evictions[tenant] += 1

    # Cap -------------------------------------------------------------------------------------------------------------

    def scan(self, budget: int, position: int) -> int:
        """One slice of looking for holds above the cap; returns how many it looked at, 0 when there is no need."""
        if self._pass is None:
            held = sum(place.blocks for place in self._counted())
            self._come_near(held > self.cap * _NEAR)
            if held <= self.cap or self._passed_at == position:
                return 0
            self._passed_at = position
            self._pass = self._look()
        spent = 0
        for looked in self._pass:
            spent += looked
            if spent >= budget:
                return spent
        self._pass = None
        return spent

    def _counted(self) -> list[domain.Domain]:
        return [self._domains[key] for key in sorted(self._domains) if key.tenant != policies.RESERVED]

    def _come_near(self, near: bool) -> None:
        if near != self._near:
            self._near = near
            self._tracked.clear()
            for place in self._domains.values():
                self.prepare(place)

    def _look(self) -> Iterator[int]:
        """A pass over all holds: count those that match, keep the first in the order of eviction, then evict."""
        batch = max(_BATCH, self.cap // 64)
        first: list[_Reversed] = []
        matching = 0
        for place in self._counted():
            for holding in list(place.holders.values()):
                for piece in self._visible(place, holding):
                    for victim in piece:
                        matching += 1
                        if len(first) < batch:
                            heappush(first, _Reversed(victim))
                        else:
                            heappushpop(first, _Reversed(victim))
                    yield max(1, len(piece))
        excess = matching - self.cap
        for entry in sorted(entry.victim for entry in first)[: max(0, excess)]:
            self._evict(entry)
        if excess > len(first):
            self._passed_at = None

    def _visible(self, place: domain.Domain, holding: holdings.Holding) -> Iterator[list[_Victim]]:
        """Holds of one replica that match now, in pieces; the log may name a key more than once."""
        bit, held, seen = holding.bit, place.held, place.visibility
        lfu = self._policies.of(place.key.tenant).eviction == "LFU"
        done: set[int] = set()
        log = holding.log
        for start in range(0, len(log), 1024):
            if not bit & place.alive or place.holders.get(bit) is not holding:
                return
            counts = seen.credits.get(bit, {}) if lfu else {}
            ages = seen.ages
            piece = []
            for at, key in enumerate(log[start : start + 1024], start):
                if held.get(key, 0) & bit & ~seen.hidden.get(key, 0) and key not in done:
                    done.add(key)
                    age = ages.get(key, 0) if ages is not None else 0
                    created = 0 if age else at
                    piece.append(_Victim(counts.get(key, 0), age, created, place.key, key, holding.owner.name, bit))
            yield piece

    def _evict(self, victim: _Victim) -> None:
        """Hide a hold, unless it changed since it was chosen."""
        place = self._domains.get(victim.domain)
        if place is None:
            return
        seen = place.visibility
        lfu = self._policies.of(victim.domain.tenant).eviction == "LFU"
        credits = seen.credits.get(victim.bit, {}).get(victim.key, 0) if lfu else 0
        age = seen.ages.get(victim.key, 0) if seen.ages is not None else 0
        if (credits, age) == victim[:2] and place.held.get(victim.key, 0) & victim.bit & place.alive:
            seen.hide_hold(victim.key, victim.bit)
            place.watch()
            self.index_evictions["lfu" if lfu else "lru", "cap"] += 1
