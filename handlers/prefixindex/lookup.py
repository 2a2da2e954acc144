"""LookupRoute: who should get this prompt, and why. One function behind HTTP, NATS and the command line.

A chain of small steps in the contract's order; the first that settles the answer ends it. A well-formed question always
gets an answer: a reason code and, when the answer holds no scores, a `detail` that says which cause it was.

    reserved tenant > late > chain required > inputs > too small a prompt > index > late > warm tenants allowed?
    > too little matched > too low a score > affinity

Pure: `now_ns` is the time of the index (nanoseconds since the epoch), `clock` a monotonic reading in nanoseconds that
the edge lends for deadlines and latency. What a delivered match earns its blocks comes back as `Credit`, to be applied
by whoever delivered it (`Index.credit`).

Not here: bytes (request.py), scores (ranking.py), the pick of a cold prompt (affinity.py).
Rules: spec/inferencecache.md sections 1.3 to 1.5; IDX-07.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from eventstore import kvwire
from handlers.prefixindex import affinity, domain, index, keys, policies, ranking, replicas, request

MAX_TOKENS: Final = 1_048_576
MAX_TEXT: Final = 1 << 20  # bytes
DEFAULT_BLOCK: Final = 16  # while nobody serves the model, for the affinity of its first prompts
_TIERS: Final[dict[int, request.Tier]] = {kvwire.T1: request.T1, kvwire.T2: request.T2, kvwire.T3: request.T3}
_score = request.ReplicaScore

Clock = Callable[[], int]
Step = Callable[["Lookup"], "Answer | None"]


class Credit(msgspec.Struct, frozen=True):
    """Holds that a delivered match was built on."""

    domain: domain.DomainKey
    holds: tuple[tuple[str, tuple[int, ...]], ...]  # replica, keys


class Decision(msgspec.Struct, frozen=True):
    response: request.LookupResponse
    credit: Credit | None = None


class Inputs(msgspec.Struct, frozen=True):
    """What a request asks for, once precedence is settled."""

    probes: list[ranking.Probe] = []
    tokens: int = 0  # whole blocks of token_ids
    chained: bool = False
    odd_hashes: tuple[bytes, ...] = ()  # the chain as bytes, when one of its keys is not 8 bytes
    exact: bytes = b""

    def seed(self) -> bytes:
        """What affinity hashes: the chain, of the smallest block size, else the exact key."""
        if self.odd_hashes or not self.chained:
            return affinity.seed(self.odd_hashes, self.exact)
        return affinity.seed_of(self.probes[0].keys)


class Answer(msgspec.Struct, frozen=True):
    """What a step settled."""

    reason: request.Reason
    detail: request.Detail | None = None
    scores: list[request.ReplicaScore] = []
    credit: Credit | None = None


class Lookup:
    """One question on its way through the steps, and what they found out so far."""

    def __init__(
        self,
        known: index.Index,
        policy: policies.Policy,
        asked: request.LookupRequest,
        now_ns: int,
        *,
        deadline_ns: int | None,
        clock: Clock,
    ) -> None:
        self.index = known
        self.policy = policy
        self.asked = asked
        self.now_ns = now_ns
        self.deadline_ns = deadline_ns
        self.clock = clock
        self.place: domain.Domain | None = None
        self.inputs = Inputs()
        self.consulted = False  # the index was asked
        self.serving: list[replicas.Replica] = []
        self.groups: list[ranking.Group] = []
        self.ranked: list[ranking.Scored] = []
        self.small = False  # below minimumPrefixTokens: only affinity may answer


def decide(
    known: index.Index,
    governed: policies.Policies,
    asked: request.LookupRequest,
    now_ns: int,
    *,
    started_ns: int = 0,
    clock: Clock = lambda: 0,
) -> Decision:
    """The answer. `started_ns` is the clock's reading when the question came in."""
    policy = governed.of(asked.tenant_id)
    budget = policy.lookup_timeout_ms * 1_000_000
    look = Lookup(known, policy, asked, now_ns, deadline_ns=started_ns + budget if budget else None, clock=clock)
    found = next(answer for step in STEPS if (answer := step(look)) is not None)
    latency = 0 if asked.tenant_id == policies.RESERVED else max(0, clock() - started_ns) // 1000
    response = request.LookupResponse(
        replica_scores=found.scores,
        reason_code=found.reason,
        lookup_latency_us=str(latency),
        adapter_id=asked.adapter_id if look.consulted else "",
        detail=found.detail or msgspec.UNSET,
        explain=explain(look, found) if asked.explain else msgspec.UNSET,
    )
    return Decision(response, found.credit)


