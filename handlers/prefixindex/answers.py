"""The public answer of LookupRoute, as data and as bytes.

Rules: spec/inferencecache.md section 1.2; design.md section 4.
"""

from typing import Final, Literal

import msgspec

Tier = Literal["CACHE_TIER_UNSPECIFIED", "CACHE_TIER_T1", "CACHE_TIER_T2", "CACHE_TIER_T3"]
T1: Final = "CACHE_TIER_T1"
T2: Final = "CACHE_TIER_T2"
T3: Final = "CACHE_TIER_T3"
Reason = Literal[
    "PREFIX_MATCH",
    "TENANT_HOT",
    "AFFINITY_HINT",
    "NO_HINT",
    "POLICY_REQUIRES_CHAIN",
    "TIMEOUT",
    "UNKNOWN_TENANT",
    "UNKNOWN_MODEL",
    "UNKNOWN_HASH_SCHEME",
]


class ReplicaScore(msgspec.Struct, frozen=True, gc=False):
    replica_id: str
    score: float = 0.0
    matched_tokens: int = 0
    estimated_cache_hit_prob: float = 0.0
    tier: Tier = "CACHE_TIER_UNSPECIFIED"


class Detail(msgspec.Struct, frozen=True):
    """Which of the causes behind a reason code it was: `code` is stable, `text` is for people."""

    code: str
    text: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of one replica, and how its score came about. Only with `explain`."""

    replica_id: str
    state: str
    matched_tokens: int = 0
    blocks: int = 0
    freshness: float = 0.0
    pressure_factor: float = 0.0
    slo_bias: float = 0.0
    distinguishing_power: float = 0.0
    score: float = 0.0
    excluded: str = ""  # why it is not in the answer


class LookupResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`lookup_latency_us` is an int64 and therefore a string in JSON. `detail`, `explain` and `position` are ours; the
    last two come only with `explain`. `position` is how much of WARMLOG_KV was known, as incarnation:sequence."""

    replica_scores: list[ReplicaScore] = []
    reason_code: Reason
    lookup_latency_us: str = "0"
    adapter_id: str = ""
    detail: Detail | msgspec.UnsetType = msgspec.UNSET
    explain: list[Facts] | msgspec.UnsetType = msgspec.UNSET
    position: str | msgspec.UnsetType = msgspec.UNSET


encode = msgspec.json.Encoder().encode
