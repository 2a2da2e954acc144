"""One question on its way through LookupRoute: what was found out so far, and the steps before the index is asked.

    reserved tenant > late > chain required > inputs > too small a prompt

A step settles the answer or lets the next one try. Token ids are hashed here, once per block size in use.
Not here: the index and what follows (lookup.py). Pure and total; time is lent by the edge as a clock.

Rules: spec/inferencecache.md section 1.4, steps 1 to 5; IDX-07.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from handlers.prefixindex import affinity, answers, domain, index, keys, policies, ranking, replicas, request

MAX_TOKENS: Final = 1_048_576
MAX_TEXT: Final = 1 << 20  # bytes
DEFAULT_BLOCK: Final = 16  # while nobody serves the model, for the affinity of its first prompts

Clock = Callable[[], int]
Step = Callable[["Lookup"], "Answer | None"]


class Credit(msgspec.Struct, frozen=True):
    """Holds that a delivered match was built on."""

    domain: domain.DomainKey
    holds: tuple[tuple[str, tuple[int, ...]], ...]  # replica, keys


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

    reason: answers.Reason
    detail: answers.Detail | None = None
    scores: list[answers.ReplicaScore] = []
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
        self.ranked: list[answers.ReplicaScore] = []
        self.small = False  # below minimumPrefixTokens: only affinity may answer


def no(code: str, text: str, *, reason: answers.Reason = "NO_HINT") -> Answer:
    """An answer without scores: the client routes as if it had not asked."""
    return Answer(reason, answers.Detail(code, text))


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
    return too_small(look) if look.small and not look.policy.affinity else None


def too_small(look: Lookup) -> Answer:
    wanted = look.policy.minimum_prefix_tokens
    return no("below-minimum-prefix", f"{_tokens_asked(look)} tokens are less than minimumPrefixTokens of {wanted}")
