"""What of the facts is news, and that each is told once: conflicts, lost acks, leaders that slept."""

import msgspec
import pytest

from crds import core
from crds.inferencecache import CACHE_TENANTS
from eventstore import events, memory, store, subjects
from handlers.outcome import Key
from subscribers.kubernetes.appending import Deposed, Untold
from subscribers.kubernetes.machine import Complete, Gone, Seen
from subscribers.kubernetes.narrow import narrow
from tests.support.leaderlog import Leader, said, seen

A = Key(core.PODS, "ml", "a")


@pytest.fixture
def log() -> memory.MemoryStore:
    return memory.MemoryStore()


class TestNews:
    async def test_an_object_is_told_once(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(seen("a", version=5))
        await leader.record(seen("a", version=5))
        assert said(log) == ["seen a u@5"]
        assert leader.world.find(A) is not None

    async def test_a_touch_that_changes_nothing_we_read_is_no_news(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(seen("a", version=5), seen("a", version=6), seen("a", version=7, labels={"x": "y"}))
        assert said(log) == ["seen a u@5", "seen a u@7"]

    async def test_nor_is_a_touch_of_what_cannot_be_read_any_more(self, log: memory.MemoryStore) -> None:
        """The world keeps the last good value, and this is not one that it could be compared with."""
        leader = Leader(log)
        for version, identity in enumerate(["team-a", 3, 3, 4, [], "team-a", "team-a"], 1):
            metadata = {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": str(version)}
            document = {"metadata": metadata, "spec": {"tenantID": identity}}
            fact = Seen(narrow(CACHE_TENANTS, msgspec.json.encode(document)), listed=False)
            await leader.recorder.record(CACHE_TENANTS, [fact])
        assert said(log) == ["seen a u@1", "seen a u@2", "seen a u@5", "seen a u@6"]

    async def test_changes_of_one_object_keep_their_order(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(*(seen("a", version=n, labels={"n": str(n)}) for n in range(2, 12)))
        assert said(log) == [f"seen a u@{n}" for n in range(2, 12)]

    async def test_a_deletion_of_what_nobody_knew_is_no_news(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(Gone("ml", "a", "u", "9"))
        assert said(log) == []

    async def test_a_deletion_is_of_one_object_and_not_of_its_name(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(seen("a", uid="new", version=9), Gone("ml", "a", "old", "8"))
        assert said(log) == ["seen a new@9"]

    async def test_a_name_that_comes_back_is_another_object(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(
            seen("a", uid="1", version=5), Gone("ml", "a", "1", "6"), seen("a", uid="2", version=7),
            Gone("ml", "a", "2", "8"), seen("a", uid="3", version=9),
        )  # fmt: skip
        assert said(log) == ["seen a 1@5", "gone a 1@6", "seen a 2@7", "gone a 2@8", "seen a 3@9"]

    async def test_every_list_is_told(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(Complete("5", 0))
        await leader.record(Complete("5", 0))
        assert said(log) == ["listed 0@5", "listed 0@5"]

    async def test_an_older_shape_is_told_again(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        old = events.ObjectSeen(
            uid="u", resource_version="5", shape=0, object={"metadata": {"name": "a", "namespace": "ml", "uid": "u"}}
        )
        event = events.event(old, id="x", source="t", subject=subjects.object_subject(*A), time_ns=1, actor="t")
        await log.append(event)
        await leader.follow()
        await leader.record(seen("a", version=5))
        assert said(log) == ["seen a u@5", "seen a u@5"]

    async def test_our_write_is_told_when_it_is_observed_even_if_it_changed_nothing(
        self, log: memory.MemoryStore
    ) -> None:
        leader = Leader(log)
        await leader.record(seen("a", version=5))
        wrote = events.EffectApplied(
            verb="apply", kind=core.PODS, namespace="ml", name="a", uid="u", resource_version="8", desired="d",
            position="i:1", handler="h", key=str(A), epoch=1,
        )  # fmt: skip
        await log.append(
            events.event(wrote, id="w", source="t", subject=subjects.effect_subject(*A), time_ns=1, actor="t")
        )
        await leader.follow()
        await leader.record(seen("a", version=7))
        await leader.record(seen("a", version=9))
        await leader.record(seen("a", version=10))
        assert said(log) == ["seen a u@5", "EffectApplied", "seen a u@9"]


class TestOldFacts:
    async def test_a_watch_that_is_behind_shadows_nothing(self, log: memory.MemoryStore) -> None:
        old, new = Leader(log, epoch=1), Leader(log, epoch=2)
        await new.record(seen("a", version=9, labels={"x": "new"}))
        await old.follow()
        await old.record(seen("a", version=5, labels={"x": "old"}))
        assert said(log) == ["seen a u@9"]

    async def test_nor_before_it_folded_what_it_missed(self, log: memory.MemoryStore) -> None:
        old, new = Leader(log, epoch=1), Leader(log, epoch=2)
        await new.record(seen("a", version=9, labels={"x": "new"}))
        await old.record(seen("a", version=5, labels={"x": "old"}))
        assert said(log) == ["seen a u@9"]
        assert old.recorder.conflicts == 1

    @pytest.mark.parametrize("uid", ["u", "older"])
    async def test_what_is_gone_does_not_come_back(self, log: memory.MemoryStore, uid: str) -> None:
        old, new = Leader(log, epoch=1), Leader(log, epoch=2)
        await new.record(seen("a", version=9))
        await new.record(Gone("ml", "a", "u", "12"))
        await old.record(seen("a", uid=uid, version=10))
        await old.follow()
        await old.record(seen("a", uid=uid, version=11))
        assert said(log) == ["seen a u@9", "gone a u@12"]

    async def test_but_a_new_object_of_the_name_does(self, log: memory.MemoryStore) -> None:
        old, new = Leader(log, epoch=1), Leader(log, epoch=2)
        await old.record(seen("a", version=9))
        await old.record(Gone("ml", "a", "u", "12"))
        await new.record(seen("a", uid="next", version=13))
        assert said(log)[-1] == "seen a next@13"

    async def test_a_deletion_that_another_told_is_not_told_again(self, log: memory.MemoryStore) -> None:
        first, second = Leader(log, epoch=1), Leader(log, epoch=2)
        await first.record(seen("a", version=9))
        await second.follow()
        await first.record(Gone("ml", "a", "u", "12"))
        await second.record(Gone("ml", "a", "u", "12"))
        assert said(log) == ["seen a u@9", "gone a u@12"]

    async def test_a_list_below_what_we_know_says_that_the_api_was_restored(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(seen("a", version=900, labels={"x": "1"}))
        await leader.record(seen("a", version=400, labels={"x": "1"}, listed=True))
        await leader.record(seen("a", version=401, labels={"x": "2"}))
        assert said(log) == ["seen a u@900", "seen a u@400", "seen a u@401"]

    async def test_who_does_not_lead_tells_nothing(self, log: memory.MemoryStore) -> None:
        leader = Leader(log, leads=lambda: False)
        with pytest.raises(Deposed):
            await leader.record(seen("a"))
        assert said(log) == []


class TestTheLog:
    async def test_a_lost_ack_is_found_again(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        log.faults.lose_acks = 1
        with pytest.raises(store.Unavailable):
            await leader.record(seen("a", version=5))
        await leader.record(seen("a", version=5))
        await leader.record(seen("a", version=6, labels={"x": "y"}))
        assert said(log) == ["seen a u@5", "seen a u@6"]

    async def test_an_outage_is_the_callers(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        log.faults.outage = True
        with pytest.raises(store.Unavailable):
            await leader.record(*(seen(f"p{n}") for n in range(20)))

    async def test_who_is_never_first_gives_up_for_a_list(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)

        async def append(event: object, *, expected: int | None = None) -> store.Appended:
            raise store.Conflict("s", 0, 1)

        await leader.record(seen("a", version=1))
        leader.recorder.log.append = append  # type: ignore[method-assign]
        with pytest.raises(Untold, match="others were first"):
            await leader.record(seen("a", version=2, labels={"x": "y"}))

    async def test_a_nearly_full_log_takes_deletions_and_lists_and_the_rest_is_looked_at_again(
        self, log: memory.MemoryStore
    ) -> None:
        leader = Leader(log)
        await leader.record(seen("a", version=5))
        log.log.max_bytes = int(log.log.bytes / 0.96)
        with pytest.raises(Untold, match="takes no more"):
            await leader.record(seen("b", version=6))
        log.log.max_bytes, log.log.bytes = 100_000, 97_000
        await leader.record(Gone("ml", "a", "u", "7"))
        assert said(log)[-1].startswith("gone a")

    async def test_a_name_that_no_subject_can_hold_is_passed_over_and_told_once(
        self, log: memory.MemoryStore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        leader = Leader(log)
        long = "x." * 120 + "x"
        for version in (5, 6):
            await leader.record(seen(long, version=version, labels={"v": str(version)}), seen("a", version=version))
        assert said(log) == ["seen a u@5"]
        assert [key.name for key in leader.recorder.untellable] == [long]
        assert capsys.readouterr().out.count("object-cannot-be-told") == 1

    async def test_contact_is_told_every_two_seconds_at_most(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        now = 10**18
        leader.recorder.clock = lambda: now
        for _ in range(101):
            await leader.recorder.heard()
            now += 100_000_000
        assert said(log).count("WatchContact") == 6

    async def test_a_clock_that_jumps_back_does_not_silence_it(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        now = 10**18
        leader.recorder.clock = lambda: now
        await leader.recorder.heard()
        now -= 3600 * 10**9
        await leader.recorder.heard()
        assert said(log).count("WatchContact") == 2

    async def test_many_at_once_are_all_told(self, log: memory.MemoryStore) -> None:
        leader = Leader(log)
        await leader.record(*(seen(f"p{n}", uid=f"u{n}") for n in range(600)), Complete("9", 600))
        assert len(said(log)) == 601
        assert said(log)[-1] == "listed 600@9"
        assert len(leader.world.keys(core.PODS)) == 600
