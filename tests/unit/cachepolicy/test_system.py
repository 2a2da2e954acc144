"""A CacheTenant's status: what its tenant has in the index, and whether its quota counts. Excluded: admission."""

from typing import Any

import pytest

from crds.inferencecache import CACHE_POLICIES, CACHE_TENANTS
from eventstore import events, subjects
from handlers import reconcile
from handlers.cachepolicy.system import CacheTenants
from handlers.outcome import Key, Outcome, Status
from handlers.world import keyframe
from handlers.world.reader import Reader
from tests.support.worlds import Teller

Object = dict[str, Any]


class House:
    def __init__(self) -> None:
        self.tell, self.system = Teller(CACHE_POLICIES, CACHE_TENANTS), CacheTenants()

    def tenant(self, name: str, identity: str = "team-a", quota: int | None = 100, space: str = "ml") -> events.Decoded:
        spec: Object = {"tenantID": identity, **({} if quota is None else {"quota": {"maxIndexEntries": quota}})}
        metadata = {"name": name, "namespace": space, "uid": f"uid-{name}", "generation": 3}
        return self.tell.seen(CACHE_TENANTS, {"metadata": metadata, "spec": spec})

    def counted(self, shard: str = "0", **tenants: int) -> events.Decoded:
        told = {name.replace("_", "-"): count for name, count in tenants.items()}
        data = events.IndexSummarised(
            shard=shard, kv_sequence=1, kv_incarnation="k", blocks=0, replicas=[], tenants=told
        )
        return self.tell.tell(subjects.index_subject(shard), data)

    def wanted(self, name: str, space: str = "ml") -> Outcome:
        return reconcile.wanted(self.system, Reader(self.tell.world), Key(CACHE_TENANTS, space, name))

    def status(self, name: str, space: str = "ml") -> Object:
        (found,) = [one for one in self.wanted(name, space).intents if isinstance(one, Status)]
        return found.status

    def named(self, event: events.Decoded) -> list[str]:
        return sorted({f"{key.namespace}/{key.name}" for key in self.system.concerns(event, self.tell.world)})


@pytest.fixture
def house() -> House:
    return House()


def shown(status: Object) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


@pytest.mark.parametrize(
    ("quota", "entries", "exceeded"),
    [
        (100, 40, ("False", "WithinBudget")),
        (100, 100, ("False", "WithinBudget")),
        (100, 120, ("True", "OverEntryBudget")),
        (None, 120, ("False", "NoQuota")),
        (0, 0, ("False", "WithinBudget")),
    ],
)
def test_what_a_tenant_has_is_held_against_its_quota(
    house: House, quota: int | None, entries: int, exceeded: tuple[str, str]
) -> None:
    house.tenant("a", quota=quota)
    house.counted(team_a=entries, team_b=7)
    status = house.status("a")
    assert (status["indexEntries"], status["observedGeneration"]) == (entries, 3)
    assert shown(status) == {"Ready": ("True", "Observed"), "QuotaExceeded": exceeded}


def test_nothing_is_said_before_a_server_has_counted(house: House) -> None:
    house.tenant("a")
    assert house.wanted("a") == Outcome()
    old = events.IndexSummarised(shard="0", kv_sequence=1, kv_incarnation="k", blocks=0, replicas=[])
    house.tell.tell(subjects.index_subject("0"), old)
    assert house.wanted("a") == Outcome(), "an older server says nothing of tenants"
    house.counted()
    assert house.status("a")["indexEntries"] == 0


def test_parts_of_the_index_are_summed(house: House) -> None:
    house.tenant("a")
    house.counted("0", team_a=30)
    house.counted("1", team_a=12)
    assert house.status("a")["indexEntries"] == 42


def test_of_two_with_one_tenant_the_first_with_a_quota_counts(house: House) -> None:
    house.tenant("a", quota=None, space="early")
    house.tenant("b", space="late")
    house.tenant("c", space="later")
    house.counted(team_a=1)
    assert shown(house.status("b", "late"))["Ready"] == ("True", "Observed")
    for name, space in (("a", "early"), ("c", "later")):
        assert shown(house.status(name, space)) == {
            "Ready": ("False", "DuplicateTenantID"),
            "QuotaExceeded": ("False", "NotEffective"),
        }


