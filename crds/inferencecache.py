"""Kinds of `inferencecache.io/v1alpha1`, narrowed to what handlers read. Field names on the wire are the CRD's own.

Not here: defaults and bounds that only a server knows (handlers), kinds that no handler reads yet.
A document that breaks a bound does not decode; whoever decodes says so.

Rules: spec of the reference, CachePolicy and CacheTenant; a manifest written for it works here unchanged.
"""

from typing import Annotated, Final, Literal

import msgspec

GROUP: Final = "inferencecache.io"
VERSION: Final = "v1alpha1"

_AtLeast0 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    """Which kinds of match LookupRoute may use."""

    enable_chain_matching: bool = True
    require_chain: bool = False
    enable_tenant_hot: bool = True


class CachePolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """Durations are Go syntax; a floor is a decimal string of at most six places."""

    eviction: Literal["LRU", "LFU"] = "LRU"
    eviction_ttl: str | None = msgspec.field(default=None, name="evictionTTL")
    minimum_prefix_tokens: _AtLeast0 = 0
    minimum_matched_tokens: _AtLeast0 = 64
    routing_floor_score: str = "0.1"
    lookup_timeout_ms: _AtLeast0 = 0
    strategy: Strategy = Strategy()
    affinity_routing: Literal["Enabled", "Disabled"] = "Enabled"


class CachePolicy(msgspec.Struct, frozen=True):
    """How the prefix index answers for one namespace, which is one tenant."""

    metadata: Metadata
    spec: CachePolicySpec


class Quota(msgspec.Struct, frozen=True, rename="camel"):
    max_index_entries: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class CacheTenantSpec(msgspec.Struct, frozen=True):
    tenant_id: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="tenantID")
    quota: Quota | None = None
    isolation_mode: Literal["Fairness"] = msgspec.field(default="Fairness", name="isolationMode")


class CacheTenant(msgspec.Struct, frozen=True):
    """How many distinct keys a tenant may keep in the prefix index."""

    metadata: Metadata
    spec: CacheTenantSpec


CACHE_POLICIES: Final = f"cachepolicies.{GROUP}"
CACHE_TENANTS: Final = f"cachetenants.{GROUP}"
