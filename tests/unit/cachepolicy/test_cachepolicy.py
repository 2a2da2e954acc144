"""CachePolicy and CacheTenant at admission: their rules, their siblings, and a tenant's conditions."""

from typing import Any

import pytest

from crds import schema
from crds.inferencecache import CACHE_POLICIES, CACHE_TENANTS, CacheTenant
from handlers.admission.decision import Decision, Question
from handlers.cachepolicy import admit, quota, validate
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World
from tests.support.worlds import Teller


def ask(
    webhook: Any, spec: Any, world: World, *, name: str = "a", old: Any = None, operation: Any = None, **metadata: Any
) -> Decision:
    def document(part: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "ml", **metadata}, "spec": part}

    question = Question(
        uid="u",
        operation=operation or ("CREATE" if old is None else "UPDATE"),
        kind=webhook.kind,
        namespace="ml",
        name=name,
        view=document(spec),
        old=None if old is None else document(old),
    )
    decision: Decision = webhook.decide(question, Reader(world))
    return decision


def told(decision: Decision) -> list[tuple[str, str]]:
    return [(one.type, one.field) for one in decision.violations]


POLICIES, TENANTS = admit.Policies(), admit.Tenants()
CHAIN = {"strategy": {"enableChainMatching": False, "requireChain": True}}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, []),
        ({"evictionTTL": "30m"}, []),
        ({"evictionTTL": "0s"}, [("Invalid", "spec.evictionTTL")]),
        ({"evictionTTL": "-1h"}, [("Invalid", "spec.evictionTTL")]),
        ({"evictionTTL": "soon"}, [("Invalid", "spec.evictionTTL")]),
        (CHAIN, [("Invalid", "spec.strategy.requireChain")]),
        ({"strategy": {"requireChain": True}}, []),
        ({"minimumPrefixTokens": "many"}, [("Invalid", "spec")]),
    ],
)
def test_a_policys_own_rules(spec: Any, wanted: list[tuple[str, str]]) -> None:
    assert told(ask(POLICIES, spec, Teller(CACHE_POLICIES).world)) == wanted


def with_policies(*names: str) -> World:
    tell = Teller(CACHE_POLICIES)
    for name in names:
        tell.seen(CACHE_POLICIES, {"metadata": {"name": name, "namespace": "ml"}, "spec": {}})
    tell.seen(CACHE_POLICIES, {"metadata": {"name": "x", "namespace": "elsewhere"}, "spec": {}})
    return tell.world


def test_one_policy_for_a_namespace() -> None:
    decision = ask(POLICIES, {}, with_policies("beta", "alpha"))
    assert told(decision) == [("Forbidden", "metadata.name")]
    assert "CachePolicy alpha " in decision.reason
    assert decision.missed == ()


def test_that_there_is_none_is_asked_of_the_api() -> None:
    assert ask(POLICIES, {}, with_policies()).missed == (CACHE_POLICIES,)
    with pytest.raises(Unlisted):
        ask(POLICIES, {}, Teller().world)


def test_an_update_is_not_held_against_siblings_nor_against_what_was_wrong_before() -> None:
    world = with_policies("alpha", "a")
    assert ask(POLICIES, CHAIN, world, old=CHAIN).verdict == "allowed"
    assert told(ask(POLICIES, CHAIN | {"evictionTTL": "0s"}, world, old=CHAIN)) == [("Invalid", "spec.evictionTTL")]
    assert ask(POLICIES, {}, world, old={"minimumPrefixTokens": "many"}).violations[0].field == "metadata.name"


def test_finalizers_come_off_whatever_the_spec_says() -> None:
    gone = ask(POLICIES, CHAIN, with_policies(), old={}, deletionTimestamp="2026-11-30T00:00:00Z")
    assert gone.check == "being-deleted"


def with_tenants(**tenants: str) -> World:
    tell = Teller(CACHE_TENANTS)
    for name, identity in tenants.items():
        tell.seen(CACHE_TENANTS, {"metadata": {"name": name, "namespace": "ml"}, "spec": {"tenantID": identity}})
    return tell.world


def test_one_tenant_of_an_id() -> None:
    world = with_tenants(c="t", b="t", d="other")
    decision = ask(TENANTS, {"tenantID": "t"}, world)
    assert told(decision) == [("Invalid", "spec.tenantID")]
    assert "CacheTenant b " in decision.reason
    assert ask(TENANTS, {"tenantID": "new"}, world).missed == (CACHE_TENANTS,)
    assert ask(TENANTS, {"tenantID": "t"}, world, old={"tenantID": "t"}).verdict == "allowed"
    assert ask(TENANTS, {"tenantID": "t"}, world, old={"tenantID": "u"}).verdict == "refused"
    assert ask(TENANTS, {"tenantID": "other"}, world, name="d").verdict == "allowed"


def test_the_probes_tenant_is_nobodys() -> None:
    probe = {"tenantID": validate.PROBE}
    assert told(ask(TENANTS, probe, with_tenants())) == [("Invalid", "spec.tenantID")]
    assert ask(TENANTS, probe, with_tenants(), old=probe).verdict == "allowed"


def tenant(namespace: str, name: str, limit: int | None) -> CacheTenant:
    spec = {"tenantID": "t", **({} if limit is None else {"quota": {"maxIndexEntries": limit}})}
    return schema.read({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, CacheTenant)


def test_the_first_that_sets_a_quota_counts() -> None:
    tenants = [tenant("b", "a", 5), tenant("a", "z", 7), tenant("a", "a", None)]
    owner = quota.effective(tenants)["t"]
    assert owner == ("a", "z")
    shadowed = quota.conditions(tenants[0], 6, owner)
    assert {kind: (one.status, one.reason) for kind, one in shadowed.items()} == {
        "Ready": ("False", "DuplicateTenantID"),
        "QuotaExceeded": ("False", "NotEffective"),
    }
    assert quota.conditions(tenants[1], 8, owner)["QuotaExceeded"].reason == "OverEntryBudget"
    assert quota.effective([tenants[2]]) == {}


def test_the_contracts_mutating_webhooks_change_nothing() -> None:
    webhook = admit.Defaults("mcachepolicy.inferencecache.io")
    question = Question(uid="u", operation="CREATE", kind=CACHE_POLICIES, namespace="ml", view={"spec": {}})
    assert not webhook.concerned(question, Reader(World()))
    assert webhook.decide(question, Reader(World())).patch == ()