def test_it_is_written_once_and_counts_do_not_hurry(house: House) -> None:
    house.tenant("a")
    house.counted(team_a=10)
    key = Key(CACHE_TENANTS, "ml", "a")
    first = house.wanted("a")
    assert not [one for one in first.intents if isinstance(one, Status) and one.lazy]
    house.tell.carry_out(key, first)
    assert house.wanted("a") == Outcome()
    house.counted(team_a=20)
    (later,) = house.wanted("a").intents
    assert isinstance(later, Status)
    assert later.lazy
    assert (
        later.status["conditions"][0]["lastTransitionTime"] == house.status("a")["conditions"][0]["lastTransitionTime"]
    )
    house.counted(team_a=200)
    (over,) = house.wanted("a").intents
    assert isinstance(over, Status)
    assert not over.lazy


def test_an_event_names_those_whose_answer_it_may_change(house: House) -> None:
    assert house.named(house.tenant("a")) == ["ml/a"]
    assert house.named(house.tenant("b", "team-b")) == ["ml/b"]
    assert house.named(house.tenant("c", "team-b", space="zz")) == ["ml/b", "zz/c"]
    assert house.named(house.tenant("b", "team-a")) == ["ml/a", "ml/b", "zz/c"], "of both tenants"
    assert house.named(house.counted(team_a=1)) == ["ml/a", "ml/b", "zz/c"], "the first summary concerns all"
    assert house.named(house.counted(team_a=1)) == []
    assert house.named(house.counted(team_a=1, team_b=3)) == ["zz/c"]
    gone = house.tell.gone(CACHE_TENANTS, "ml", "a")
    assert "ml/b" in house.named(gone)


def test_one_that_does_not_decode_keeps_its_last_good_version_and_says_so(house: House) -> None:
    house.tenant("a")
    house.counted(team_a=10)
    problem = {"unreadable": {"problem": "spec.tenantID: expected `str`, got `int`", "generation": 4}}
    subject = subjects.object_subject(CACHE_TENANTS, "ml", "a")
    house.tell.tell(subject, events.ObjectSeen(uid="uid-a", resource_version="9", shape=2, object=problem))
    status = house.status("a")
    assert shown(status)["Ready"] == ("False", "Invalid")
    assert "the last good version stays in force" in status["conditions"][0]["message"]
    house.tenant("b", space="zz")
    assert shown(house.status("b", "zz"))["Ready"] == ("False", "DuplicateTenantID"), "its quota counts still"


def test_the_reserved_tenant_that_was_stored_before_the_rule_says_what_it_has(house: House) -> None:
    house.tenant("a", "inferencecache.io/probe")
    house.counted()
    assert shown(house.status("a"))["Ready"] == ("True", "Observed")


def test_a_keyframe_keeps_what_was_counted(house: House) -> None:
    house.tenant("a")
    house.counted(team_a=10)
    lines = list(keyframe.cut(keyframe.rows(keyframe.freeze(house.tell.world))))
    loaded, digest = keyframe.load(lines, incarnation="i")
    assert digest == keyframe.digest(house.tell.world)
    assert Reader(loaded).entries("team-a") == 10
    checker = keyframe.Checker()
    for piece in lines:
        checker.take(piece)


def test_one_that_never_could_be_read_concerns_nobody_else(house: House) -> None:
    """Each change of it would have every one of thousands looked at."""
    for name in ("a", "b"):
        house.named(house.tenant(name))
    bad = {"metadata": {"name": "bad", "namespace": "ml", "uid": "u"}, "spec": {"tenantID": 3}}
    assert house.named(house.tell.seen(CACHE_TENANTS, bad)) == ["ml/bad"]


def test_a_status_that_somebody_else_wrote_by_halves_is_written_anew(house: House) -> None:
    metadata = {"name": "a", "namespace": "ml", "uid": "uid-a", "generation": 3}
    halves = [{"status": "True"}, {"type": "Ready"}]
    house.tell.seen(
        CACHE_TENANTS, {"metadata": metadata, "spec": {"tenantID": "team-a"}, "status": {"conditions": halves}}
    )
    house.counted(team_a=40)
    assert shown(house.status("a"))["Ready"] == ("True", "Observed")
