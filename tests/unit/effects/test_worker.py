"""Writes: one at a time for a key, recorded with their cause, retried with pauses, stopped in time. Excluded: which
writes are wanted (tests/unit/reconcile), the calls of one intent (test_carry)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from eventstore import events, subjects
from handlers.effects.cluster import ClusterError
from handlers.outcome import Apply, Key, Patch, Status, Told
from tests.support.fakecluster import conflict
from tests.support.toysystem import KEY, POD

pytestmark = pytest.mark.looptime
Run = Callable[[Any], Any]
BODY = {"apiVersion": "v1", "kind": "Service", "metadata": {"ownerReferences": [{"uid": "o", "controller": True}]}}
APPLY = Apply(key=KEY, body=BODY, owner="o")
BUSY = ClusterError(429, "TooManyRequests", "later", retry_after=3.0)
AWAY = ClusterError(0, "NoAnswer", "nobody there")
REFUSED = ClusterError(422, "Invalid", "spec.x is no good")


def status(count: int = 1, *, lazy: bool = False, uid: str = "uid-1") -> Status:
    return Status(key=KEY, uid=uid, status={"n": count}, lazy=lazy)


def told(transition: str = "1") -> Told:
    return Told(
        about=KEY, uid="uid-1", api_version="v1", object_kind="Service", type="Normal", reason="Happened", message="m",
        transition=transition,
    )  # fmt: skip


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_write_is_recorded_with_its_cause_and_not_repeated(rig: Any, run: Run) -> None:
    rig.toy.want(APPLY)
    async with run(rig):
        await rig.quiet()
        (effect,) = rig.told(events.EffectApplied)
        assert (effect.verb, effect.kind, effect.name, effect.uid) == ("apply", "services", "a", "uid-1")
        assert (effect.epoch, effect.attempt, effect.handler, effect.key) == (7, 1, "toy", str(KEY))
        assert effect.position == f"{rig.follower.world.incarnation}:2"
        rig.look()
        await rig.quiet()
        assert rig.cluster.writes() == [("apply", KEY)]
        assert rig.worker.counts["apply", "applied"] == 1


async def test_the_event_that_named_the_key_is_the_cause_of_its_writes(rig: Any, run: Run) -> None:
    async with run(rig):
        await rig.quiet()
        rig.cluster.put(KEY, {})
        rig.toy.want(status())
        seen = events.ObjectSeen(uid="uid-1", resource_version="100", shape=1, object={"metadata": {"name": "a"}})
        await rig.tell(subjects.object_subject(*KEY), seen)
        rig.toy.want()
        await rig.quiet()
        last = [events.decode(one) for one in rig.log.log.messages][-1]
        assert isinstance(last, events.Decoded)
        assert isinstance(last.data, events.EffectApplied)
        assert last.envelope.causationid == "2"


async def test_one_key_is_written_by_one_task_at_a_time(rig: Any, run: Run) -> None:
    rig.toy.want(APPLY)
    rig.cluster.hold = asyncio.Event()
    async with run(rig):
        await asyncio.sleep(1)
        for _ in range(5):
            rig.look()
            await asyncio.sleep(1)
        assert rig.cluster.writes() == [("apply", KEY)]
        rig.cluster.hold.set()
        await rig.quiet()
        assert rig.cluster.writes() == [("apply", KEY)]


async def test_keys_are_written_side_by_side(rig: Any, run: Run) -> None:
    keys = [Key("services", "ml", f"s{n}") for n in range(40)]
    for key in keys:
        rig.toy.want(Apply(key=key, body=BODY, owner="o"), key=key)
    rig.cluster.hold = asyncio.Event()
    async with run(rig):
        await asyncio.sleep(1)
        assert len(rig.cluster.writes()) == 16
        rig.cluster.hold.set()
        await rig.quiet()
        assert sorted(key for _, key in rig.cluster.writes()) == sorted(keys)


# Trouble --------------------------------------------------------------------------------------------------------------


async def test_retry_after_is_honoured_whatever_happens_to_the_key_meanwhile(rig: Any, run: Run) -> None:
    rig.toy.want(APPLY)
    rig.cluster.faults = [BUSY]
    async with run(rig):
        began = now()
        for _ in range(10):
            rig.look()
            await asyncio.sleep(0.25)
        assert len(rig.cluster.writes()) == 1
        await rig.quiet()
        assert len(rig.cluster.writes()) == 2
        assert 3.0 <= now() - began < 3.5
        (effect,) = rig.told(events.EffectApplied)
        assert effect.attempt == 2
        assert rig.told(events.EffectFailed) == []


async def test_pauses_grow_while_nobody_answers(rig: Any, run: Run) -> None:
    rig.toy.want(APPLY)
    rig.cluster.faults = [AWAY] * 30
    async with run(rig):
        await asyncio.sleep(10)
        assert 4 <= len(rig.cluster.writes()) <= 8
        await asyncio.sleep(590)
        assert len(rig.cluster.writes()) <= 40


async def test_nobody_answers_for_one_intent_so_the_others_wait_too(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {"metadata": BODY["metadata"]})
    rig.toy.want(APPLY, status())
    rig.cluster.faults = [AWAY]
    async with run(rig):
        await asyncio.sleep(0.05)
        assert rig.cluster.writes() == [("apply", KEY)]


async def test_pauses_start_over_when_something_succeeded(rig: Any, run: Run) -> None:
    async with run(rig):
        await rig.there()
        rig.toy.want(APPLY, told())
        rig.cluster.faults = [AWAY, AWAY, AWAY, None, AWAY, AWAY, AWAY]
        rig.look()
        began = now()
        while len(rig.told(events.EffectApplied)) < 2:
            await asyncio.sleep(0.01)
        assert now() - began < 2 * (0.25 + 0.5 + 1.0) + 0.1


async def test_a_conflict_is_tried_again_soon_and_told_nowhere(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    rig.toy.want(status())
    rig.cluster.faults = [conflict()]
    async with run(rig):
        began = now()
        while not rig.told(events.EffectApplied):
            await asyncio.sleep(0.01)
        assert now() - began < 0.3
        assert rig.told(events.EffectFailed) == []
        rig.toy.want()


async def test_what_is_not_there_is_not_asked_for_in_a_tight_loop(rig: Any, run: Run) -> None:
    rig.toy.want(status(uid="gone"))
    async with run(rig):
        await asyncio.sleep(60)
        assert 5 <= len(rig.cluster.calls) <= 16


async def test_a_refusal_is_told_once_and_tried_slowly_and_the_rest_goes_on(rig: Any, run: Run) -> None:
    rig.cluster.failing = frozenset(("apply",))
    rig.cluster.faults = [REFUSED] * 100
    async with run(rig):
        await rig.there()
        rig.toy.want(APPLY, status(), told())
        for _ in range(50):  # whatever names the key
            rig.look()
            await asyncio.sleep(0.5)
        assert len(rig.cluster.writes("apply")) == 1
        assert len(rig.cluster.writes("create")) == 1
        assert len(rig.told(events.EffectFailed)) == 1
        failed = rig.told(events.EffectFailed)[0]
        assert (failed.code, failed.reason, failed.message) == (422, "Invalid", "spec.x is no good")
        assert rig.cluster.objects[KEY]["status"] == {"n": 1}
        await asyncio.sleep(120)
        assert 2 <= len(rig.cluster.writes("apply")) <= 5
        assert len(rig.told(events.EffectFailed)) == 1


async def test_another_body_is_tried_at_once_after_a_refusal(rig: Any, run: Run) -> None:
    rig.cluster.failing = frozenset(("apply",))
    rig.cluster.faults = [REFUSED]
    rig.toy.want(APPLY)
    async with run(rig):
        await asyncio.sleep(1)
        other = Apply(key=KEY, body={**BODY, "spec": {"x": 2}}, owner="o")
        rig.toy.want(other)
        rig.look()
        await rig.quiet()
        assert [one.body for one in rig.told(events.EffectApplied)] == [other.body]


async def test_a_foreign_object_is_left_alone_and_that_is_told_once(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {"metadata": {"labels": {"somebody": "else"}}})
    rig.toy.want(APPLY)
    async with run(rig):
        for _ in range(5):
            rig.look()
            await asyncio.sleep(2)
        assert rig.cluster.writes() == []
        (failed,) = rig.told(events.EffectFailed)
        assert failed.reason == "Foreign"


async def test_a_handler_that_raises_is_asked_slowly_and_recovers(rig: Any, run: Run) -> None:
    rig.toy.wanted[KEY] = RuntimeError("boom")
    async with run(rig):
        for _ in range(100):
            rig.look()
            await asyncio.sleep(0.1)
        assert 3 <= len(rig.toy.looked) <= 10
        rig.toy.want(APPLY)
        await rig.quiet()
        assert rig.cluster.writes() == [("apply", KEY)]


async def test_a_write_that_was_not_recorded_is_not_done_twice(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    rig.toy.want(status())
    async with run(rig):
        rig.log.faults.drop = 1
        while not rig.told(events.EffectApplied):
            await asyncio.sleep(0.01)
        rig.toy.want()
        await rig.quiet()
        assert rig.cluster.writes() == [("status", KEY)], "the second look found it so"
        assert rig.worker.counts["event", "unrecorded"] == 1


# Pace -----------------------------------------------------------------------------------------------------------------


async def test_counts_are_written_at_most_once_in_five_seconds(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    async with run(rig):
        await rig.quiet()
        began = now()
        for count in range(300):
            rig.toy.want(status(count, lazy=True))
            rig.look()
            await asyncio.sleep(0.1)
        rig.toy.want(status(300, lazy=True))
        assert now() - began >= 30
        assert len(rig.cluster.writes()) in (6, 7)
        await asyncio.sleep(5.1)
        assert rig.cluster.objects[KEY]["status"] == {"n": 300}, "the last count is never lost"


async def test_what_is_no_count_is_written_at_once(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    async with run(rig):
        rig.toy.want(status(1, lazy=True))
        rig.look()
        await asyncio.sleep(0.1)
        rig.toy.want(status(2))
        rig.look()
        await asyncio.sleep(0.1)
        assert rig.cluster.objects[KEY]["status"] == {"n": 2}


async def test_a_status_that_never_converges_is_not_written_in_a_tight_loop(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    rig.cluster.stored = lambda verb, body: {}  # the server keeps none of it
    rig.toy.want(status())
    async with run(rig):
        for _ in range(600):
            rig.look()
            await asyncio.sleep(0.1)
        assert 4 <= len(rig.cluster.writes()) <= 12


async def test_neither_is_one_that_is_another_each_time(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    async with run(rig):
        for count in range(1200):
            rig.toy.want(status(count))
            rig.look()
            await asyncio.sleep(0.05)
        assert 30 <= len(rig.told(events.EffectApplied)) <= 45


# Events ---------------------------------------------------------------------------------------------------------------


async def test_an_event_is_told_once_also_by_the_next_leader(rig: Any, run: Run) -> None:
    async with run(rig):
        await rig.there()
        rig.toy.want(told())
        rig.look()
        await rig.quiet()
        ((_, name),) = rig.cluster.writes("create")
        assert len(rig.told(events.EffectApplied)) == 1
        rig.follower.world.told.clear()  # as if we had died before it was recorded
        rig.look()
        await rig.quiet()
        assert rig.cluster.writes("create") == [("create", name)] * 2, "the second one is a conflict that means done"
        assert sorted(rig.cluster.objects) == sorted([KEY, name])


async def test_an_event_comes_before_the_status_it_tells_of(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    rig.toy.want(status(), told())
    async with run(rig):
        while len(rig.cluster.writes()) < 2:
            await asyncio.sleep(0.01)
        rig.toy.want()
        assert [verb for verb, _ in rig.cluster.writes()][:2] == ["create", "status"]


# Leading --------------------------------------------------------------------------------------------------------------


async def test_who_does_not_lead_writes_nothing(rig: Any, run: Run) -> None:
    rig.toy.want(APPLY)
    rig.leads = False
    async with run(rig):
        for _ in range(5):
            rig.look()
            await asyncio.sleep(1)
        assert rig.cluster.calls == []


async def test_who_stops_leading_between_read_and_write_does_not_write(rig: Any, run: Run) -> None:
    rig.cluster.put(KEY, {})
    rig.toy.want(Patch(key=KEY, uid="uid-1", resource_version="1", patch={"spec": {"x": 1}}), status())
    async with run(rig):
        read = rig.cluster.get

        async def get(key: Key) -> Any:
            found = await read(key)
            rig.leads = False
            return found

        rig.cluster.get = get
        rig.look(POD)
        await asyncio.sleep(0.9)
        assert rig.cluster.writes() == []


async def test_what_is_under_way_ends_with_the_worker(rig: Any, run: Run) -> None:
    rig.toy.want(APPLY)
    rig.cluster.hold = asyncio.Event()
    async with run(rig):
        await asyncio.sleep(0.1)
    rig.cluster.hold.set()
    await asyncio.sleep(1)
    assert KEY not in rig.cluster.objects


async def test_what_is_remembered_of_keys_is_forgotten(rig: Any, run: Run) -> None:
    async with run(rig):
        for number in range(3000):
            key = Key("services", "ml", f"s{number}")
            rig.toy.want(Apply(key=key, body=BODY, owner="o"), key=key)
            rig.look(key)
            if number % 500 == 499:
                await rig.quiet()
                await asyncio.sleep(61)
        assert len(rig.worker._pace) <= 1600
