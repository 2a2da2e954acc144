"""The fold of the control log: what each event changes, and that none can break it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import inferencecache
from eventstore import events, store, subjects
from handlers.outcome import Key, Told, event_name
from handlers.world.fold import fold
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World

POLICIES = inferencecache.CACHE_POLICIES
POLICY = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"minimumMatchedTokens": 32}}
SUBJECT = subjects.object_subject(POLICIES, "n", "p")


def stored(sequence: int, subject: str, data: events.Event, time_ns: int = 0) -> store.Stored:
    made = events.event(data, id=str(sequence), source="t", subject=subject, time_ns=time_ns, actor="t")
    return store.Stored(sequence, time_ns or sequence, subject, msgspec.json.encode(made))


def world_of(*told: tuple[str, events.Event]) -> World:
    world = World()
    for sequence, (subject, data) in enumerate(told, 1):
        assert fold(world, stored(sequence, subject, data), incarnation="i") is not None
    return world


def seen(document: Any = POLICY, uid: str = "u1") -> tuple[str, events.Event]:
    return SUBJECT, events.ObjectSeen(uid=uid, resource_version="7", shape=1, object=document)


LISTED = (subjects.kind_subject(POLICIES), events.KindListed(list_version="9", shape=1, count=1))


def status_of(uid: str) -> tuple[str, events.Event]:
    return subjects.effect_subject(POLICIES, "n", "p"), events.EffectApplied(
        verb="status",
        kind=POLICIES,
        namespace="n",
        name="p",
        uid=uid,
        body={"status": {"ours": 1}},
        desired="d",
        position="i:1",
        handler="h",
        key=f"{POLICIES}/n/p",
        epoch=1,
    )


def test_an_object_is_known_with_the_position_of_its_event() -> None:
    known = Reader(world_of(seen(), LISTED)).get(POLICIES, "n", "p")
    assert known is not None
    assert (known.uid, known.sequence, known.value.spec.minimum_matched_tokens) == ("u1", 1, 32)


def test_absence_before_the_first_list_is_unknown_and_after_it_a_fact() -> None:
    with pytest.raises(Unlisted):
        Reader(world_of(seen())).get(POLICIES, "n", "other")
    reader = Reader(world_of(seen(), LISTED))
    assert reader.get(POLICIES, "n", "other") is None
    assert reader.reads == {f"{POLICIES}/n/other": 0}


def test_a_late_deletion_of_an_older_object_of_the_name_changes_nothing() -> None:
    world = world_of(seen(uid="u1"), seen(uid="u2"), (SUBJECT, events.ObjectGone(uid="u1")), LISTED)
    assert Reader(world).get(POLICIES, "n", "p") is not None
    assert fold(world, stored(9, SUBJECT, events.ObjectGone(uid="u2")), incarnation="i") is not None
    assert Reader(world).get(POLICIES, "n", "p") is None


def test_an_object_that_does_not_decode_exists_and_says_why() -> None:
    known = Reader(world_of(seen({"metadata": {"name": "p"}, "spec": {"minimumMatchedTokens": -1}}))).get(
        POLICIES, "n", "p"
    )
    assert known is not None
    assert known.value is None
    assert "minimumMatchedTokens" in known.problem


def test_our_own_status_shows_until_a_newer_observation() -> None:
    key = Key(POLICIES, "n", "p")
    assert Reader(world_of(seen(), status_of("u1"))).status(key, {"old": 1}) == {"ours": 1}
    assert Reader(world_of(seen(), status_of("u1"), seen())).status(key, {"newer": 1}) == {"newer": 1}
    assert Reader(world_of(seen(), status_of("other"))).status(key, {"old": 1}) == {"old": 1}


def test_a_told_transition_is_remembered_until_its_object_goes() -> None:
    key = Key(POLICIES, "n", "p")
    told = Told(
        about=key,
        uid="u1",
        api_version="v",
        object_kind="CachePolicy",
        type="Normal",
        reason="R",
        message="m",
        transition="1",
    )
    effect = events.EffectApplied(
        verb="event",
        kind="events",
        namespace="n",
        name=event_name(told),
        desired="d",
        position="i:1",
        handler="h",
        key=str(key),
        epoch=1,
    )
    world = world_of(seen(), (subjects.effect_subject("events", "n", event_name(told)), effect))
    assert Reader(world).told(key, told)
    assert not Reader(world).told(key, msgspec.structs.replace(told, transition="2"))
    fold(world, stored(9, SUBJECT, events.ObjectGone(uid="u1")), incarnation="i")
    assert not Reader(world).told(key, told)


def test_the_first_event_of_a_replica_is_kept_across_its_later_edges() -> None:
    def edge(name: Any, uid: str = "pod-1") -> tuple[str, events.Event]:
        return subjects.replica_subject("n", "r"), events.ReplicaObserved(
            tenant="n", replica="r", model="m", scheme="s", uid=uid, session="x", edge=name, kv_sequence=1,
            kv_incarnation="k",
        )  # fmt: skip

    world = world_of(edge("first-event"), edge("gap"), edge("recovered"))
    assert [r.first_event_ns for r in Reader(world).replicas("n")] == [1]
    world = world_of(edge("first-event"), edge("restart", uid="pod-2"))
    assert [r.first_event_ns for r in Reader(world).replicas("n")] == [0]
    assert Reader(world_of(edge("first-event"), edge("gone"))).replicas("n") == []


@given(st.binary(max_size=200), st.text(max_size=40))
def test_whatever_lies_in_the_log_is_passed_over_and_told(body: bytes, subject: str) -> None:
    world = World()
    assert fold(world, store.Stored(3, 5, subject, body), incarnation="i") is None
    assert (world.sequence, world.now_ns, [one.sequence for one in world.skipped]) == (3, 5, [3])


def test_an_event_on_a_subject_that_is_none_is_passed_over() -> None:
    world = World()
    assert fold(world, stored(1, "wl.object.a", seen()[1]), incarnation="i") is None
    assert "tokens" in world.skipped[0].reason
