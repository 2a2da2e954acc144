"""Area index: quotas, the cap and the snapshot, by messages of one replica per tenant.

A key's name is its number; its time is the time of the message that stores it. A delivered hit is a real lookup whose
credit is applied. Cases that speak the reference's producer RPC have forms that this driver does not know.
"""

from typing import Any

from eventstore import events, kvwire, subjects
from handlers.prefixindex import index, keys, lookup, policies, request, views
from tests.conformance import forms
from tests.support import kvspeaker

SIZE = 64  # tokens a block: enough for the default minimumMatchedTokens


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "replicas_per_key" in given:
        forms.only(given, "keys", "replicas_per_key")
        return snapshot(given["keys"], given["replicas_per_key"])
    forms.only(given, "quota", "ingest", "max_entries", "eviction", "steps")
    steps = given.get("steps") or [["ingest", *step] for step in given["ingest"]]
    cap = given.get("max_entries")
    tenants = Tenants(index.Index(cap=cap) if cap is not None else index.Index())
    tenants.govern(given.get("quota", {}), given.get("eviction", {}))
    for step, *facts in steps:
        tenants.steps[step](*facts)
    return tenants.observed()


class Tenants:
    """One replica per tenant, and names for the keys they were told to hold."""

    def __init__(self, known: index.Index) -> None:
        self.stream = kvspeaker.Stream(known)
        self.speakers: dict[str, kvspeaker.Speaker] = {}
        self.named: dict[str, set[str]] = {}
        self.steps = {"ingest": self.ingest, "delivered_hit": self.delivered_hit}

    def govern(self, quotas: dict[str, int], eviction: dict[str, str]) -> None:
        known = policies.UNKNOWN
        for tenant, most in quotas.items():
            spec = {"tenantID": tenant, "quota": {"maxIndexEntries": most}}
            known = seen(known, policies.KINDS[1], "ns", f"quota-{tenant}", spec)
        for tenant, order in eviction.items():
            known = seen(known, policies.KINDS[0], tenant, "policy", {"eviction": order.upper()})
        for kind in policies.KINDS:
            listed = events.KindListed(list_version="1", shape=1, count=1)
            known = policies.fold(known, subjects.kind_subject(kind), listed)
        assert not known.skipped, known.skipped
        self.stream.index.govern(known)

    def speaker(self, tenant: str, replica: str = "r") -> kvspeaker.Speaker:
        who = f"{tenant}/{replica}"
        if who not in self.speakers:
            self.speakers[who] = kvspeaker.Speaker(replica, tenant=tenant, size=SIZE)
            self.stream.start(self.speakers[who])
        return self.speakers[who]

    def ingest(self, tenant: str, key: str, at: int, replica: str = "r") -> None:
        self.stream.now = max(self.stream.now, kvspeaker.START + at * kvspeaker.SECOND)
        speaker = self.speaker(tenant, replica)
        self.named.setdefault(tenant, set()).add(key)
        self.stream.put(speaker, speaker.ops({number(key): kvwire.T1}))
        self.stream.upkeep()

    def delivered_hit(self, tenant: str, key: str) -> None:
        asked = request.LookupRequest(
            tenant_id=tenant,
            model_id="m",
            hash_scheme="vllm",
            prefix_hash=keys.to_wire(number(key)),
            prefix_token_count=SIZE,
        )
        known = self.stream.index
        decision = lookup.decide(known, known.policies, asked, self.stream.now)
        assert decision.response.reason_code == "PREFIX_MATCH", decision.response
        if decision.credit is not None:
            known.credit(decision.credit)

    def observed(self) -> dict[str, Any]:
        known = self.stream.index
        limits = known.limits
        return {
            "keys": {
                tenant: sorted(name for name in names if self.matches(tenant, number(name)))
                for tenant, names in self.named.items()
            },
            "tenant_evictions": dict(limits.tenant_evictions),
            "index_evictions": {"/".join(why): count for why, count in limits.index_evictions.items()},
        }

    def matches(self, tenant: str, key: int) -> bool:
        place = self.stream.index.domain_of(tenant, "m", "vllm", "")
        return place is not None and place.holders_of(key) != 0


def seen(known: policies.Policies, kind: str, namespace: str, name: str, spec: dict[str, Any]) -> policies.Policies:
    document = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    data = events.ObjectSeen(uid="1", resource_version="1", shape=1, object=document)
    return policies.fold(known, subjects.object_subject(kind, namespace, name), data)


def number(name: str) -> int:
    return int.from_bytes(name.encode(), "big")


def snapshot(counts: dict[str, int], replicas: int) -> dict[str, Any]:
    """Every tenant's keys on so many replicas each."""
    tenants = Tenants(index.Index())
    for tenant, count in counts.items():
        for replica in range(replicas):
            for key in range(count):
                tenants.ingest(tenant, f"k{key}", 0, f"r{replica}")
    document = views.snapshot(tenants.stream.index)
    return {
        "totalPrefixes": document.total_prefixes,
        "tenants": {tenant.tenant_id: tenant.index_entries for tenant in document.tenants},
        "sum_prefixCount": sum(one.prefix_count or 0 for one in document.replicas),
    }


def compare(expect: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """A `note` is for readers."""
    return forms.differences({name: value for name, value in expect.items() if name != "note"}, found)
