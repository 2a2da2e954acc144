"""LookupRoute: who should get this prompt, and why. One function behind HTTP, NATS and the command line.

A chain of small steps in the contract's order; the first that settles the answer ends it. A well-formed question always
gets an answer: a reason code and, when the answer holds no scores, a `detail` that says which cause it was.

    reserved tenant > late > chain required > inputs > too small a prompt > index > late > warm tenants allowed?
    > too little matched > too low a score > affinity

Pure: `now_ns` is the time of the index (nanoseconds since the epoch), `clock` a monotonic reading in nanoseconds that
the edge lends for deadlines and latency. What a delivered match earns its blocks comes back as `Credit`, to be applied
by whoever delivered it (`Index.credit`).

Not here: bytes (request.py, answers.py), scores (ranking.py), the pick of a cold prompt (affinity.py).
Rules: spec/inferencecache.md sections 1.3 to 1.5; IDX-07.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from handlers.prefixindex import (
    affinity,
    answers,
    explain,
    index,
    policies,
    question,
    ranking,
    replicas,
    request,
)

Clock = question.Clock
Credit = question.Credit


class Decision(msgspec.Struct, frozen=True):
    response: answers.LookupResponse
    credit: Credit | None = None


def decide(
    known: index.Index,
    governed: policies.Policies,
    asked: request.LookupRequest,
    now_ns: int,
    *,
    started_ns: int = 0,
    clock: question.Clock = lambda: 0,
) -> Decision:
    """The answer. `started_ns` is the clock's reading when the question came in."""
    policy = governed.of(asked.tenant_id)
    budget = policy.lookup_timeout_ms * 1_000_000
    look = question.Lookup(
        known, policy, asked, now_ns, deadline_ns=started_ns + budget if budget else None, clock=clock
    )
    for step in STEPS:
        if (found := step(look)) is not None:
            break
    else:
        raise AssertionError("the last step always answers")
    latency = 0 if asked.tenant_id == policies.RESERVED else max(0, clock() - started_ns) // 1000
    response = answers.LookupResponse(
        replica_scores=found.scores,
        reason_code=found.reason,
        lookup_latency_us=str(latency),
        adapter_id=asked.adapter_id if look.consulted else "",
        detail=found.detail or msgspec.UNSET,
        explain=explain.facts(look, found) if asked.explain else msgspec.UNSET,
    )
    return Decision(response, found.credit)


# The index and after -------------------------------------------------------------------------------------------------


def consult(look: question.Lookup) -> question.Answer | None:
    """Walk and rank. Answers only when the question names no place to look."""
    asked = look.asked
    if not (asked.tenant_id and asked.model_id and asked.hash_scheme):
        absent = [name for name in ("tenant_id", "model_id", "hash_scheme") if not getattr(asked, name)]
        return question.no("missing-field", f"{', '.join(absent)} must not be empty")
    look.consulted = True
    ttl = look.policy.ttl_ns
    look.serving = look.index.roster.serving(asked.tenant_id, asked.model_id, asked.hash_scheme)
    all_heard = replicas.all_heard(look.serving, look.now_ns)
    if not all_heard:
        look.serving = [one for one in look.serving if replicas.freshness(one, look.now_ns, ttl) > 0]
    if look.place is not None and look.inputs.probes:
        look.groups = ranking.depths(look.place, look.inputs.probes)
        look.ranked = ranking.score(
            look.groups,
            look.place,
            len(look.serving),
            now_ns=look.now_ns,
            ttl_ns=ttl,
            ttft_ms=asked.ttft_ms,
            all_heard=all_heard,
        )
    return None


def answer(look: question.Lookup) -> question.Answer:
    """A match, warm replicas, a diagnosis; or nothing of the kind, and then perhaps a hint by affinity."""
    found = prefix_match(look) if look.ranked else tenant_hot(look) or diagnosis(look) or miss(look)
    if look.small and found.scores:
        found = question.too_small(look)
    if found.reason == "NO_HINT" and look.policy.affinity:
        return affinity_hint(look) or found
    return found


