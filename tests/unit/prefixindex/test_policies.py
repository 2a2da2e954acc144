"""CachePolicy and CacheTenant events to the set that lookups use."""

from typing import Any

import msgspec
import pytest

from eventstore import events, subjects
from handlers import goduration
from handlers.prefixindex import policies

POLICIES, TENANTS = policies.KINDS


def seen(known: policies.Policies, kind: str, namespace: str, name: str, spec: Any) -> policies.Policies:
    data = events.ObjectSeen(
        uid="u",
        resource_version="1",
        shape=1,
        object={"metadata": {"name": name, "namespace": namespace, "labels": {"a": "b"}}, "spec": spec},
    )
    return policies.fold(known, subjects.object_subject(kind, namespace, name), data)


def gone(known: policies.Policies, kind: str, namespace: str, name: str) -> policies.Policies:
    return policies.fold(known, subjects.object_subject(kind, namespace, name), events.ObjectGone(uid="u"))


def listed(known: policies.Policies, *kinds: str) -> policies.Policies:
    for kind in kinds or policies.KINDS:
        known = policies.fold(known, subjects.kind_subject(kind), events.KindListed(list_version="1", shape=1, count=0))
    return known


def quota(tenant: str, most: int | None) -> dict[str, Any]:
    return {"tenantID": tenant, "quota": {} if most is None else {"maxIndexEntries": most}}


def test_before_a_list_the_defaults_apply_and_it_says_so() -> None:
    known = seen(policies.UNKNOWN, POLICIES, "team-a", "p", {"minimumMatchedTokens": 7})
    known = seen(known, TENANTS, "team-a", "t", quota("team-a", 5))
    assert known.of("team-a") == policies.DEFAULT
    assert known.quotas == {}
    assert known.unlisted == policies.KINDS
    known = listed(known, POLICIES)
    assert known.of("team-a").minimum_matched_tokens == 7
    assert (known.quotas, known.unlisted) == ({}, (TENANTS,))
    assert listed(known, TENANTS).quotas == {"team-a": 5}


def test_the_defaults_are_those_of_an_empty_spec() -> None:
    known = listed(seen(policies.UNKNOWN, POLICIES, "team-a", "p", {}))
    assert known.of("team-a") == policies.DEFAULT == known.of("nobody")
    assert (
        policies.Policy(
            eviction="LRU",
            ttl_ns=1_800_000_000_000,
            minimum_prefix_tokens=0,
            minimum_matched_tokens=64,
            floor=0.1,
            lookup_timeout_ms=0,
            chain_matching=True,
            require_chain=False,
            tenant_hot=True,
            affinity=True,
        )
        == policies.DEFAULT
    )


def test_every_field_of_a_spec_is_used() -> None:
    spec = {
        "eviction": "LFU",
        "evictionTTL": "1h30m",
        "minimumPrefixTokens": 128,
        "minimumMatchedTokens": 0,
        "routingFloorScore": "0",
        "lookupTimeoutMs": 5,
        "strategy": {"enableChainMatching": True, "requireChain": True, "enableTenantHot": False},
        "affinityRouting": "Disabled",
        "ofANewerVersion": 1,
    }
    known = listed(seen(policies.UNKNOWN, POLICIES, "team-a", "p", spec))
    assert known.of("team-a") == policies.Policy("LFU", 5_400_000_000_000, 128, 0, 0.0, 5, True, True, False, False)
    assert known.skipped == {}


def test_of_several_policies_the_first_name_wins() -> None:
    known = policies.UNKNOWN
    for name, tokens in (("b", 2), ("a", 1), ("c", 3)):
        known = seen(known, POLICIES, "team-a", name, {"minimumMatchedTokens": tokens})
    known = listed(known)
    assert known.of("team-a").minimum_matched_tokens == 1
    assert gone(known, POLICIES, "team-a", "a").of("team-a").minimum_matched_tokens == 2


def test_a_duplicate_tenant_belongs_to_the_first_that_has_a_quota() -> None:
    known = policies.UNKNOWN
    for namespace, name, most in (("b", "a", 2), ("a", "z", 1), ("a", "a", None), ("c", "a", 0)):
        known = seen(known, TENANTS, namespace, name, quota("shared", most))
    known = listed(known)
    assert known.quotas == {"shared": 1}
    known = gone(gone(known, TENANTS, "a", "z"), TENANTS, "b", "a")
    assert known.quotas == {"shared": 0}


@pytest.mark.parametrize("floor", ["", "high", "-1", "inf", "nan", "1_0", " 1", "0x1"])
def test_a_floor_that_is_no_number_is_the_default_and_named(floor: str) -> None:
    known = listed(seen(policies.UNKNOWN, POLICIES, "team-a", "p", {"routingFloorScore": floor}))
    assert known.of("team-a").floor == 0.1
    assert "routingFloorScore" in next(iter(known.skipped.values()))


