"""The queue: what is looked at, when, what is left out of an Outcome. Excluded: carrying out (tests/unit/effects)."""

import re
from typing import Any

import msgspec
import pytest

from crds import core
from eventstore import events, subjects
from handlers import canonical
from handlers.outcome import Apply, Delete, Key, Outcome, Status, Told, event_name
from handlers.reconcile import Loop, pending
from handlers.world.reader import Unlisted
from tests.support.toysystem import KEY, POD, Toy
from tests.support.worlds import Teller

SECOND = 1_000_000_000
BODY: dict[str, Any] = {"spec": {"a": 1}}
TOLD = Told(
    about=KEY, uid="uid-a", api_version="v1", object_kind="Service", type="Normal", reason="R", message="m",
    transition="1",
)  # fmt: skip
STATUS = Status(key=KEY, uid="uid-a", status={"x": 1})
APPLY = Apply(key=KEY, body=BODY, owner="o")


def begun(*toys: Toy, teller: Teller | None = None) -> tuple[Teller, Loop]:
    teller = teller or Teller(core.SERVICES, core.PODS)
    loop = Loop(toys, teller.world)
    for kind in loop.kinds:
        loop.listed(kind)
    return teller, loop


def looks(loop: Loop) -> list[Key]:
    found = []
    while (work := loop.look()) is not None:
        found.append(work.key)
    return found


def test_every_key_is_looked_at_once_when_a_leader_begins() -> None:
    toy = Toy()
    toy.wanted = {KEY: Outcome(), POD: Outcome()}
    _, loop = begun(toy)
    assert looks(loop) == [KEY, POD]
    assert looks(loop) == []
    assert loop.idle


def test_nothing_is_looked_at_before_this_leader_listed_every_kind() -> None:
    toy = Toy(kinds=(core.SERVICES, core.PODS))
    teller = Teller(core.SERVICES, core.PODS)  # listed, by somebody before us
    loop = Loop([toy], teller.world)
    loop.folded(teller.seen(core.SERVICES, {"metadata": {"name": "a", "namespace": "ml"}}))
    assert loop.look() is None
    loop.listed(core.PODS)
    assert loop.look() is None
    loop.listed(core.SERVICES)
    assert looks(loop) == [KEY]


def test_a_system_whose_kinds_are_not_served_does_not_keep_others_waiting() -> None:
    there, missing = Toy("there"), Toy("missing", kinds=("cachepolicies.inferencecache.io",))
    there.want()
    missing.want()
    teller = Teller(core.SERVICES)
    loop = Loop([there, missing], teller.world)
    loop.listed(core.SERVICES)
    assert [(work.system, work.key) for work in iter(loop.look, None)] == [("there", KEY)]
    assert loop.idle


def test_an_event_names_keys_and_is_their_cause() -> None:
    toy = Toy()
    teller, loop = begun(toy)
    toy.want(STATUS)
    first = teller.seen(core.SERVICES, {"metadata": {"name": "a", "namespace": "ml"}})
    loop.folded(first)
    loop.folded(teller.seen(core.SERVICES, {"metadata": {"name": "a", "namespace": "ml", "labels": {"x": "y"}}}))
    work = loop.look()
    assert work is not None
    assert (work.key, work.cause, work.position) == (KEY, first.envelope.id, f"i:{teller.sequence}")
    assert loop.look() is None


def test_a_key_that_is_worked_on_waits_until_its_writes_are_folded() -> None:
    toy = Toy()
    teller, loop = begun(toy)
    toy.want(STATUS)
    loop.add(("toy", KEY))
    work = loop.look()
    assert work is not None
    loop.add(("toy", KEY))
    assert loop.look() is None, "it is being worked on"
    assert not loop.idle
    loop.done(work.entry, teller.sequence + 1)
    assert loop.look() is None, "its write is not folded yet"
    teller.passed(1)
    assert loop.look() is not None


