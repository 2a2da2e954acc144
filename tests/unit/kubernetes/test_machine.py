"""The watch as a state machine, step by step. Excluded: any interleaving (test_converging), sockets (integration)."""

from typing import Any

import msgspec
import pytest

from crds import core
from handlers.world.state import Known
from subscribers.kubernetes.machine import Complete, Gone, Machine, Next, Seen
from subscribers.kubernetes.narrow import Narrow, narrow
from tests.support import fakeapi


def machine(version: str = "") -> Machine:
    made = Machine(core.PODS)
    made.version = version
    return made


def narrowed(name: str, **how: Any) -> Narrow:
    return narrow(core.PODS, msgspec.json.encode(fakeapi.document(name, **how)))


def known(*names: str, uid: str = "u") -> dict[tuple[str, str], Known]:
    return {("ml", name): Known(uid, "1", 1, 1, 0, None) for name in names}


class TestLists:
    def test_the_first_list_says_who_is_there_and_that_it_is_complete(self) -> None:
        watch = machine()
        facts, following = watch.listed([narrowed("b"), narrowed("a")], "9", {})
        assert [one.object.name for one in facts if isinstance(one, Seen)] == ["a", "b"]
        assert facts[-1] == Complete("9", 2)
        assert (following, watch.version) == (Next("watch"), "9")

    def test_who_is_missing_is_gone_as_of_the_list(self) -> None:
        facts, _ = machine().listed([narrowed("a")], "9", known("a", "b"))
        assert Gone("ml", "b", "u", "9") in facts

    def test_another_object_of_the_name_is_one_gone_and_one_seen(self) -> None:
        facts, _ = machine().listed([narrowed("a", uid="new")], "9", known("a", uid="old"))
        assert facts[0] == Gone("ml", "a", "old", "9")
        assert isinstance(facts[1], Seen)

    def test_a_large_shrinkage_is_not_believed_at_once(self) -> None:
        watch = machine()
        names = [f"p{n}" for n in range(20)]
        facts, following = watch.listed([narrowed("p0")], "9", known(*names))
        assert (facts, following.do) == ([], "list")
        assert following.pause > 0
        facts, following = watch.listed([narrowed("p0")], "10", known(*names))
        assert sum(isinstance(one, Gone) for one in facts) == 19
        assert following.do == "watch"

    def test_a_list_that_was_wrong_takes_nobody_away(self) -> None:
        watch = machine()
        names = [f"p{n}" for n in range(20)]
        watch.listed([], "9", known(*names))
        facts, following = watch.listed([narrowed(name) for name in names], "10", known(*names))
        assert not any(isinstance(one, Gone) for one in facts)
        assert following.do == "watch"

    def test_only_what_is_missing_in_both_is_gone(self) -> None:
        watch = machine()
        names = [f"p{n}" for n in range(20)]
        watch.listed([narrowed(name) for name in names[:10]], "9", known(*names))
        facts, following = watch.listed([narrowed(name) for name in names[10:]], "10", known(*names))
        assert facts == []
        assert following.do == "list"

    def test_a_slow_mass_deletion_is_followed(self) -> None:
        watch = machine()
        world = known(*(f"p{n}" for n in range(100)))
        for left in range(90, -1, -10):
            facts, _ = watch.listed([narrowed(f"p{n}") for n in range(left)], str(200 - left), world)
            for one in facts:
                if isinstance(one, Gone):
                    del world[one.namespace, one.name]
            assert len(world) <= left + 30 + 6
        facts, following = watch.listed([], "300", world)
        assert following.do == "watch"

    @pytest.mark.parametrize(("before", "after"), [(5, 0), (100, 71)], ids=["few", "a small share"])
    def test_a_small_shrinkage_is_believed(self, before: int, after: int) -> None:
        names = [f"p{n}" for n in range(before)]
        facts, following = machine().listed([narrowed(name) for name in names[:after]], "9", known(*names))
        assert sum(isinstance(one, Gone) for one in facts) == before - after
        assert following.do == "watch"