def no(code: str, text: str, *, reason: request.Reason = "NO_HINT") -> Answer:
    """An answer without scores: the client routes as if it had not asked."""
    return Answer(reason, request.Detail(code, text))


# Steps before the index ----------------------------------------------------------------------------------------------


def reserved_tenant(look: Lookup) -> Answer | None:
    """The self test's tenant is nobody's."""
    if look.asked.tenant_id == policies.RESERVED:
        return no("reserved-tenant", f"tenant {policies.RESERVED} is reserved for the self test")
    return None


def late(look: Lookup) -> Answer | None:
    """Beats every other answer, before and after the index was asked."""
    if look.deadline_ns is not None and look.clock() >= look.deadline_ns:
        text = f"lookupTimeoutMs of {look.policy.lookup_timeout_ms} ms has passed"
        return no("deadline", text, reason="TIMEOUT")
    return None


def chain_required(look: Lookup) -> Answer | None:
    asked = look.asked
    if look.policy.require_chain and not (asked.chain and len(asked.chain) == len(asked.block_token_counts)):
        text = "the policy requires block_hashes with as many block_token_counts"
        return no("chain-required", text, reason="POLICY_REQUIRES_CHAIN")
    return None


def resolve(look: Lookup) -> Answer | None:
    """Which of the inputs counts: explicit keys before token ids before text."""
    asked = look.asked
    look.place = look.index.domain_of(asked.tenant_id, asked.model_id, asked.hash_scheme, asked.adapter_id)
    chained = bool(asked.chain or asked.block_token_counts)
    if chained and look.policy.chain_matching:
        return _explicit_chain(look)
    if asked.prefix_hash:
        matched = asked.prefix_token_count or (min(look.place.sizes, default=0) if look.place else 0)
        probe = ranking.Probe([keys.from_wire(asked.prefix_hash)], [matched], exact=True)
        look.inputs = Inputs([probe], exact=asked.prefix_hash)
        return None
    if asked.tokens:
        return _token_ids(look)
    if asked.prompt_text:
        if len(asked.prompt_text.encode(errors="surrogatepass")) > MAX_TEXT:
            return no("text-too-long", f"prompt_text is longer than {MAX_TEXT} bytes")
        return no("no-tokeniser", "this server has no tokeniser; send token_ids or block_hashes")
    if chained:
        return no("chain-disabled", "the policy disables chain matching and the request holds nothing else")
    return None


def _explicit_chain(look: Lookup) -> Answer | None:
    asked = look.asked
    if len(asked.chain) != len(asked.block_token_counts):
        text = (
            f"{len(asked.chain)} block_hashes and {len(asked.block_token_counts)} block_token_counts differ in number"
        )
        return no("chain-arrays-differ", text)
    probe = ranking.Probe(asked.chain, asked.block_token_counts)
    look.inputs = Inputs([probe], chained=True, odd_hashes=asked.odd_hashes)
    return None


def _tokens_asked(look: Lookup) -> int:
    """How long the prompt is, as far as the request says."""
    return look.inputs.tokens or sum(look.asked.block_token_counts) or look.asked.prefix_token_count


def _token_ids(look: Lookup) -> Answer | None:
    """One chain for each block size that is in use; the sizes that are longer than the prompt cannot match."""
    tokens = look.asked.tokens
    count = len(tokens) // 4
    if count > MAX_TOKENS:
        return no("too-many-tokens", f"{count} token ids; at most {MAX_TOKENS} are looked up")
    sizes = sorted(look.place.sizes) if look.place else []
    fitting = [size for size in sizes or [DEFAULT_BLOCK] if size <= count]
    if not fitting:
        return no("below-granularity", f"{count} token ids are less than one block of {min(sizes or [DEFAULT_BLOCK])}")
    probes = []
    for size in fitting:
        chain = keys.chain(tokens, size)
        if look.policy.chain_matching:
            probes.append(ranking.Probe(chain, [size] * len(chain), size))
        else:
            probes.append(ranking.Probe(chain[-1:], [size * len(chain)], size, exact=True))
    first = probes[0]
    look.inputs = Inputs(
        probes,
        max(count - count % size for size in fitting),
        chained=look.policy.chain_matching,
        exact=keys.to_wire(first.keys[-1]),
    )
    return None


