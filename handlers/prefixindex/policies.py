"""What CachePolicy and CacheTenant objects in the control log mean for lookups: an immutable set.

A policy concerns the tenant that is its namespace; a quota concerns the tenant that a CacheTenant names. Until a kind's
first `kind.listed`, absence means unknown and the defaults apply (`unlisted` says of which kinds; /readyz repeats it).
An object that does not decode is skipped: its last good version stays, `skipped` says why.

    several policies in a namespace   the lexicographically first name
    the same tenantID twice           the first by (namespace, name) among those with a quota
    an unparsable floor or TTL        the default, and a line in `skipped`

Rules: spec/inferencecache.md section 5; design.md section 2 (kind.listed, fold is total).
"""

import re
from typing import Any, Final, Literal

import msgspec

from crds import inferencecache
from eventstore import events, subjects
from handlers import goduration
from handlers.world import kinds

#: The tenant of the self test: invisible in answers, snapshots and limits.
RESERVED: Final = "inferencecache.io/probe"
DEFAULT_TTL_NS: Final = 30 * 60 * 1_000_000_000
DEFAULT_FLOOR: Final = 0.1
KINDS: Final = (inferencecache.CACHE_POLICIES, inferencecache.CACHE_TENANTS)

_DECIMAL = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

Name = tuple[str, str]  # namespace, name


class Policy(msgspec.Struct, frozen=True):
    """What holds for one tenant. The defaults are those of a tenant without a CachePolicy."""

    eviction: Literal["LRU", "LFU"] = "LRU"
    ttl_ns: int = DEFAULT_TTL_NS
    minimum_prefix_tokens: int = 0
    minimum_matched_tokens: int = 64
    floor: float = DEFAULT_FLOOR
    lookup_timeout_ms: int = 0  # 0: none
    chain_matching: bool = True
    require_chain: bool = False
    tenant_hot: bool = True
    affinity: bool = True


DEFAULT: Final = Policy()


class Policies(msgspec.Struct, frozen=True):
    """Objects as last seen, and what follows from them."""

    policies: dict[Name, inferencecache.CachePolicy] = {}
    tenants: dict[Name, inferencecache.CacheTenant] = {}
    listed: frozenset[str] = frozenset()
    skipped: dict[str, str] = {}  # subject -> why its newest object, or a value of it, was not used
    tenancy: dict[str, Policy] = {}  # tenant -> policy; empty until listed
    quotas: dict[str, int] = {}  # tenant -> distinct keys; empty until listed

    def of(self, tenant: str) -> Policy:
        return self.tenancy.get(tenant, DEFAULT)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Kinds that were never listed completely: their defaults apply."""
        return tuple(kind for kind in KINDS if kind not in self.listed)


#: Before anything was folded.
UNKNOWN: Final = Policies()


def fold(known: Policies, subject: str, data: events.Event) -> Policies:
    """The set after one event of the control log; events about anything else change nothing. Never raises."""
    parts = subject.split(".")
    if len(parts) < 3 or parts[0] != "wl" or parts[1] not in ("object", "kind"):
        return known
    try:
        kind, *name = map(subjects.unescape, parts[2:])
    except subjects.SubjectError:
        return known
    if kind not in KINDS:
        return known
    match data:
        case events.KindListed():
            known = msgspec.structs.replace(known, listed=known.listed | {kind})
        case events.ObjectSeen() if len(name) == 2:
            known = _seen(known, subject, kind, (name[0], name[1]), data.object)
        case events.ObjectGone() if len(name) == 2:
            known = _gone(known, subject, kind, (name[0], name[1]))
        case _:
            return known
    return _conclude(known)


def _seen(known: Policies, subject: str, kind: str, name: Name, document: dict[str, Any]) -> Policies:
    policies, tenants, skipped = known.policies, known.tenants, dict(known.skipped)
    skipped.pop(subject, None)
    value, problem = kinds.decode(kind, document)
    match value:
        case inferencecache.CachePolicy():
            policies = {**policies, name: value}
            skipped |= _doubts(subject, value.spec)
        case inferencecache.CacheTenant():
            tenants = {**tenants, name: value}
        case _:
            skipped[subject] = f"{kind} {'/'.join(name)} is not used: {problem}"
    return msgspec.structs.replace(known, policies=policies, tenants=tenants, skipped=skipped)


def _gone(known: Policies, subject: str, kind: str, name: Name) -> Policies:
    policies, tenants = dict(known.policies), dict(known.tenants)
    (policies if kind == inferencecache.CACHE_POLICIES else tenants).pop(name, None)
    skipped = {where: why for where, why in known.skipped.items() if where != subject}
    return msgspec.structs.replace(known, policies=policies, tenants=tenants, skipped=skipped)


def _doubts(subject: str, spec: inferencecache.CachePolicySpec) -> dict[str, str]:
    """Values that decode and are not used all the same."""
    found = []
    if _floor(spec.routing_floor_score) is None:
        found.append(f"routingFloorScore {spec.routing_floor_score!r} is no decimal number, {DEFAULT_FLOOR} applies")
    if spec.eviction_ttl is not None and (goduration.nanoseconds(spec.eviction_ttl) or 0) <= 0:
        found.append(f"evictionTTL {spec.eviction_ttl!r} is no duration above 0 such as 30m, 30m applies")
    return {subject: "; ".join(found)} if found else {}


def _conclude(known: Policies) -> Policies:
    """The effective set. The names are walked in order and the first one wins."""
    tenancy: dict[str, Policy] = {}
    quotas: dict[str, int] = {}
    if inferencecache.CACHE_POLICIES in known.listed:
        for namespace, name in sorted(known.policies):
            tenancy.setdefault(namespace, effective(known.policies[namespace, name].spec))
    if inferencecache.CACHE_TENANTS in known.listed:
        for who in sorted(known.tenants):
            spec = known.tenants[who].spec
            if spec.quota is not None and spec.quota.max_index_entries is not None:
                quotas.setdefault(spec.tenant_id, spec.quota.max_index_entries)
    return msgspec.structs.replace(known, tenancy=tenancy, quotas=quotas)


def effective(spec: inferencecache.CachePolicySpec) -> Policy:
    """A spec with everything that it left out or got wrong replaced by the defaults."""
    floor = _floor(spec.routing_floor_score)
    ttl = goduration.nanoseconds(spec.eviction_ttl or "")
    return Policy(
        eviction=spec.eviction,
        ttl_ns=ttl if ttl is not None and ttl > 0 else DEFAULT_TTL_NS,
        minimum_prefix_tokens=spec.minimum_prefix_tokens,
        minimum_matched_tokens=spec.minimum_matched_tokens,
        floor=DEFAULT_FLOOR if floor is None else floor,
        lookup_timeout_ms=spec.lookup_timeout_ms,
        chain_matching=spec.strategy.enable_chain_matching,
        require_chain=spec.strategy.require_chain,
        tenant_hot=spec.strategy.enable_tenant_hot,
        affinity=spec.affinity_routing == "Enabled",
    )


def _floor(text: str) -> float | None:
    """A finite number of 0 or more, or None."""
    value = float(text) if _DECIMAL.fullmatch(text) else -1.0
    return value if 0 <= value < float("inf") else None
