"""Area lookup: a fleet's messages through the index, a policy through the control log, a question through `decide`.

What a case's index says a replica holds is sent as that replica's own changes, at the age that the case gives; a policy
goes through `object.seen` and `kind.listed`. Scores are compared to a hundredth.
"""

import math
from typing import Any, Final

from eventstore import events, kvwire, subjects
from handlers.prefixindex import keys, lookup, policies, request
from tests.conformance import forms
from tests.support import kvspeaker

NOW: Final = kvspeaker.START + 7200 * kvspeaker.SECOND
ASKED: Final = ("tenant_asked", "model_asked", "scheme_asked", "adapter_asked", "slo_ttft_ms")
NOVEL: Final = 1_000_000  # token ids from here on are in nobody's index


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "chain_tokens" in given:
        return observed(*affinity_case(given))
    forms.only(
        given,
        *("tenant", "model", "scheme", "block_tokens", "index", "stats", "policy"),
        *("request_blocks", "request_novel_chain", "prefix_hash_only", *ASKED),
    )
    fleet = Fleet(given)
    return observed(fleet, question(given))


class Fleet:
    """The index after everything that a case says was reported, and the policies that govern it."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.stream = kvspeaker.Stream()
        self.size = given.get("block_tokens", 16)
        self.policies = policy_set(given.get("tenant", ""), given.get("policy"))
        self.stream.index.govern(self.policies)
        self.speakers: dict[str, kvspeaker.Speaker] = {}
        facts: list[tuple[float, str, dict[str, Any]]] = []
        for entry in given.get("index", []):
            forms.only(entry, "replica", "blocks", "age_s")
            facts.append((entry.get("age_s", 0), "blocks", entry))
        for entry in given.get("stats", []):
            forms.only(entry, "replica", "hit_rate", "pressure", "age_s")
            facts.append((entry.get("age_s", 0), "stats", entry))
        for age, kind, entry in sorted(facts, key=lambda fact: -fact[0]):
            self.stream.now = NOW - int(age * kvspeaker.SECOND)
            speaker = self.speaker(entry["replica"], given)
            if kind == "blocks":
                chain = chain_of(range(entry["blocks"] * self.size), self.size)
                self.stream.put(speaker, speaker.ops(dict.fromkeys(chain, kvwire.T1)))
            else:
                said = kvwire.Stats(0.0, hit_rate=entry.get("hit_rate", 0.0), pressure=entry.get("pressure", 0.0))
                self.stream.put(speaker, speaker.beat(said))
        self.stream.now = NOW
        self.stream.index.tick(NOW)
        self.stream.upkeep()

    def speaker(self, replica: str, given: dict[str, Any]) -> kvspeaker.Speaker:
        """The replica's session, begun with an empty keyframe when it is first named."""
        if replica not in self.speakers:
            self.speakers[replica] = fresh = kvspeaker.Speaker(
                replica, tenant=given["tenant"], model=given["model"], scheme=given["scheme"], size=self.size
            )
            self.stream.start(fresh)
        return self.speakers[replica]


def policy_set(tenant: str, spec: dict[str, Any] | None) -> policies.Policies:
    kind = policies.KINDS[0]
    known = policies.UNKNOWN
    if spec is not None:
        document = {"metadata": {"name": "policy", "namespace": tenant}, "spec": spec}
        seen = events.ObjectSeen(uid="1", resource_version="1", shape=1, object=document)
        known = policies.fold(known, subjects.object_subject(kind, tenant, "policy"), seen)
        assert not known.skipped, known.skipped
    for kind in policies.KINDS:
        listed = events.KindListed(list_version="1", shape=1, count=1)
        known = policies.fold(known, subjects.kind_subject(kind), listed)
    return known


def chain_of(tokens: range, size: int) -> list[int]:
    return keys.chain(keys.pack_tokens(tokens), size)


def question(given: dict[str, Any]) -> request.LookupRequest:
    """The case's question; the fields that it does not change are those of the fleet."""
    size = given.get("block_tokens", 16)
    novel = given.get("request_novel_chain", False)
    blocks = given.get("request_blocks", 1)
    start = NOVEL if novel else 0
    chain = chain_of(range(start, start + blocks * size), size)
    by_hash = given.get("prefix_hash_only", False)
    return request.LookupRequest(
        tenant_id=given.get("tenant_asked", given.get("tenant", "")),
        model_id=given.get("model_asked", given.get("model", "")),
        hash_scheme=given.get("scheme_asked", given.get("scheme", "")),
        adapter_id=given.get("adapter_asked", ""),
        ttft_ms=given.get("slo_ttft_ms", 0),
        chain=[] if by_hash else chain,
        block_token_counts=[] if by_hash else [size] * len(chain),
        prefix_hash=keys.to_wire(chain[-1]) if by_hash else b"",
        prefix_token_count=blocks * size if by_hash else 0,
    )


def affinity_case(given: dict[str, Any]) -> tuple[Fleet, request.LookupRequest]:
    """Replicas that serve the model and hold something else than the chain."""
    forms.only(given, "chain_tokens", "block_size", "serving")
    first, last = map(int, given["chain_tokens"].split(".."))
    size = given["block_size"]
    where = {"tenant": "t", "model": "m", "scheme": "vllm", "block_tokens": size}
    fleet = Fleet(where)
    for replica in given["serving"]:
        speaker = fleet.speaker(replica, where)
        other = chain_of(range(NOVEL, NOVEL + size), size)
        fleet.stream.put(speaker, speaker.ops(dict.fromkeys(other, kvwire.T1)))
    chain = chain_of(range(first, last + 1), size)
    asked = request.LookupRequest(
        tenant_id="t", model_id="m", hash_scheme="vllm", chain=chain, block_token_counts=[size] * len(chain)
    )
    return fleet, asked


def observed(fleet: Fleet, asked: request.LookupRequest) -> dict[str, Any]:
    answer = lookup.decide(fleet.stream.index, fleet.policies, asked, NOW).response
    names = [score.replica_id for score in answer.replica_scores]
    return {
        "reason": answer.reason_code,
        "scores": [[score.replica_id, score.score, score.matched_tokens] for score in answer.replica_scores],
        "replicas": names,
        "replica": names[0] if len(names) == 1 else None,
        "replica_count": len(names),
    }


def compare(expect: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    expect = dict(expect)
    wanted = expect.pop("scores", None)
    found = forms.differences(expect, seen)
    if wanted is not None and not _equal(wanted, seen["scores"]):
        found.append(f"scores: expected {wanted!r}, observed {seen['scores']!r}")
    return found


def _equal(wanted: list[list[Any]], seen: list[list[Any]]) -> bool:
    return len(wanted) == len(seen) and all(
        (name, matched) == (other, tokens) and math.isclose(score, value, abs_tol=0.01)
        for (name, score, matched), (other, value, tokens) in zip(wanted, seen, strict=True)
    )
