"""Kinds of `inferencecache.io/v1alpha1`, narrowed to what handlers read. Field names on the wire are the CRD's own.

Not here: defaults and bounds that only a server knows (handlers), kinds that no handler reads yet.
A document that breaks a bound does not decode; whoever decodes says so.

Rules: spec of the reference, CachePolicy and CacheTenant; a manifest written for it works here unchanged.
"""

from typing import Annotated, ClassVar, Final, Literal

import msgspec

from crds import meta
from crds.meta import Condition
from crds.schema import Is, Rule

GROUP: Final = "inferencecache.io"
VERSION: Final = "v1alpha1"

_AtLeast0 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_FLOOR: Final = r"^(0|[1-9][0-9]{0,7})(\.[0-9]{1,6})?$"


class Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    """Which kinds of match LookupRoute may use."""

    enable_chain_matching: Annotated[bool, Is(default=True)] = True
    require_chain: Annotated[bool, Is(default=False)] = False
    enable_tenant_hot: Annotated[bool, Is(default=True)] = True

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!self.requireChain || self.enableChainMatching",
            "requireChain needs enableChainMatching",
            ".requireChain",
        ),
    )


class CachePolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """Durations are Go syntax; a floor is a decimal string of at most six places."""

    eviction: Annotated[Literal["LRU", "LFU"], Is(doc="What goes first when the index is full.", default="LRU")] = "LRU"
    eviction_ttl: Annotated[str | None, Is(doc="How long a silent replica's blocks count; 30m when unset.")] = (
        msgspec.field(default=None, name="evictionTTL")
    )
    minimum_prefix_tokens: _AtLeast0 = 0
    minimum_matched_tokens: Annotated[
        int, msgspec.Meta(ge=0, le=2**31 - 1), Is(minimum=0, maximum=2**31 - 1, default=64)
    ] = 64
    routing_floor_score: Annotated[str, Is(doc="Least score of the best replica.", pattern=_FLOOR, default="0.1")] = (
        "0.1"
    )
    lookup_timeout_ms: _AtLeast0 = 0
    strategy: Strategy = Strategy()
    affinity_routing: Annotated[Literal["Enabled", "Disabled"], Is(default="Enabled")] = "Enabled"


class CachePolicy(msgspec.Struct, frozen=True):
    """How the prefix index answers for one namespace, which is one tenant."""

    metadata: Metadata
    spec: CachePolicySpec


class Quota(msgspec.Struct, frozen=True, rename="camel"):
    max_index_entries: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class CacheTenantSpec(msgspec.Struct, frozen=True):
    tenant_id: Annotated[str, msgspec.Meta(min_length=1), Is(min_length=1, required=True)] = msgspec.field(
        name="tenantID"
    )
    quota: Quota | None = None
    isolation_mode: Annotated[Literal["Fairness"], Is(default="Fairness")] = msgspec.field(
        default="Fairness", name="isolationMode"
    )
    crypto: Annotated[dict[str, str] | None, Is(doc="Reserved; must be empty.", max_properties=0)] = None


class ReservedStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Reserved; nothing writes it yet."""

    observed_generation: Annotated[int | None, Is(format="int64")] = None
    conditions: Annotated[list[Condition] | None, Is(map_keys=("type",))] = None


class CacheTenantStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    observed_generation: Annotated[int | None, Is(format="int64")] = None
    index_entries: Annotated[int | None, Is(doc="Distinct keys that it has now.", format="int64")] = None
    conditions: Annotated[list[Condition] | None, Is(map_keys=("type",))] = None


class CacheTenant(msgspec.Struct, frozen=True):
    """How many distinct keys a tenant may keep in the prefix index."""

    metadata: meta.Metadata
    spec: CacheTenantSpec
    status: CacheTenantStatus = CacheTenantStatus()


CACHE_POLICIES: Final = f"cachepolicies.{GROUP}"
CACHE_TENANTS: Final = f"cachetenants.{GROUP}"


# Kinds that nothing reads yet: their schemas are the contract's -----------------------------------------------------


class CacheIndexSpec(msgspec.Struct, frozen=True):
    """Empty: the object is made by the controller."""


class IndexReplica(msgspec.Struct, frozen=True, rename="camel"):
    id: Annotated[str, Is(required=True)] = ""
    tenant: str = ""
    cache_memory_bytes: Annotated[int, Is(format="int64")] = 0
    hit_rate: str | None = None
    pressure: str = ""
    last_update: Annotated[str | None, Is(format="date-time")] = None


class IndexTenant(msgspec.Struct, frozen=True, rename="camel"):
    id: Annotated[str, Is(required=True)] = ""
    index_entries: Annotated[int | None, Is(format="int64")] = None
    hit_rate: str | None = None
    memory_used: Annotated[int, Is(doc="Deprecated; always 0.", format="int64")] = 0


class PrefixSummary(msgspec.Struct, frozen=True):
    total: Annotated[int, Is(format="int64")] = 0
    hot: Annotated[int, Is(format="int64")] = 0


class Prefixes(msgspec.Struct, frozen=True):
    summary: PrefixSummary | None = None


class CacheIndexStatus(msgspec.Struct, frozen=True, rename="camel"):
    replicas: Annotated[list[IndexReplica] | None, Is(map_keys=("id",))] = None
    tenants: list[IndexTenant] | None = None
    prefixes: Prefixes | None = None
    observed_server: str = ""
    last_updated: Annotated[str | None, Is(format="date-time")] = None


class Pool(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, Is(min_length=1, required=True)] = ""
    match_labels: dict[str, str] | None = None
    replicas: Annotated[int | None, Is(minimum=0, format="int32")] = None
    accelerator_type: str = ""


class AcceleratorType(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, Is(min_length=1, required=True)] = ""
    vendor: str = ""
    model: str = ""
    match_labels: dict[str, str] | None = None


class PDTopologySpec(msgspec.Struct, frozen=True, rename="camel"):
    prefill_pools: Annotated[list[Pool] | None, Is(map_keys=("name",))] = None
    decode_pools: Annotated[list[Pool] | None, Is(map_keys=("name",))] = None
    accelerator_types: Annotated[list[AcceleratorType] | None, Is(map_keys=("name",))] = None


class Slot(msgspec.Struct, frozen=True):
    name: Annotated[str, Is(min_length=1, required=True)] = ""
    type: Annotated[str, Is(enum=("Stable", "Mutable"), required=True)] = ""
    required: bool = False
    description: str = ""


class PromptTemplateSpec(msgspec.Struct, frozen=True):
    body: Annotated[str, Is(doc="The template's text.", min_length=1, required=True)] = ""
    slots: Annotated[list[Slot] | None, Is(map_keys=("name",))] = None


class PromptTemplateStatus(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: Annotated[int | None, Is(format="int64")] = None
    template_revision: str = ""
    conditions: Annotated[list[Condition] | None, Is(map_keys=("type",))] = None