def test_systems_take_turns() -> None:
    toys = [Toy("a"), Toy("b")]
    for toy in toys:
        toy.wanted = {Key(core.SERVICES, "ml", str(n)): Outcome() for n in range(3)}
    _, loop = begun(*toys)
    assert [work.system for work in iter(loop.look, None)] == ["a", "b", "a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("raised", "said"),
    [(RuntimeError("boom"), "RuntimeError: boom"), (Unlisted("pods"), "pods"), (KeyError("x"), "KeyError")],
    ids=["error", "unlisted", "lookup"],
)
def test_a_handler_that_raises_is_told_and_its_key_rests(raised: Exception, said: str) -> None:
    toy = Toy()
    _, loop = begun(toy)
    toy.wanted[KEY] = raised
    loop.add(("toy", KEY))
    work = loop.look()
    assert work is not None
    assert said in work.defect
    assert work.intents == ()
    loop.add(("toy", KEY))
    assert loop.look() is None, "until who told it says so"
    toy.want()
    loop.done(work.entry)
    again = loop.look()
    assert again is not None
    assert again.defect == ""


def test_a_mapping_that_raises_looks_at_every_key() -> None:
    toy = Toy()
    toy.wanted = {KEY: Outcome(), POD: Outcome()}
    teller, loop = begun(toy)
    looks(loop)
    toy.confused = ValueError("what is that?")
    loop.folded(teller.seen(core.PODS, {"metadata": {"name": "z", "namespace": "z"}}))
    assert looks(loop) == [KEY, POD]
    assert "what is that?" in loop.defects[0]


def test_the_status_comes_last() -> None:
    toy = Toy()
    _, loop = begun(toy)
    toy.want(STATUS, APPLY, TOLD)
    loop.add(("toy", KEY))
    work = loop.look()
    assert work is not None
    assert work.intents == (APPLY, TOLD, STATUS)


# Deadlines ------------------------------------------------------------------------------------------------------------


def test_a_deadline_fires_once() -> None:
    toy = Toy()
    _, loop = begun(toy)
    toy.want(again_ns=5 * SECOND)
    loop.add(("toy", KEY))
    loop.look()
    assert loop.next_due_ns == 5 * SECOND
    assert loop.due(5 * SECOND - 1) == []
    (timer,) = loop.due(5 * SECOND)
    assert (timer.handler, timer.key, timer.due_ns) == ("toy", KEY, 5 * SECOND)
    assert loop.due(99 * SECOND) == []
    assert loop.next_due_ns == 0


def test_a_deadline_moves_and_is_given_up() -> None:
    toy = Toy()
    _, loop = begun(toy)
    for due in (5, 9, 7):
        toy.want(again_ns=due * SECOND)
        loop.add(("toy", KEY))
        loop.look()
    assert [timer.due_ns for timer in loop.due(6 * SECOND)] == []
    assert [timer.due_ns for timer in loop.due(8 * SECOND)] == [7 * SECOND]
    toy.want(again_ns=20 * SECOND)
    loop.add(("toy", KEY))
    loop.look()
    toy.want()
    loop.add(("toy", KEY))
    loop.look()
    assert loop.due(99 * SECOND) == []


def test_a_deadline_that_could_not_be_told_is_due_again() -> None:
    toy = Toy()
    _, loop = begun(toy)
    toy.want(again_ns=SECOND)
    loop.add(("toy", KEY))
    loop.look()
    (timer,) = loop.due(SECOND)
    loop.undo(timer)
    assert loop.due(SECOND) == [timer]


def test_deadlines_take_no_more_room_than_keys() -> None:
    toy = Toy()
    _, loop = begun(toy)
    for due in range(2000):
        toy.want(again_ns=SECOND + due)
        loop.add(("toy", KEY))
        loop.look()
    assert len(loop._heap) <= 70
    assert [timer.due_ns for timer in loop.due(2 * SECOND)] == [SECOND + 1999]


# What is so already ---------------------------------------------------------------------------------------------------


def service(*, version: int, uid: str = "u", **metadata: Any) -> events.ObjectSeen:
    document = {"metadata": {"name": "a", "namespace": "ml", **metadata}}
    return events.ObjectSeen(uid=uid, resource_version=str(version), shape=1, object=document)