def prompt_too_small(look: Lookup) -> Answer | None:
    """minimumPrefixTokens: such a prompt is not worth a match, but where it goes may still be steered."""
    wanted = look.policy.minimum_prefix_tokens
    look.small = wanted > 0 and _tokens_asked(look) < wanted
    return _too_small(look) if look.small and not look.policy.affinity else None


def _too_small(look: Lookup) -> Answer:
    wanted = look.policy.minimum_prefix_tokens
    return no("below-minimum-prefix", f"{_tokens_asked(look)} tokens are less than minimumPrefixTokens of {wanted}")


# The index and after -------------------------------------------------------------------------------------------------


def consult(look: Lookup) -> Answer | None:
    """Walk and rank. Answers only when the question names no place to look."""
    asked = look.asked
    absent = [name for name in ("tenant_id", "model_id", "hash_scheme") if not getattr(asked, name)]
    if absent:
        return no("missing-field", f"{', '.join(absent)} must not be empty")
    look.consulted = True
    ttl = look.policy.ttl_ns
    look.serving = look.index.serving(asked.tenant_id, asked.model_id, asked.hash_scheme)
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


def answer(look: Lookup) -> Answer:
    """A match, warm replicas, a diagnosis; or nothing of the kind, and then perhaps a hint by affinity."""
    found = prefix_match(look) if look.ranked else tenant_hot(look) or diagnosis(look) or miss(look)
    if look.small and found.scores:
        found = _too_small(look)
    if found.reason == "NO_HINT" and look.policy.affinity:
        return affinity_hint(look) or found
    return found


def prefix_match(look: Lookup) -> Answer:
    """What is left of the ranking after the policy's two floors."""
    policy, place, ranked = look.policy, look.place, look.ranked
    assert place is not None
    wanted = policy.minimum_matched_tokens
    if look.groups[-1].matched < wanted:
        ranked = [scored for scored in ranked if scored[-1].matched >= wanted]
        if not ranked:
            best = max(scored[-1].matched for scored in look.ranked)
            return no("below-minimum-matched", f"at most {best} tokens match, minimumMatchedTokens is {wanted}")
    top = -ranked[0][0]
    if top < policy.floor:
        return no("below-floor", f"the best score {top:.3f} is below routingFloorScore {policy.floor:g}")
    cold = any(place.colder.values())
    scores = [
        _score(name, -value, group.matched, freshness, _tier(place, group, holding) if cold else request.T1)
        for value, name, holding, freshness, group in ranked
    ]
    return Answer("PREFIX_MATCH", None, scores, _credit(place, ranked) if policy.eviction == "LFU" else None)


def _tier(place: domain.Domain, group: ranking.Group, holding: domain.Holding) -> request.Tier:
    """The coldest in the run; it is told, and does not rank."""
    return _TIERS[place.coldest(group.run, holding.bit)]


def _credit(place: domain.Domain, ranked: Sequence[ranking.Scored]) -> Credit:
    return Credit(place.key, tuple((scored[1], tuple(scored[-1].run)) for scored in ranked))


def tenant_hot(look: Lookup) -> Answer | None:
    """A request without a chain that matched nothing may still go where its tenant is warm."""
    if look.inputs.chained:
        return None
    asked = look.asked
    warm = ranking.hot(look.serving, now_ns=look.now_ns, ttl_ns=look.policy.ttl_ns, ttft_ms=asked.ttft_ms)
    if not warm:
        return None
    if not look.policy.tenant_hot:
        return no("tenant-hot-disabled", f"{len(warm)} replicas are warm, but enableTenantHot is false")
    scores = [request.ReplicaScore(one.name, -one.negative, estimated_cache_hit_prob=one.hit_rate) for one in warm]
    return Answer("TENANT_HOT", None, scores)