@pytest.mark.parametrize(("floor", "value"), [("0", 0.0), ("0.25", 0.25), ("12345678.000001", 12345678.000001)])
def test_a_floor_is_a_decimal(floor: str, value: float) -> None:
    assert listed(seen(policies.UNKNOWN, POLICIES, "n", "p", {"routingFloorScore": floor})).of("n").floor == value


DURATIONS: dict[str, int | None] = {
    "30m": 1_800_000_000_000,
    "1h30m5s": 5_405_000_000_000,
    "1.5s": 1_500_000_000,
    ".5s": 500_000_000,
    "100ms": 100_000_000,
    "2us": 2_000,
    "2µs": 2_000,
    "2μs": 2_000,
    "7ns": 7,
    "0": 0,
    "-5s": -5_000_000_000,
    "+5s": 5_000_000_000,
    "": None,
    "5": None,
    "s": None,
    "5 s": None,
    "5d": None,
    "1h ": None,
    "٣s": None,
    "9" * 70 + "h": None,
    "9999999h": None,
}


@pytest.mark.parametrize(("text", "nanoseconds"), DURATIONS.items(), ids=DURATIONS)
def test_durations_are_gos(text: str, nanoseconds: int | None) -> None:
    assert goduration.nanoseconds(text) == nanoseconds


@pytest.mark.parametrize("ttl", ["0s", "-1m", "soon"])
def test_a_ttl_that_is_no_time_is_the_default_and_named(ttl: str) -> None:
    known = listed(seen(policies.UNKNOWN, POLICIES, "team-a", "p", {"evictionTTL": ttl}))
    assert known.of("team-a").ttl_ns == policies.DEFAULT_TTL_NS
    assert "evictionTTL" in next(iter(known.skipped.values()))


BAD: dict[str, tuple[str, Any]] = {
    "a negative bound": (POLICIES, {"minimumMatchedTokens": -1}),
    "an unknown eviction": (POLICIES, {"eviction": "FIFO"}),
    "no spec": (POLICIES, None),
    "a tenant without a name": (TENANTS, {"tenantID": ""}),
    "a negative quota": (TENANTS, quota("x", -1)),
}


@pytest.mark.parametrize(("kind", "spec"), BAD.values(), ids=BAD)
def test_an_object_that_does_not_decode_leaves_its_last_good_version(kind: str, spec: Any) -> None:
    good = {"minimumMatchedTokens": 7} if kind == POLICIES else quota("team-a", 7)
    known = listed(seen(policies.UNKNOWN, kind, "team-a", "one", good))
    before = (known.of("team-a"), known.quotas)
    known = seen(known, kind, "team-a", "one", spec)
    assert (known.of("team-a"), known.quotas) == before
    (why,) = known.skipped.values()
    assert f"{kind} team-a/one is not used" in why
    assert seen(known, kind, "team-a", "one", good).skipped == {}
    assert gone(known, kind, "team-a", "one").skipped == {}


def test_one_that_was_told_to_be_unreadable_says_which_field() -> None:
    known = listed(seen(policies.UNKNOWN, POLICIES, "team-a", "one", {"minimumMatchedTokens": 7}))
    subject = next(iter(seen(known, POLICIES, "team-a", "one", None).skipped))
    told = {"unreadable": {"problem": "spec.eviction: invalid enum value", "generation": 2}}
    known = policies.fold(known, subject, events.ObjectSeen(uid="u", resource_version="2", shape=1, object=told))
    assert known.of("team-a").minimum_matched_tokens == 7
    assert known.skipped[subject].endswith("is not used: spec.eviction: invalid enum value")


OTHERS = {
    "another kind": ("wl.object.pods.team-a.p", events.ObjectGone(uid="u")),
    "no subject of ours": ("wlkv.1.t.r", events.ObjectGone(uid="u")),
    "a broken escape": ("wl.object.%ZZ.a.b", events.ObjectGone(uid="u")),
    "too few tokens": (subjects.kind_subject(POLICIES), events.ObjectGone(uid="u")),
    "another event": (subjects.object_subject(POLICIES, "a", "b"), events.Moment(kv_sequence=1, kv_incarnation="x")),
}


@pytest.mark.parametrize(("subject", "data"), OTHERS.values(), ids=OTHERS)
def test_other_events_change_nothing(subject: str, data: events.Event) -> None:
    assert policies.fold(policies.UNKNOWN, subject, data) is policies.UNKNOWN


def test_folding_leaves_the_older_set_as_it_was() -> None:
    first = listed(seen(policies.UNKNOWN, POLICIES, "team-a", "p", {"minimumMatchedTokens": 7}))
    copy = msgspec.json.encode([first.tenancy, first.quotas])
    gone(first, POLICIES, "team-a", "p")
    assert msgspec.json.encode([first.tenancy, first.quotas]) == copy