def applied(*, version: int, verb: Any = "apply", uid: str = "u", generation: int = 1) -> events.EffectApplied:
    return events.EffectApplied(
        verb=verb, kind=KEY.kind, namespace="ml", name="a", uid=uid, resource_version=str(version),
        generation=generation, body=BODY, desired=canonical.digest(BODY), position="i:1", handler="toy", key=str(KEY),
        epoch=1,
    )  # fmt: skip


SEEN, WRITTEN = subjects.object_subject(*KEY), subjects.effect_subject(*KEY)


def left(teller: Teller, *intents: Any) -> list[Any]:
    return list(pending(Outcome(intents=intents), teller.world, KEY))


class TestApply:
    def test_what_was_never_applied_is(self) -> None:
        assert left(Teller(core.SERVICES), APPLY) == [APPLY]

    def test_what_was_created_and_not_seen_yet_is_not_created_again(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(WRITTEN, applied(version=5))
        assert left(teller, APPLY) == []

    def test_what_a_later_list_does_not_show_is_created_again(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(WRITTEN, applied(version=5))
        teller.tell(subjects.kind_subject(core.SERVICES), events.KindListed(list_version="9", shape=1, count=0))
        assert left(teller, APPLY) == [APPLY]

    def test_an_observation_from_before_the_write_says_nothing(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(WRITTEN, applied(version=5, generation=2))
        teller.tell(SEEN, service(version=4, generation=1))
        assert left(teller, APPLY) == []

    @pytest.mark.parametrize(
        ("generation", "drifted", "again"),
        [(2, False, False), (3, False, True), (2, True, True), (0, False, False)],
        ids=["as written", "changed by others", "drifted", "no generation"],
    )
    def test_a_later_one_says_whether_somebody_changed_it(self, generation: int, drifted: bool, again: bool) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(WRITTEN, applied(version=5, generation=2))
        teller.tell(SEEN, service(version=6, generation=generation))
        intent = Apply(key=KEY, body=BODY, owner="o", drifted=drifted)
        assert left(teller, intent) == ([intent] if again else [])

    def test_another_object_of_the_name_is_applied_anew(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(WRITTEN, applied(version=5))
        teller.tell(SEEN, service(version=6, uid="other"))
        assert left(teller, APPLY) == [APPLY]

    def test_a_gone_one_too(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(WRITTEN, applied(version=5))
        teller.tell(SEEN, service(version=6, generation=1))
        teller.tell(SEEN, events.ObjectGone(uid="u"))
        assert left(teller, APPLY) == [APPLY]


class TestDelete:
    INTENT = Delete(key=KEY, uid="u")

    def test_what_is_there_is_deleted_once(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(SEEN, service(version=5))
        assert left(teller, self.INTENT) == [self.INTENT]

    def test_what_is_on_its_way_out_is_left_alone(self) -> None:
        teller = Teller(core.SERVICES)
        teller.tell(SEEN, service(version=5, deletionTimestamp="2026-01-01T00:00:00Z"))
        assert left(teller, self.INTENT) == []

    def test_neither_what_is_gone_nor_what_is_another(self) -> None:
        teller = Teller(core.SERVICES)
        assert left(teller, self.INTENT) == []
        teller.tell(SEEN, service(version=5, uid="other"))
        assert left(teller, self.INTENT) == []


def test_an_event_that_was_told_is_not_told_again() -> None:
    teller = Teller(core.SERVICES)
    assert left(teller, TOLD) == [TOLD]
    teller.seen(KEY.kind, {"metadata": {"name": "a", "namespace": "ml"}})
    effect = events.EffectApplied(
        verb="event", kind="events", namespace="ml", name=event_name(TOLD), desired="d", position="i:1", handler="toy",
        key=str(KEY), epoch=1,
    )  # fmt: skip
    teller.tell(subjects.effect_subject("events", "ml", event_name(TOLD)), effect)
    assert left(teller, TOLD) == []


@pytest.mark.parametrize("name", ["a" * 253, "a" * 62 + "-b", "x." * 40 + "y", "a"])
def test_the_name_of_an_event_is_a_dns_subdomain_and_fits_a_subject(name: str) -> None:
    told = msgspec.structs.replace(TOLD, about=Key("pods", "n" * 63, name))
    made = event_name(told)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", made)
    subjects.effect_subject("events", "n" * 63, made)