def diagnosis(look: Lookup) -> Answer | None:
    """Does the index know this tenant, model and scheme at all? An empty index knows nobody: a cold start."""
    asked = look.asked
    if look.index.serving(asked.tenant_id, asked.model_id, asked.hash_scheme):
        return None
    groups = look.index.groups()
    if not groups:
        return no("cold-start", "no replica has reported any block yet")
    tenant = [group for group in groups if group[0] == asked.tenant_id]
    if not tenant:
        return no("unknown-tenant", f"no replica of tenant {asked.tenant_id!r} holds blocks", reason="UNKNOWN_TENANT")
    schemes = [scheme for _, model, scheme in tenant if model == asked.model_id]
    if not schemes:
        return no("unknown-model", f"no replica of model {asked.model_id!r} holds blocks", reason="UNKNOWN_MODEL")
    text = f"model {asked.model_id!r} is served under hash_scheme {', '.join(map(repr, schemes))} only"
    return no("unknown-hash-scheme", text, reason="UNKNOWN_HASH_SCHEME")


def miss(look: Lookup) -> Answer:
    if not look.serving:
        return no("not-heard", "no replica that held anything has been heard within the policy's evictionTTL")
    if not look.inputs.probes:
        return no("no-input", "the request holds no keys, token ids or text")
    asked = look.asked
    unsure = look.index.unsure(asked.tenant_id, asked.model_id, asked.hash_scheme)
    text = "no replica holds the first block of this prompt" if look.inputs.chained else "no replica holds this key"
    return no("miss", f"{text}; of {unsure} replicas it is not known" if unsure else text)


def affinity_hint(look: Lookup) -> Answer | None:
    """The same cold prompt goes to the same replica."""
    asked = look.asked
    if not look.consulted or len(asked.chain) != len(asked.block_token_counts):
        return None
    seed = look.inputs.seed()
    name = affinity.pick(seed, (replica.name for replica in look.serving)) if seed else None
    if name is None:
        return None
    detail = request.Detail("affinity", "nobody holds enough of this prompt; equal prompts get this replica")
    return Answer("AFFINITY_HINT", detail, [request.ReplicaScore(name)])


#: In the contract's order. The last one always answers.
STEPS: Final[Sequence[Step]] = (
    reserved_tenant,
    late,
    chain_required,
    resolve,
    prompt_too_small,
    consult,
    late,
    answer,
)


# Explain -------------------------------------------------------------------------------------------------------------


def explain(look: Lookup, found: Answer) -> list[request.Facts]:
    """Every replica of the model, whether it is in the answer, and if not, why not."""
    asked = look.asked
    answered = {one.replica_id for one in found.scores}
    scored = {one[1]: one for one in look.ranked}
    facts = []
    for replica in look.index.group(asked.tenant_id, asked.model_id, asked.hash_scheme):
        fresh = replicas.freshness(replica, look.now_ns, look.policy.ttl_ns)
        one = scored.get(replica.name)
        excluded = ""
        if replica.name not in answered:
            excluded = _excluded(look, found, replica, fresh, one)
        facts.append(
            request.Facts(
                replica_id=replica.name,
                state=replica.state,
                matched_tokens=one[-1].matched if one else 0,
                blocks=replica.blocks,
                freshness=fresh,
                pressure_factor=ranking.pressure_factor(replica, look.now_ns, look.policy.ttl_ns),
                slo_bias=1.0 + fresh if ranking.is_tight(asked.ttft_ms) else 1.0,
                distinguishing_power=_power(look, one[-1].matched) if one else 0.0,
                score=-one[0] if one else 0.0,
                excluded=excluded,
            )
        )
    return facts


def _power(look: Lookup, matched: int) -> float:
    """Distinguishing power of those that match so much."""
    matching = sum(1 for scored in look.ranked if scored[-1].matched >= matched)
    return ranking.distinguishing(matching, len(look.serving))


def _excluded(look: Lookup, found: Answer, replica: replicas.Replica, fresh: float, one: ranking.Scored | None) -> str:
    if replica.live is None:
        return f"{replica.state}: {replica.reason}"
    if fresh <= 0:
        return "not heard within the TTL"
    if one is None:
        return "holds no leading block of this prompt" if look.consulted else "the index was not asked"
    if one[-1].matched < look.policy.minimum_matched_tokens:
        return f"matches less than minimumMatchedTokens of {look.policy.minimum_matched_tokens}"
    return found.detail.code if found.detail is not None else ""
