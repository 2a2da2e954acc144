"""The index part of POST /probe: one synthetic block through the same fold and the same decision as real ones.

It runs on an index of its own, so a probe can neither be seen in answers and snapshots nor leave anything behind.

Rules: spec of the reference, "/probe"; subscribers/http/probes.
"""

import time
from collections.abc import Sequence
from typing import Final

from eventstore import kvwire, subjects
from handlers.prefixindex import index, keys, lookup, policies, request
from subscribers.http import probes

_TENANT: Final = "probe"  # decide() answers nothing for the reserved tenant, as it must


class SelfTest:
    """probes.Index over a fresh index per entry."""

    def __init__(self) -> None:
        self._index = index.Index()

    def put(self, entry: probes.Entry) -> None:
        self._index = index.Index()
        now = time.time_ns()
        subject = subjects.kv_subject(_TENANT, entry.model, entry.replica)
        group = kvwire.Group("", probes.TOKENS, kvwire.pack_keys([entry.key]), bytes([kvwire.T1]))
        head = (kvwire.VERSION, "probe", "probe")
        for number, message in enumerate(
            (
                kvwire.Begin(*head, 0, 0, 0, entry.model, entry.scheme, "complete", "probe"),
                kvwire.Chunk(*head, 1, 0, [group]),
                kvwire.End(*head, 2, 0, "complete", 1, entry.key),
            )
        ):
            self._index.apply(number + 1, now, subject, kvwire.encode(message))

    def holders(self, entry: probes.Entry) -> Sequence[str]:
        place = self._index.domain_of(_TENANT, entry.model, entry.scheme, "")
        if place is None:
            return []
        mask = place.held.get(entry.key, 0) & place.alive
        return [owner.name for owner, _ in place.members(mask)]

    def route(self, entry: probes.Entry) -> probes.Route:
        asked = request.LookupRequest(
            tenant_id=_TENANT,
            model_id=entry.model,
            hash_scheme=entry.scheme,
            prefix_hash=keys.to_wire(entry.key),
            prefix_token_count=probes.TOKENS,
        )
        # A single block of 16 tokens is below the default floors: the probe asks about the machinery, not about policy.
        open_policy = policies.Policy(minimum_matched_tokens=0, floor=0.0)
        governed = policies.Policies(tenancy={_TENANT: open_policy})
        answer = lookup.decide(self._index, governed, asked, self._index.time_ns).response
        return probes.Route(answer.reason_code, [score.replica_id for score in answer.replica_scores])

    def remove(self, entry: probes.Entry) -> None:
        self._index = index.Index()
