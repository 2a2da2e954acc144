"""Why each replica is in an answer or is not: asked for with `explain`, at whatever it costs.

Pure and total. Not here: the answer itself (lookup.py). Rules: spec/inferencecache.md section 1.5.
"""

from handlers.prefixindex import answers, question, ranking, replicas


def facts(look: question.Lookup, found: question.Answer) -> list[answers.Facts]:
    """Every replica of the model, whether it is in the answer, and if not, why not."""
    asked = look.asked
    answered = {one.replica_id for one in found.scores}
    scored = {one.replica_id: one for one in look.ranked}
    found_of = []
    for replica in look.index.roster.group(asked.tenant_id, asked.model_id, asked.hash_scheme):
        fresh = replicas.freshness(replica, look.now_ns, look.policy.ttl_ns)
        one = scored.get(replica.name)
        excluded = ""
        if replica.name not in answered:
            excluded = _excluded(look, found, replica, fresh, one)
        found_of.append(
            answers.Facts(
                replica_id=replica.name,
                state=replica.state,
                matched_tokens=one.matched_tokens if one else 0,
                blocks=replica.blocks,
                freshness=fresh,
                pressure_factor=ranking.pressure_factor(replica, look.now_ns - look.policy.ttl_ns),
                slo_bias=1.0 + fresh if ranking.is_tight(asked.ttft_ms) else 1.0,
                distinguishing_power=_power(look, one.matched_tokens) if one else 0.0,
                score=one.score if one else 0.0,
                excluded=excluded,
            )
        )
    return found_of


def _power(look: question.Lookup, matched: int) -> float:
    """Distinguishing power of those that match so much."""
    matching = sum(1 for one in look.ranked if one.matched_tokens >= matched)
    return ranking.distinguishing(matching, len(look.serving))


def _excluded(
    look: question.Lookup,
    found: question.Answer,
    replica: replicas.Replica,
    fresh: float,
    one: answers.ReplicaScore | None,
) -> str:
    if replica.live is None:
        return f"{replica.state}: {replica.reason}"
    if fresh <= 0:
        return "not heard within the TTL"
    if one is None:
        return "holds no leading block of this prompt" if look.consulted else "the index was not asked"
    if one.matched_tokens < look.policy.minimum_matched_tokens:
        return f"matches less than minimumMatchedTokens of {look.policy.minimum_matched_tokens}"
    return found.detail.code if found.detail is not None else ""
