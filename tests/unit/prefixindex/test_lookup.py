"""LookupRoute's steps in their order, and the cause that each answer names. Excluded: bytes (test_request), the
acceptance cases (tests/conformance)."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from eventstore import kvwire
from handlers.prefixindex import answers, keys, lookup, policies, request
from tests.support import kvspeaker

TOKENS = keys.pack_tokens(range(256))
CHAIN = keys.chain(TOKENS, 16)
NOVEL = keys.chain(keys.pack_tokens(range(1000, 1256)), 16)


class Fleet:
    """deep holds 16 blocks of 16 tokens, mid 8, flat 4."""

    def __init__(self, **policy: Any) -> None:
        self.stream = kvspeaker.Stream()
        self.speakers = {}
        for name, blocks in (("deep", 16), ("mid", 8), ("flat", 4)):
            self.speakers[name] = kvspeaker.Speaker(name).holds(CHAIN[:blocks])
            self.stream.start(self.speakers[name])
        self.policies = policies.Policies(tenancy={"t": policies.Policy(**policy)})

    def ask(self, clock: Callable[[], int] = lambda: 0, **fields: Any) -> answers.LookupResponse:
        return self.decide(clock, **fields).response

    def decide(self, clock: Callable[[], int] = lambda: 0, **fields: Any) -> lookup.Decision:
        asked = {"tenant_id": "t", "model_id": "m", "hash_scheme": "vllm", **fields}
        if "chain" in asked and "block_token_counts" not in asked:
            asked["block_token_counts"] = [16] * len(asked["chain"])
        question = request.LookupRequest(**asked)
        return lookup.decide(self.stream.index, self.policies, question, self.stream.now, clock=clock)

    def stats(self, name: str, **facts: float) -> None:
        speaker = self.speakers[name]
        self.stream.put(speaker, speaker.beat(kvwire.Stats(0.0, **facts)))  # type: ignore[arg-type]


def names(answer: answers.LookupResponse) -> list[str]:
    return [score.replica_id for score in answer.replica_scores]


def code(answer: answers.LookupResponse) -> str:
    return answer.detail.code if isinstance(answer.detail, answers.Detail) else ""


# The order of the steps ----------------------------------------------------------------------------------------------


def after(milliseconds: int) -> Callable[[], int]:
    """A clock that reads 0 first and then so much later."""
    readings = itertools.chain([0], itertools.repeat(milliseconds * 1_000_000))
    return lambda: next(readings)


ORDER: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    # name: (policy, request, reason, code); each request would also trip every step below its own
    "the reserved tenant comes first": (
        {"lookup_timeout_ms": 1},
        {"tenant_id": policies.RESERVED, "chain": CHAIN},
        "NO_HINT",
        "reserved-tenant",
    ),
    "a required chain comes before the inputs": (
        {"require_chain": True},
        {"prefix_hash": b"12345678", "prompt_text": "x"},
        "POLICY_REQUIRES_CHAIN",
        "chain-required",
    ),
    "a required chain needs its counts": (
        {"require_chain": True},
        {"chain": CHAIN, "block_token_counts": [16]},
        "POLICY_REQUIRES_CHAIN",
        "chain-required",
    ),
    "unequal arrays never become an exact match": (
        {"minimum_prefix_tokens": 10_000},
        {"chain": CHAIN, "block_token_counts": [16], "prefix_hash": keys.to_wire(CHAIN[0])},
        "NO_HINT",
        "chain-arrays-differ",
    ),
    "counts without hashes are unequal arrays too": (
        {},
        {"block_token_counts": [16], "tokens": TOKENS},
        "NO_HINT",
        "chain-arrays-differ",
    ),
    "a disabled chain alone resolves to nothing": (
        {"chain_matching": False},
        {"chain": CHAIN},
        "NO_HINT",
        "chain-disabled",
    ),
    "text needs a tokeniser": ({}, {"prompt_text": "hello"}, "NO_HINT", "no-tokeniser"),
    "text has a limit": ({}, {"prompt_text": "é" * 600_000}, "NO_HINT", "text-too-long"),
    "token ids have a limit": ({}, {"tokens": bytes(4 * 1_048_577)}, "NO_HINT", "too-many-tokens"),
    "a prompt shorter than a block says so": ({}, {"tokens": TOKENS[: 15 * 4]}, "NO_HINT", "below-granularity"),
    "too small a prompt comes before the index": (
        {"minimum_prefix_tokens": 257, "affinity": False},
        {"tenant_id": "t", "model_id": "", "chain": CHAIN},
        "NO_HINT",
        "below-minimum-prefix",
    ),
    "a missing field is no unknown tenant": ({}, {"hash_scheme": "", "chain": CHAIN}, "NO_HINT", "missing-field"),
    "an unknown model beats affinity": ({}, {"model_id": "x", "chain": CHAIN}, "UNKNOWN_MODEL", "unknown-model"),
    "an unknown scheme beats affinity": (
        {},
        {"hash_scheme": "sglang", "chain": CHAIN},
        "UNKNOWN_HASH_SCHEME",
        "unknown-hash-scheme",
    ),
    "an unknown tenant beats affinity": ({}, {"tenant_id": "x", "chain": CHAIN}, "UNKNOWN_TENANT", "unknown-tenant"),
    "an unknown adapter is an ordinary miss": (
        {"affinity": False},
        {"adapter_id": "sql", "chain": CHAIN},
        "NO_HINT",
        "miss",
    ),
    "too little matched comes before too low a score": (
        {"minimum_matched_tokens": 300, "floor": 1e9, "affinity": False},
        {"chain": CHAIN},
        "NO_HINT",
        "below-minimum-matched",
    ),
    "too low a score refuses all": ({"floor": 1e9, "affinity": False}, {"chain": CHAIN}, "NO_HINT", "below-floor"),
    "a request without inputs": ({"affinity": False}, {}, "NO_HINT", "no-input"),
    "affinity is what remains": ({"floor": 1e9}, {"chain": CHAIN}, "AFFINITY_HINT", "affinity"),
}


@pytest.mark.parametrize(("policy", "asked", "reason", "cause"), ORDER.values(), ids=ORDER)
def test_the_first_step_that_applies_answers(
    policy: dict[str, Any], asked: dict[str, Any], reason: str, cause: str
) -> None:
    fleet = Fleet(**policy)
    fleet.policies = policies.Policies(tenancy=dict.fromkeys(("t", policies.RESERVED), policies.Policy(**policy)))
    answer = fleet.ask(**asked)
    assert (answer.reason_code, code(answer)) == (reason, cause)


def test_a_passed_deadline_beats_everything_but_the_reserved_tenant() -> None:
    fleet = Fleet(lookup_timeout_ms=5, require_chain=True)
    late = fleet.ask(lambda: 5_000_000, prefix_hash=b"x")
    assert (late.reason_code, code(late), late.lookup_latency_us) == ("TIMEOUT", "deadline", "5000")
    assert fleet.ask(lambda: 4_999_999, prefix_hash=b"x").reason_code == "POLICY_REQUIRES_CHAIN"


def test_an_answer_that_comes_late_is_a_timeout_without_scores_or_credit() -> None:
    fleet = Fleet(lookup_timeout_ms=5, eviction="LFU")
    decision = fleet.decide(after(6), chain=CHAIN)
    assert (decision.response.reason_code, decision.response.replica_scores) == ("TIMEOUT", [])
    assert decision.credit is None


def test_without_a_timeout_any_clock_will_do() -> None:
    assert Fleet().ask(lambda: 10**15, chain=CHAIN).reason_code == "PREFIX_MATCH"


def test_an_empty_index_is_a_cold_start() -> None:
    fleet = Fleet()
    fleet.stream = kvspeaker.Stream()
    answer = fleet.ask(chain=CHAIN)
    assert (answer.reason_code, code(answer)) == ("NO_HINT", "cold-start")


# Inputs --------------------------------------------------------------------------------------------------------------


SAME: dict[str, dict[str, Any]] = {
    "a chain": {"chain": CHAIN},
    "a chain beside everything else": {"chain": CHAIN, "prefix_hash": b"other678", "tokens": b"\x01\x00\x00\x00" * 16},
    "token ids": {"tokens": TOKENS},
    "token ids with a partial block": {"tokens": TOKENS + bytes(8)},
    "token ids before text": {"tokens": TOKENS, "prompt_text": "hello"},
}


@pytest.mark.parametrize("asked", SAME.values(), ids=SAME)
def test_forms_of_the_same_prompt_get_the_same_ranking(asked: dict[str, Any]) -> None:
    answer = Fleet().ask(**asked)
    assert answer.reason_code == "PREFIX_MATCH"
    assert [(score.replica_id, score.matched_tokens) for score in answer.replica_scores] == [
        ("deep", 256),
        ("mid", 128),
        ("flat", 64),
    ]
    assert [score.score for score in answer.replica_scores] == pytest.approx([256 * 2 / 3, 128 / 3, 0])


def test_an_exact_key_matches_whoever_holds_it() -> None:
    fleet = Fleet()
    answer = fleet.ask(prefix_hash=keys.to_wire(CHAIN[7]), prefix_token_count=128)
    assert [(score.replica_id, score.matched_tokens) for score in answer.replica_scores] == [
        ("deep", 128),
        ("mid", 128),
    ]
    assert answer.replica_scores[0].score == pytest.approx(128 / 3)


def test_an_exact_key_without_a_count_is_worth_one_block() -> None:
    fleet = Fleet(minimum_matched_tokens=0)
    (score,) = fleet.ask(prefix_hash=keys.to_wire(CHAIN[15])).replica_scores
    assert (score.replica_id, score.matched_tokens) == ("deep", 16)


@pytest.mark.parametrize(
    "asked", [{"tokens": TOKENS}, {"prefix_hash": keys.to_wire(CHAIN[15]), "prefix_token_count": 256}]
)
def test_with_chains_disabled_only_the_last_key_counts(asked: dict[str, Any]) -> None:
    answer = Fleet(chain_matching=False).ask(**asked)
    assert [(score.replica_id, score.matched_tokens) for score in answer.replica_scores] == [("deep", 256)]


def test_with_chains_disabled_an_exact_key_beside_a_chain_is_used() -> None:
    answer = Fleet(chain_matching=False).ask(chain=CHAIN, prefix_hash=keys.to_wire(CHAIN[7]), prefix_token_count=128)
    assert names(answer) == ["deep", "mid"]


def test_counts_may_differ_from_block_to_block() -> None:
    answer = Fleet().ask(chain=CHAIN[:8], block_token_counts=[100, 1, 1, 1, 50, 50, 50, 50])
    assert [(score.replica_id, score.matched_tokens) for score in answer.replica_scores] == [
        ("deep", 303),
        ("mid", 303),
        ("flat", 103),
    ]


def test_a_key_that_is_not_8_bytes_is_nobodys() -> None:
    fleet = Fleet()
    answer = fleet.ask(chain=[*CHAIN[:8], -1, *CHAIN[9:]], odd_hashes=(b"odd",))
    assert [score.matched_tokens for score in answer.replica_scores] == [128, 128, 64]


def test_replicas_of_several_block_sizes_are_ranked_together() -> None:
    fleet = Fleet()
    wide = kvspeaker.Speaker("wide", size=64).holds(keys.chain(TOKENS, 64)[:3])
    fleet.stream.start(wide)
    answer = fleet.ask(tokens=TOKENS)
    assert [(score.replica_id, score.matched_tokens) for score in answer.replica_scores] == [
        ("deep", 256),
        ("wide", 192),
        ("mid", 128),
        ("flat", 64),
    ]
    assert [score.score for score in answer.replica_scores] == pytest.approx([256 * 3 / 4, 192 / 2, 128 / 4, 0])


def test_a_prompt_too_short_for_one_block_size_is_looked_up_in_the_others() -> None:
    fleet = Fleet(minimum_matched_tokens=0)
    fleet.stream.start(kvspeaker.Speaker("huge", size=784).holds([1]))
    assert fleet.ask(tokens=TOKENS[: 16 * 4]).reason_code == "PREFIX_MATCH"


def test_below_granularity_names_the_learned_block_size() -> None:
    stream = kvspeaker.Stream()
    stream.start(kvspeaker.Speaker("huge", size=784).holds([1]))
    fleet = Fleet()
    fleet.stream = stream
    answer = fleet.ask(tokens=TOKENS[: 240 * 4])
    assert isinstance(answer.detail, answers.Detail)
    assert "less than one block of 784" in answer.detail.text


# What follows from the ranking ---------------------------------------------------------------------------------------


def test_too_small_a_prompt_may_still_be_steered_by_affinity() -> None:
    fleet = Fleet(minimum_prefix_tokens=257)
    answer = fleet.ask(chain=CHAIN)
    assert (answer.reason_code, len(names(answer))) == ("AFFINITY_HINT", 1)
    assert fleet.ask(chain=CHAIN + NOVEL[:1]).reason_code == "PREFIX_MATCH"


def test_what_matches_too_little_is_left_out() -> None:
    assert names(Fleet(minimum_matched_tokens=128).ask(chain=CHAIN)) == ["deep", "mid"]
    assert names(Fleet(minimum_matched_tokens=0).ask(chain=CHAIN)) == ["deep", "mid", "flat"]


def test_pressure_lowers_a_score_and_can_turn_the_order() -> None:
    fleet = Fleet()
    fleet.stats("deep", pressure=0.9)
    answer = fleet.ask(chain=CHAIN)
    assert names(answer) == ["mid", "deep", "flat"]
    assert answer.replica_scores[1].score == pytest.approx(256 * 2 / 3 * 0.1)


def test_pressure_older_than_the_ttl_is_not_believed() -> None:
    fleet = Fleet(ttl_ns=60 * kvspeaker.SECOND)
    fleet.stats("deep", pressure=0.9)
    for _ in range(6):
        fleet.stream.now += 10 * kvspeaker.SECOND
        for speaker in fleet.speakers.values():
            fleet.stream.put(speaker, speaker.beat())
    assert fleet.ask(chain=CHAIN).replica_scores[0].score == pytest.approx(256 * 2 / 3)


def test_a_tight_slo_doubles_a_fresh_hit() -> None:
    one, two = (Fleet().ask(chain=CHAIN, ttft_ms=slo).replica_scores[0].score for slo in (200, 199))
    assert two == 2 * one


def test_silent_replicas_decay_and_then_leave_the_answer() -> None:
    fleet = Fleet(ttl_ns=100 * kvspeaker.SECOND, floor=0)
    fleet.stream.now += 50 * kvspeaker.SECOND
    for name in ("mid", "flat"):
        fleet.stream.put(fleet.speakers[name], fleet.speakers[name].beat())
    answer = fleet.ask(chain=CHAIN, ttft_ms=100)
    deep = next(score for score in answer.replica_scores if score.replica_id == "deep")
    assert deep.estimated_cache_hit_prob == pytest.approx(0.5)
    assert deep.score == pytest.approx(256 * 2 / 3 * 0.5 * 1.5)
    fleet.stream.now += 50 * kvspeaker.SECOND
    for name in ("mid", "flat"):
        fleet.stream.put(fleet.speakers[name], fleet.speakers[name].beat())
    answer = fleet.ask(chain=CHAIN)
    assert names(answer) == ["mid", "flat"]
    assert answer.replica_scores[0].score == pytest.approx(128 / 2), "one that is not heard counts in no total"


def test_when_nobody_is_heard_the_answer_says_so() -> None:
    fleet = Fleet(ttl_ns=100 * kvspeaker.SECOND)
    fleet.stream.now += 200 * kvspeaker.SECOND
    answer = fleet.ask(chain=CHAIN)
    assert (answer.reason_code, code(answer)) == ("NO_HINT", "not-heard")


def test_a_replica_that_is_unknown_counts_nowhere_and_the_miss_mentions_it() -> None:
    fleet = Fleet(affinity=False)
    fleet.speakers["deep"].ops({1: 1})
    fleet.stream.put(fleet.speakers["deep"], fleet.speakers["deep"].beat())
    assert names(fleet.ask(chain=CHAIN)) == ["mid", "flat"]
    answer = fleet.ask(chain=NOVEL)
    assert isinstance(answer.detail, answers.Detail)
    assert (answer.detail.code, "of 1 replicas it is not known" in answer.detail.text) == ("miss", True)


def test_the_tier_is_told_and_does_not_rank() -> None:
    fleet = Fleet()
    fleet.stream.put(fleet.speakers["deep"], fleet.speakers["deep"].ops({CHAIN[3]: 4, CHAIN[2]: 2}))
    answer = fleet.ask(chain=CHAIN)
    assert [(score.replica_id, score.tier) for score in answer.replica_scores] == [
        ("deep", answers.T3),
        ("mid", answers.T1),
        ("flat", answers.T1),
    ]


def test_a_warm_tenant_is_hinted_only_without_a_chain() -> None:
    fleet = Fleet(affinity=False)
    fleet.stats("mid", hit_rate=0.4)
    fleet.stats("flat", hit_rate=0.8, pressure=0.75)
    fleet.stats("deep", hit_rate=0.09)
    answer = fleet.ask(prefix_hash=b"nobody's")
    assert answer.reason_code == "TENANT_HOT"
    assert [(score.replica_id, score.score, score.estimated_cache_hit_prob) for score in answer.replica_scores] == [
        ("mid", pytest.approx(0.4), pytest.approx(0.4)),
        ("flat", pytest.approx(0.2), pytest.approx(0.8)),
    ]
    assert fleet.ask(chain=NOVEL).reason_code == "NO_HINT"
    assert fleet.ask(tokens=keys.pack_tokens(range(900, 932))).reason_code == "NO_HINT"


def test_a_warm_tenant_cools_in_five_minutes() -> None:
    fleet = Fleet(affinity=False)
    fleet.stats("mid", hit_rate=0.4)
    fleet.stream.now += 150 * kvspeaker.SECOND
    assert fleet.ask(prefix_hash=b"nobody's").replica_scores[0].score == pytest.approx(0.2)
    fleet.stream.now += 150 * kvspeaker.SECOND
    assert code(fleet.ask(prefix_hash=b"nobody's")) == "miss"


def test_warm_tenants_can_be_disabled() -> None:
    fleet = Fleet(tenant_hot=False, affinity=False)
    fleet.stats("mid", hit_rate=0.4)
    assert code(fleet.ask(prefix_hash=b"nobody's")) == "tenant-hot-disabled"


def test_affinity_is_steady_and_among_those_that_serve() -> None:
    fleet = Fleet()
    (first,) = names(fleet.ask(chain=NOVEL))
    assert {tuple(names(fleet.ask(chain=NOVEL))) for _ in range(5)} == {(first,)}
    assert names(fleet.ask(tokens=keys.pack_tokens(range(1000, 1256)))) == [first], "token ids are their chain"
    answer = fleet.ask(chain=NOVEL).replica_scores[0]
    assert (answer.score, answer.matched_tokens, answer.tier) == (0.0, 0, "CACHE_TIER_UNSPECIFIED")
    fleet.stream.put(fleet.speakers[first], fleet.speakers[first].bye())
    assert names(fleet.ask(chain=NOVEL)) != [first]


def test_the_adapter_is_echoed_once_the_index_was_asked() -> None:
    fleet = Fleet()
    assert fleet.ask(adapter_id="sql", chain=CHAIN).adapter_id == "sql"
    assert fleet.ask(adapter_id="sql", prompt_text="x").adapter_id == ""


# Credit and explain --------------------------------------------------------------------------------------------------


def test_a_delivered_match_earns_credit_where_the_policy_is_lfu() -> None:
    fleet = Fleet(eviction="LFU", minimum_matched_tokens=128)
    credit = fleet.decide(chain=CHAIN).credit
    assert credit is not None
    assert {name: len(run) for name, run in credit.holds} == {"deep": 16, "mid": 8}, "surviving replicas, their runs"
    fleet.stream.index.credit(credit)
    place = fleet.stream.index.domain_of("t", "m", "vllm", "")
    assert place is not None
    assert sum(sum(counts.values()) for counts in place.visibility.credits.values()) == 24
    assert fleet.decide(chain=NOVEL).credit is None
    assert Fleet().decide(chain=CHAIN).credit is None


def test_credit_that_comes_too_late_is_for_nobody() -> None:
    fleet = Fleet(eviction="LFU")
    credit = fleet.decide(chain=CHAIN).credit
    assert credit is not None
    fleet.stream.put(fleet.speakers["deep"], fleet.speakers["deep"].ops({CHAIN[0]: 0}))
    fleet.stream.put(fleet.speakers["mid"], fleet.speakers["mid"].bye())
    fleet.stream.index.credit(credit)
    place = fleet.stream.index.domain_of("t", "m", "vllm", "")
    assert place is not None
    assert sum(sum(counts.values()) for counts in place.visibility.credits.values()) == 15 + 4
    fleet.stream.index.credit(msgspec.structs.replace(credit, domain=credit.domain._replace(model="gone")))


def test_explain_says_of_every_replica_why() -> None:
    fleet = Fleet(minimum_matched_tokens=100)
    fleet.stats("mid", pressure=0.5)
    lost = kvspeaker.Speaker("lost").holds(CHAIN)
    fleet.stream.put(lost, lost.begin())
    fleet.stream.start(kvspeaker.Speaker("other").holds([5]))
    answer = fleet.ask(chain=CHAIN, explain=True)
    assert not isinstance(answer.explain, msgspec.UnsetType)
    facts = {one.replica_id: one for one in answer.explain}
    assert list(facts) == sorted(facts)
    assert {name: one.excluded for name, one in facts.items()} == {
        "deep": "",
        "flat": "matches less than minimumMatchedTokens of 100",
        "lost": "unknown: keyframe 0 under way (start)",
        "mid": "",
        "other": "holds no leading block of this prompt",
    }
    mid = facts["mid"]
    assert (mid.matched_tokens, mid.blocks, mid.state) == (128, 8, "complete")
    product = mid.matched_tokens * mid.freshness * mid.pressure_factor * mid.slo_bias * mid.distinguishing_power
    assert mid.score == pytest.approx(product)
    assert mid.score == pytest.approx(next(s.score for s in answer.replica_scores if s.replica_id == "mid"))
    assert isinstance(fleet.ask(chain=CHAIN).explain, msgspec.UnsetType)