class TestLines:
    @pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
    def test_a_change_is_seen_and_moves_the_version(self, kind: str) -> None:
        watch = machine("3")
        fact, following = watch.line(fakeapi.line(kind, fakeapi.document("a", version=7)))
        assert isinstance(fact, Seen)
        assert not fact.listed
        assert (fact.object.name, following, watch.version) == ("a", None, "7")

    def test_a_deletion_is_gone_with_its_version(self) -> None:
        fact, _ = machine("3").line(fakeapi.line("DELETED", fakeapi.document("a", uid="x", version=8)))
        assert fact == Gone("ml", "a", "x", "8")

    def test_a_bookmark_moves_the_version_only(self) -> None:
        watch = machine("3")
        assert watch.line(fakeapi.bookmark(50)) == (None, None)
        assert watch.version == "50"

    def test_a_version_that_is_too_old_means_to_list_at_once(self) -> None:
        assert machine("3").line(fakeapi.error(410)) == (None, Next("list"))

    def test_but_not_in_a_tight_loop(self) -> None:
        watch = machine("3")
        pauses = []
        for _ in range(8):
            pauses.append(watch.failed(code=410).pause)
            watch.listed([], "4", {})
        assert pauses[0] == 0
        assert pauses[1:] == sorted(pauses[1:])
        assert pauses[-1] > 10

    @pytest.mark.parametrize("code", [500, 504, 429])
    def test_another_error_means_to_wait_and_watch_from_the_same_version(self, code: int) -> None:
        watch = machine("3")
        _, following = watch.line(fakeapi.error(code))
        assert following is not None
        assert (following.do, watch.version) == ("watch", "3")
        assert following.pause > 0

    @pytest.mark.parametrize(
        "line", [b"{", b"[]", b'{"type":"ODD","object":{}}', b'{"type":"ADDED","object":{"metadata":3}}', b"\xff"]
    )
    def test_what_cannot_be_read_ends_the_stream_and_a_list_steps_over_it(self, line: bytes) -> None:
        watch = machine("3")
        steps = []
        for _ in range(3):
            fact, following = watch.line(line)
            assert fact is None
            assert following is not None
            steps.append(following.do)
        assert steps == ["watch", "watch", "list"]
        assert watch.version == "3"


class TestPauses:
    def test_they_grow_to_half_a_minute_and_start_over_when_something_was_heard(self) -> None:
        watch = machine("3")
        pauses = [watch.failed().pause for _ in range(12)]
        assert pauses[:4] == [0.2, 0.4, 0.8, 1.6]
        assert pauses[-1] == 30.0
        watch.line(fakeapi.bookmark(4))
        assert watch.failed().pause == 0.2

    def test_the_server_may_ask_for_more(self) -> None:
        assert machine("3").failed(code=429, retry_after=17.0).pause == 17.0

    def test_a_watch_that_lived_is_begun_again_at_once(self) -> None:
        watch = machine("3")
        watch.failed()
        assert watch.ended(lasted=280.0) == Next("watch")
        assert watch.ended(lasted=0.1).pause == 0.2

    def test_one_that_the_server_closes_each_time_is_not_hammered(self) -> None:
        watch = machine("3")
        assert [watch.ended(lasted=0.0).pause for _ in range(4)] == [0.2, 0.4, 0.8, 1.6]

    def test_before_the_first_list_there_is_nothing_to_watch(self) -> None:
        assert machine().failed().do == "list"

    def test_a_kind_that_is_not_served_is_looked_for_every_few_seconds(self) -> None:
        watch = machine()
        following = [watch.failed(code=404) for _ in range(20)]
        assert {one.do for one in following} == {"list"}
        assert following[-1].pause == 3.0

    def test_what_could_not_be_told_is_listed_again(self) -> None:
        following = machine("3").untold()
        assert following.do == "list"
        assert following.pause > 0