def prefix_match(look: question.Lookup) -> question.Answer:
    """What is left of the ranking after the policy's two floors."""
    policy, ranked = look.policy, look.ranked
    wanted = policy.minimum_matched_tokens
    if look.groups[-1].matched < wanted:
        ranked = [one for one in ranked if one.matched_tokens >= wanted]
        if not ranked:
            best = max(one.matched_tokens for one in look.ranked)
            return question.no(
                "below-minimum-matched", f"at most {best} tokens match, minimumMatchedTokens is {wanted}"
            )
    top = ranked[0].score
    if top < policy.floor:
        return question.no("below-floor", f"the best score {top:.3f} is below routingFloorScore {policy.floor:g}")
    return question.Answer("PREFIX_MATCH", None, ranked, credit(look, ranked) if policy.eviction == "LFU" else None)


def credit(look: question.Lookup, ranked: Sequence[answers.ReplicaScore]) -> Credit:
    """The holds behind an answer."""
    place = look.place
    assert place is not None
    names = {one.replica_id for one in ranked}
    return Credit(
        place.key,
        tuple(
            (owner.name, tuple(group.run))
            for group in look.groups
            for owner, _ in place.members(group.mask)
            if owner.name in names
        ),
    )


def tenant_hot(look: question.Lookup) -> question.Answer | None:
    """A request without a chain that matched nothing may still go where its tenant is warm."""
    if look.inputs.chained:
        return None
    asked = look.asked
    warm = ranking.hot(look.serving, now_ns=look.now_ns, ttl_ns=look.policy.ttl_ns, ttft_ms=asked.ttft_ms)
    if not warm:
        return None
    if not look.policy.tenant_hot:
        return question.no("tenant-hot-disabled", f"{len(warm)} replicas are warm, but enableTenantHot is false")
    scores = [answers.ReplicaScore(one.name, -one.negative, estimated_cache_hit_prob=one.hit_rate) for one in warm]
    return question.Answer("TENANT_HOT", None, scores)


def diagnosis(look: question.Lookup) -> question.Answer | None:
    """Does the index know this tenant, model and scheme at all? An empty index knows nobody: a cold start."""
    asked = look.asked
    if look.index.roster.serving(asked.tenant_id, asked.model_id, asked.hash_scheme):
        return None
    tenant = look.index.roster.known(asked.tenant_id)
    if not tenant and look.index.roster.cold():
        return question.no("cold-start", "no replica has reported any block yet")
    if not tenant:
        return question.no(
            "unknown-tenant", f"no replica of tenant {asked.tenant_id!r} holds blocks", reason="UNKNOWN_TENANT"
        )
    schemes = [scheme for model, scheme in tenant if model == asked.model_id]
    if not schemes:
        return question.no(
            "unknown-model", f"no replica of model {asked.model_id!r} holds blocks", reason="UNKNOWN_MODEL"
        )
    text = f"model {asked.model_id!r} is served under hash_scheme {', '.join(map(repr, schemes))} only"
    return question.no("unknown-hash-scheme", text, reason="UNKNOWN_HASH_SCHEME")


def miss(look: question.Lookup) -> question.Answer:
    if not look.serving:
        return question.no("not-heard", "no replica that held anything has been heard within the policy's evictionTTL")
    if not look.inputs.probes:
        return question.no("no-input", "the request holds no keys, token ids or text")
    asked = look.asked
    unsure = look.index.roster.unsure(asked.tenant_id, asked.model_id, asked.hash_scheme)
    text = "no replica holds the first block of this prompt" if look.inputs.chained else "no replica holds this key"
    return question.no("miss", f"{text}; of {unsure} replicas it is not known" if unsure else text)


def affinity_hint(look: question.Lookup) -> question.Answer | None:
    """The same cold prompt goes to the same replica."""
    asked = look.asked
    if not look.consulted or len(asked.chain) != len(asked.block_token_counts):
        return None
    seed = look.inputs.seed()
    name = affinity.pick(seed, (replica.name for replica in look.serving)) if seed else None
    if name is None:
        return None
    detail = answers.Detail("affinity", "no replica stands out for this prompt; equal prompts get this one")
    return question.Answer("AFFINITY_HINT", detail, [answers.ReplicaScore(name)])


#: In the contract's order. The last one always answers.
STEPS: Final[Sequence[question.Step]] = (
    question.reserved_tenant,
    question.late,
    question.chain_required,
    question.resolve,
    question.prompt_too_small,
    consult,
    question.late,
    answer,
)
