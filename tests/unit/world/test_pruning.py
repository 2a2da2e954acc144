"""What the world forgets, and what it must not: one test for each rule of handlers.world.pruning."""

from typing import Any

from crds import core
from eventstore import events, subjects
from handlers.outcome import Key
from handlers.world import pruning
from tests.support.worlds import Teller

POD = Key(core.PODS, "n", "p")
DEPLOYMENT = Key(core.DEPLOYMENTS, "n", "d")
DAY = 24 * 3600


def effect(told: Teller, verb: Any, target: Key, key: Key | None = None) -> None:
    body = {"status": {"a": 1}} if verb == "status" else {}
    data = events.EffectApplied(
        verb=verb, kind=target.kind, namespace=target.namespace, name=target.name, uid="uid-p", body=body,
        desired="d", position="i:1", handler="h", key=str(key or target), epoch=1,
    )  # fmt: skip
    told.tell(subjects.effect_subject(*target), data)


def pod(told: Teller) -> None:
    told.seen(core.PODS, {"metadata": {"name": "p", "namespace": "n"}})


def test_a_write_recorded_after_its_object_went_leaves_nothing() -> None:
    told = Teller(core.PODS)
    pod(told)
    effect(told, "status", POD)
    assert POD in told.world.applied
    told.gone(core.PODS, "n", "p")
    effect(told, "status", POD)
    effect(told, "patch", POD)
    effect(told, "event", Key("events", "n", "e1"), POD)
    assert (told.world.applied, told.world.told) == ({}, {})


def test_what_we_created_is_kept_until_a_list_does_not_show_it() -> None:
    told = Teller(core.DEPLOYMENTS)
    effect(told, "apply", DEPLOYMENT)
    assert DEPLOYMENT in told.world.applied
    told.tell(subjects.kind_subject(core.PODS), events.KindListed(list_version="2", shape=1, count=0))
    assert DEPLOYMENT in told.world.applied
    told.tell(subjects.kind_subject(core.DEPLOYMENTS), events.KindListed(list_version="2", shape=1, count=0))
    assert told.world.applied == {}


def test_a_deletion_is_remembered_until_the_object_is_seen_to_go() -> None:
    told = Teller(core.PODS)
    pod(told)
    effect(told, "delete", POD)
    assert told.world.applied[POD].verb == "delete"
    told.gone(core.PODS, "n", "p")
    assert told.world.applied == {}
    effect(told, "delete", POD)  # recorded after that
    assert told.world.applied == {}


def test_the_newest_events_of_one_object_are_remembered() -> None:
    told = Teller(core.PODS)
    pod(told)
    for number in range(pruning.TOLD + 5):
        effect(told, "event", Key("events", "n", f"e{number}"), POD)
    remembered = told.world.told[str(POD)]
    assert len(remembered) == pruning.TOLD
    assert "e4" not in remembered
    assert "e5" in remembered


def test_a_replica_that_nobody_heard_of_for_a_week_is_forgotten_at_a_mark() -> None:
    told = Teller()
    told.replica("n", "old", "first-event")
    told.passed(5 * DAY)
    told.replica("n", "young", "first-event")
    told.passed(DAY)
    assert set(told.world.replicas) == {("n", "old"), ("n", "young")}
    told.passed(2 * DAY)
    assert set(told.world.replicas) == {("n", "young")}


def test_a_summary_keeps_a_quiet_replica() -> None:
    told = Teller()
    told.replica("n", "r", "first-event")
    told.passed(6 * DAY)
    summary = events.ReplicaSummary("n", "r", "m", "complete", 5)
    data = events.IndexSummarised(shard="0", kv_sequence=1, kv_incarnation="k", blocks=5, replicas=[summary])
    told.tell(subjects.index_subject("0"), data)
    told.passed(6 * DAY)
    assert set(told.world.replicas) == {("n", "r")}


def test_statistics_are_no_state() -> None:
    told = Teller()
    told.replica("n", "r", "first-event")
    told.replica("n", "r", "silent")
    told.replica("n", "r", "statistics", statistics={"t2_query_tokens": 5.0})
    assert [one.state for one in told.world.replicas.values()] == ["silent"]
