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
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from eventstore import kvwire
from handlers.prefixindex import answers, domain, holdings, replicas

TIGHT_TTFT_MS: Final = 200


class Probe(msgspec.Struct, frozen=True):
    """One way to ask for a prompt: keys in order with their token counts, or (`exact`) a key alone, as one count."""

    keys: list[int]
    counts: list[int]
    size: int | None = None  # only replicas with this block size are asked
    exact: bool = False

    def tokens(self, lengths: Sequence[int]) -> list[int]:
        """Tokens in leading runs of so many keys."""
        first = self.counts[0]
        if self.counts.count(first) == len(self.counts):
            return [length * first for length in lengths]
        sums = list(accumulate(self.counts, initial=0))
        return [sums[length] for length in lengths]


class Group(NamedTuple):
    """Replicas that hold the same leading run."""

    matched: int  # tokens
    mask: int
    probe: Probe
    length: int  # keys

    @property
    def run(self) -> list[int]:
        return self.probe.keys[: self.length]


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
        mask = place.holders_of(probe.keys[0]) & among
        return [Group(probe.counts[0], mask, probe, 1)] if mask else []
    runs = place.runs(probe.keys, among)
    if not runs:
        return []
    tokens = probe.tokens([length for length, _ in runs])
    return [Group(matched, mask, probe, length) for matched, (length, mask) in zip(tokens, runs, strict=True)]


_TIERS: Final[dict[int, answers.Tier]] = {kvwire.T1: answers.T1, kvwire.T2: answers.T2, kvwire.T3: answers.T3}
_score = answers.ReplicaScore
_by_name = attrgetter("replica_id")
_by_score = attrgetter("score")


def score(
    groups: Sequence[Group],
    place: domain.Domain,
    total: int,
    *,
    now_ns: int,
    ttl_ns: int,
    ttft_ms: int,
    all_heard: bool = False,
) -> list[answers.ReplicaScore]:
    """All fresh replicas of the groups, best first, then by name. `all_heard`: the caller saw that each is at 1."""
    found: list[answers.ReplicaScore] = []
    tight = is_tight(ttft_ms)
    outdated = now_ns - ttl_ns
    cold = any(place.colder.values())
    matching = 0
    for matched, equals in groupby(groups, _matched):
        together = list(equals)
        if all_heard and not cold:
            matching += sum(group.mask.bit_count() for group in together)
            worth = matched * distinguishing(matching, total) * (2.0 if tight else 1.0)
            for group in together:
                found += [
                    _score(
                        owner.name,
                        worth * owner.relief if owner.stats_ns > outdated else worth,
                        matched,
                        1.0,
                        answers.T1,
                    )
                    for owner, _ in place.members(group.mask)
                ]
            continue
        fresh = [
            (owner, freshness, _tier(place, group, holding))
            for group in together
            for owner, holding in place.members(group.mask)
            if (freshness := replicas.freshness(owner, now_ns, ttl_ns)) > 0
        ]
        matching += len(fresh)
        worth = matched * distinguishing(matching, total)
        for owner, freshness, tier in fresh:
            value = worth * freshness * pressure_factor(owner, outdated) * (1.0 + freshness if tight else 1.0)
            found.append(_score(owner.name, value, matched, freshness, tier))
    if len(groups) > 1:  # of one group, the members come by name
        found.sort(key=_by_name)
    found.sort(key=_by_score, reverse=True)
    return found


def _tier(place: domain.Domain, group: Group, holding: holdings.Holding) -> answers.Tier:
    """The coldest in the run; it is told, and does not rank."""
    return _TIERS[place.coldest(group.run, holding.bit)]


_matched = attrgetter("matched")


def is_tight(ttft_ms: int) -> bool:
    """An SLO that makes a fresh hit worth twice as much."""
    return 0 < ttft_ms < TIGHT_TTFT_MS


def distinguishing(matching: int, total: int) -> float:
    """How much a match says, from who else has it."""
    if total <= 1:
        return 1.0
    return 0.0 if matching >= total else 1.0 - matching / total


def pressure_factor(replica: replicas.Replica, outdated_ns: int) -> float:
    """What is left of a score under the replica's own load, if it was told after that time."""
    return replica.relief if replica.stats_ns > outdated_ns else 1.0


# Replicas that are warm for their tenant, whatever the prompt --------------------------------------------------------

HOT_NS: Final = 5 * 60 * replicas.SECOND
HOT_RATE: Final = 0.1


class Hot(NamedTuple):
    negative: float
    name: str
    hit_rate: float


def hot(serving: Sequence[replicas.Replica], *, now_ns: int, ttl_ns: int, ttft_ms: int) -> list[Hot]:
    """Replicas of the model whose own hit rate was good within five minutes, best first."""
    return sorted(_hot(serving, now_ns, ttl_ns, is_tight(ttft_ms)))


def _hot(serving: Sequence[replicas.Replica], now_ns: int, ttl_ns: int, tight: bool) -> Iterator[Hot]:
    for replica in serving:
        age = max(0, now_ns - replica.stats_ns)
        if replica.stats is None or age >= HOT_NS or replica.stats.hit_rate < HOT_RATE:
            continue
        recency = 1.0 - age / HOT_NS
        worth = replica.stats.hit_rate * recency * pressure_factor(replica, now_ns - ttl_ns)
        yield Hot(-(worth * (1.0 + recency if tight else 1.0)), replica.name, replica.stats.hit_rate)
