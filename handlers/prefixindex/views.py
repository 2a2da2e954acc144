"""The index as others see it: `/snapshot`, `index.summarised`, counters for `/metrics`.

`snapshot` is the reference's document with fields of ours added; the order is stable, the reserved tenant is left out,
and the sum of `tenants[].indexEntries` is `totalPrefixes`. Distinct keys are counted exactly; that costs a pass over
the masks only while some of them do not count (after a restart, until the sweep is through).

Not here: who may read it. Pure and total. Rules: spec/inferencecache.md section 1.7; design.md section 2.
"""

from typing import Final

import msgspec

from eventstore import envelope, events
from handlers.prefixindex import index, policies, replicas

#: RFC 3339 of Go's zero time: "never".
NEVER: Final = "0001-01-01T00:00:00Z"


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One replica. From `state` on the fields are ours."""

    replica_id: str
    tenant: str = ""
    cache_memory_bytes: int | None = None
    hit_rate: float | None = None
    pressure: float | None = None
    last_update: str  # of its statistics
    prefix_count: int | None = None
    last_event_at: str
    stats_reported: bool = False
    t2_hit_tokens: int = 0
    t2_query_tokens: int = 0
    state: str
    reason: str = ""
    model: str
    hash_scheme: str
    adapters: list[str] = []
    block_sizes: list[int] = []
    last_heard_at: str
    session: str
    keyframe_sequence: int = 0


class TenantView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    tenant_id: str
    index_entries: int
    hit_rate: float = 0.0
    hit_rate_reported: bool = False
    memory_used: int = 0
    evictions: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    replicas: list[ReplicaView]
    tenants: list[TenantView]
    total_prefixes: int
    hot_prefixes: int = 0
    position: int  # sequence of the last message of WARMLOG_KV
    incomplete: int  # replicas that are unknown or partial
    policies_known: bool


def snapshot(known: index.Index) -> Snapshot:
    """The document of `/snapshot`."""
    seen = [one for one in known.replicas() if one.tenant != policies.RESERVED and one.state != "gone"]
    entries = entries_of(known)
    members: dict[str, list[replicas.Replica]] = {tenant: [] for tenant in entries}
    for one in seen:
        members.setdefault(one.tenant, []).append(one)
    tenants = [_tenant(tenant, entries.get(tenant, 0), known, members[tenant]) for tenant in sorted(members)]
    return Snapshot(
        replicas=[_replica(one) for one in seen],
        tenants=tenants,
        total_prefixes=sum(entries.values()),
        position=known.position,
        incomplete=len(known.incomplete()),
        policies_known=not known.policies.unlisted,
    )


def entries_of(known: index.Index) -> dict[str, int]:
    """tenant -> distinct keys that count now."""
    found: dict[str, int] = {}
    for key, place in known.domains.items():
        if key.tenant != policies.RESERVED:
            found[key.tenant] = found.get(key.tenant, 0) + place.visible()
    return found


def _replica(one: replicas.Replica) -> ReplicaView:
    stats = one.stats
    holdings = one.live.holdings if one.live is not None else {}
    return ReplicaView(
        replica_id=one.name,
        tenant=one.tenant,
        cache_memory_bytes=stats.memory_bytes if stats else 0,
        hit_rate=stats.hit_rate if stats else 0.0,
        pressure=stats.pressure if stats else 0.0,
        last_update=when(one.stats_ns),
        prefix_count=sum(held.count - held.domain.hidden_of(held.bit) for held in holdings.values()),
        last_event_at=when(one.event_ns),
        stats_reported=stats is not None,
        t2_hit_tokens=stats.t2_hit_tokens if stats else 0,
        t2_query_tokens=stats.t2_query_tokens if stats else 0,
        state=one.state,
        reason=one.reason,
        model=one.model,
        hash_scheme=one.scheme,
        adapters=sorted(adapter for adapter in holdings if adapter),
        block_sizes=sorted({size for held in holdings.values() for size in held.sizes}),
        last_heard_at=when(one.heard_ns),
        session=one.session,
        keyframe_sequence=one.keyframe,
    )


def _tenant(tenant: str, entries: int, known: index.Index, members: list[replicas.Replica]) -> TenantView:
    rates = [one.stats.hit_rate for one in members if one.stats is not None]
    return TenantView(
        tenant_id=tenant,
        index_entries=entries,
        hit_rate=sum(rates) / len(rates) if rates else 0.0,
        hit_rate_reported=bool(rates),
        evictions=known.limits.tenant_evictions[tenant],
    )


def when(nanoseconds: int) -> str:
    return envelope.rfc3339(nanoseconds) if nanoseconds else NEVER


def summary(known: index.Index, *, shard: str, incarnation: str) -> events.IndexSummarised:
    """Counts per replica and tenant, rounded so that a summary changes when something did: two digits of
    blocks and keys, and when a replica was heard only once it is no longer."""
    return events.IndexSummarised(
        shard=shard,
        kv_sequence=known.position,
        kv_incarnation=incarnation,
        blocks=two_digits(known.blocks()),
        replicas=[
            events.ReplicaSummary(
                tenant=one.tenant,
                replica=one.name,
                model=one.model,
                state=one.state,
                blocks=two_digits(one.blocks),
                last_heard=when(one.heard_ns) if one.state in ("silent", "gone") else "",
                hit_rate=round(one.stats.hit_rate, 2) if one.stats else 0.0,
                keyframe=one.keyframe,
            )
            for one in known.replicas()
        ],
        tenants={tenant: two_digits(count) for tenant, count in sorted(entries_of(known).items())},
    )


def two_digits(number: int) -> int:
    """The number with all but its first two digits zeroed."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return number // unit * unit


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """For `/metrics`, all since the start of this process except the gauges."""

    messages: int
    redelivered: int
    skipped: int
    position: int  # gauge
    entries: dict[str, int]  # gauge: model -> holds that count
    replicas: dict[str, int]  # gauge: state -> how many
    domains: int  # gauge
    sweeping: int  # gauge: domains with entries of dropped holdings
    tenant_evictions: dict[str, int]
    index_evictions: dict[tuple[str, str], int]


def counters(known: index.Index) -> Counters:
    entries: dict[str, int] = {}
    for key, place in known.domains.items():
        if key.tenant != policies.RESERVED:
            entries[key.model] = entries.get(key.model, 0) + place.blocks
    states = dict.fromkeys(("complete", "partial", "unknown", "silent", "gone"), 0)
    for one in known.fleet.values():
        states[one.state] += 1
    return Counters(
        messages=known.messages,
        redelivered=known.redelivered,
        skipped=known.skipped,
        position=known.position,
        entries=entries,
        replicas=states,
        domains=len(known.domains),
        sweeping=sum(place.busy for place in known.domains.values()),
        tenant_evictions=dict(known.limits.tenant_evictions),
        index_evictions=dict(known.limits.index_evictions),
    )
