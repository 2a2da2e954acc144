"""Which replicas hold how much of a prompt, and what that is worth.

    score = matched tokens x freshness x pressure factor x SLO bias x distinguishing power

    freshness             1 while the replica is heard, then down to 0 with the TTL; 0 excludes (replicas.freshness)
    pressure factor       1 - pressure, while its statistics are younger than the TTL
    SLO bias              1 + freshness when 0 < ttft_ms < 200
    distinguishing power  1 - matching/total: what everybody holds says nothing; matching = replicas that match at
                          least as much, total = replicas that serve the model at all; 1 when there is only one

Replicas of several block sizes are ranked together by matched tokens: one probe per size, of which a replica's best
counts. Not here: filters and reason codes (lookup.py). Pure and total.

Rules: spec/inferencecache.md section 1.5; design.md section 3.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from eventstore import kvwire
from handlers.prefixindex import domain, replicas

TIGHT_TTFT_MS: Final = 200


class Probe(msgspec.Struct, frozen=True):
    """One way to ask for a prompt: keys in order with their token counts, or (`exact`) the last key alone."""

    keys: list[int]
    counts: list[int]  # tokens per key; of an exact probe, one count for all
    size: int | None = None  # only replicas with this block size are asked
    exact: bool = False

    def tokens(self, length: int) -> int:
        """Tokens in a leading run of that many keys."""
        if self.exact:
            return self.counts[0]
        first = self.counts[0]
        if self.counts.count(first) == len(self.counts):
            return length * first
        return sum(self.counts[:length])


class Group(NamedTuple):
    """Replicas that match equally much."""

    matched: int
    mask: int
    probe: Probe
    length: int


def depths(place: domain.Domain, probes: Sequence[Probe]) -> list[Group]:
    """Who holds how much, deepest first."""
    if len(probes) == 1:
        return _depths(place, probes[0])[::-1]
    best: dict[int, Group] = {}
    for probe in probes:
        for group in _depths(place, probe):
            for bit in domain.bits(group.mask):
                if bit not in best or best[bit].matched < group.matched:
                    best[bit] = group
    together: dict[tuple[int, int], Group] = {}
    for bit, group in best.items():
        which = (group.matched, id(group.probe))
        known = together.get(which)
        together[which] = Group(group.matched, bit | (known.mask if known else 0), group.probe, group.length)
    return sorted(together.values(), key=lambda group: (-group.matched, group.mask))


def _depths(place: domain.Domain, probe: Probe) -> list[Group]:
    among = -1 if probe.size is None else place.sizes.get(probe.size, 0)
    if probe.exact:
        mask = place.holders_of(probe.keys[-1]) & among
        return [Group(probe.tokens(1), mask, probe, 1)] if mask else []
    runs = place.runs(probe.keys, among)
    if len(runs) <= 4:
        return [Group(probe.tokens(length), mask, probe, length) for length, mask in runs]
    sums = list(accumulate(probe.counts, initial=0))
    return [Group(sums[length], mask, probe, length) for length, mask in runs]


class Scored(NamedTuple):
    """One replica's place in the ranking, with the parts of its score."""

    negative: float  # so that tuples sort as answers do: best score first, then by name
    name: str
    holding: domain.Holding
    matched: int
    freshness: float
    pressure: float
    bias: float
    power: float
    group: Group


def score(
    groups: Sequence[Group], place: domain.Domain, total: int, *, now_ns: int, ttl_ns: int, ttft_ms: int
) -> list[Scored]:
    """All fresh replicas of the groups, best first."""
    found: list[Scored] = []
    tight = 0 < ttft_ms < TIGHT_TTFT_MS
    quiet_since = now_ns - replicas.SILENT_AFTER
    matching = 0
    at = 0
    while at < len(groups):
        matched = groups[at].matched
        fresh: list[tuple[domain.Holding, float, Group]] = []
        while at < len(groups) and groups[at].matched == matched:
            group = groups[at]
            at += 1
            for holding in place.members(group.mask):
                owner = holding.owner
                if owner.heard_ns >= quiet_since:
                    fresh.append((holding, 1.0, group))
                elif (freshness := replicas.freshness(owner, now_ns, ttl_ns)) > 0:
                    fresh.append((holding, freshness, group))
        matching += len(fresh)
        power = distinguishing(matching, total)
        worth = matched * power
        for holding, freshness, group in fresh:
            owner = holding.owner
            pressure = 1.0 if owner.stats is None else pressure_factor(owner, now_ns, ttl_ns)
            bias = 1.0 + freshness if tight else 1.0
            found.append(
                Scored(
                    -(worth * freshness * pressure * bias),
                    owner.name,
                    holding,
                    matched,
                    freshness,
                    pressure,
                    bias,
                    power,
                    group,
                )
            )
    found.sort()
    return found


def distinguishing(matching: int, total: int) -> float:
    """How much a match says, from who else has it."""
    if total <= 1:
        return 1.0
    return 0.0 if matching >= total else 1.0 - matching / total


def pressure_factor(replica: replicas.Replica, now_ns: int, ttl_ns: int) -> float:
    """What is left of a score under the replica's own load."""
    if replica.stats is None or now_ns - replica.stats_ns >= ttl_ns:
        return 1.0
    return min(1.0, max(0.0, 1.0 - replica.stats.pressure))


def tier(place: domain.Domain, scored: Scored) -> int:
    """The coldest tier in a replica's run: T1, T2 or T3."""
    if not any(place.colder.values()):
        return kvwire.T1
    group = scored.group
    run = group.probe.keys[-1:] if group.probe.exact else group.probe.keys[: group.length]
    return place.coldest(run, scored.holding.bit)


# Replicas that are warm for their tenant, whatever the prompt --------------------------------------------------------

HOT_NS: Final = 5 * 60 * replicas.SECOND
HOT_RATE: Final = 0.1


class Hot(NamedTuple):
    negative: float
    name: str
    hit_rate: float


def hot(serving: Sequence[replicas.Replica], *, now_ns: int, ttl_ns: int, ttft_ms: int) -> list[Hot]:
    """Replicas of the model whose own hit rate was good within five minutes, best first."""
    return sorted(_hot(serving, now_ns, ttl_ns, 0 < ttft_ms < TIGHT_TTFT_MS))


def _hot(serving: Sequence[replicas.Replica], now_ns: int, ttl_ns: int, tight: bool) -> Iterator[Hot]:
    for replica in serving:
        age = max(0, now_ns - replica.stats_ns)
        if replica.stats is None or age >= HOT_NS or replica.stats.hit_rate < HOT_RATE:
            continue
        recency = 1.0 - age / HOT_NS
        worth = replica.stats.hit_rate * recency * pressure_factor(replica, now_ns, ttl_ns)
        yield Hot(-(worth * (1.0 + recency if tight else 1.0)), replica.name, replica.stats.hit_rate)
