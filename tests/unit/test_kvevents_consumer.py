"""What each fact of a source means for table, replica, coverage and journal. Excluded: sockets, decoding, the wire."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore import kvwire
from subscribers.kvevents import consumer, endpoints, facts, replica, session, table

WHO = session.Identity(uid="uid", tenant="t", replica="r", model="m", scheme="vllm")
BLOCK = list(range(16))


class Sink:
    def __init__(self) -> None:
        self.said: list[kvwire.AnyMessage] = []
        self.order: Any = None

    async def send(self, payload: bytes) -> int:
        self.said.append(kvwire.decode(payload))
        return len(self.said)

    async def listen(self, on_order: Any) -> None:
        self.order = on_order


class Journal:
    def __init__(self) -> None:
        self.broken = ""
        self.kept: list[tuple[Any, ...]] = []

    def applied(self, position: facts.Position, payload: bytes, **how: Any) -> None:
        self.kept.append(("applied", position.seq, bool(payload), how["coverage"], how["epoch"], how["forget"]))

    def dropped(self, scope: str, **how: Any) -> None:
        self.kept.append(("dropped", scope, how["coverage"], how["epoch"], how["restart"]))


class Source:
    where = endpoints.RankEndpoints(0, "tcp://127.0.0.1:5557", None)

    async def follow(self) -> AsyncGenerator[facts.Fact, None]:
        if False:
            yield


class Rig:
    def __init__(
        self, *, replay: bool = True, restored: consumer.Restored | None = None, keep: Path | None = None
    ) -> None:
        self.sink, self.journal, self.table = Sink(), Journal(), table.Table()
        self.replica = replica.Replica(WHO, self.table, self.sink, boot="b", clock=asyncio.get_running_loop().time)
        self.others: dict[int, consumer.Rank] = {}
        self.consumer = consumer.Consumer(
            Source(),
            consumer.Rank(self.replica, self.table),
            open_rank=self.open_rank,
            replay=replay,
            journal=self.journal,
            restored=restored,
            quarantine=keep,
        )
        self.seq = -1
        self.speaking: asyncio.Future[None] | None = None

    def open_rank(self, number: int) -> consumer.Rank:
        held = table.Table()
        other = replica.Replica(
            msgspec.structs.replace(WHO, replica=f"r@{number}"), held, Sink(), boot="o", clock=lambda: 0.0
        )
        self.others[number] = consumer.Rank(other, held)
        return self.others[number]

    def batch(self, *events: Any, rank: int | None = None, raw: bytes | None = None) -> None:
        self.seq += 1
        payload = msgspec.msgpack.encode([1.0, list(events), rank]) if raw is None else raw
        self.consumer.take(facts.Batch(self.seq, payload, self.seq + 1000))

    async def speak(self, seconds: float = 0.5) -> None:
        """Let the replica speak for a while; what ends it is raised here."""
        if self.speaking is None:
            self.speaking = asyncio.ensure_future(self.replica.run())
        await asyncio.sleep(seconds)
        if self.speaking.done():
            self.speaking.result()

    def begins(self) -> list[tuple[str, str, str]]:
        return [
            (begin.session, begin.coverage, begin.reason) for begin in self.sink.said if isinstance(begin, kvwire.Begin)
        ]


def stored(number: int = 1, tokens: list[int] = BLOCK) -> list[Any]:
    return ["BlockStored", [number], None, tokens, 16, None, "GPU"]


ATTACHED = facts.Attached(0, True)


@pytest.mark.looptime
async def test_nothing_is_said_before_the_engine_was_reached() -> None:
    rig = Rig()
    await rig.speak(10)
    assert rig.sink.said == []


@pytest.mark.looptime
async def test_first_contact_begins_a_complete_session_and_batches_become_keys() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored())
    await rig.speak()
    assert rig.begins() == [("b-1", "complete", "start")]
    assert rig.table.count == 1
    assert rig.journal.kept == [("applied", 0, True, "complete", 0, False)]


@pytest.mark.looptime
async def test_without_a_replay_socket_a_replica_is_partial_until_the_engine_speaks_from_its_beginning() -> None:
    rig = Rig(replay=False)
    rig.consumer.take(facts.Connected("tcp://127.0.0.1:5557"))
    await rig.speak()
    rig.consumer.take(ATTACHED)
    await rig.speak()
    assert [begin[1:] for begin in rig.begins()] == [
        ("partial", "the engine has not spoken yet"),
        ("complete", "complete"),
    ]


@pytest.mark.looptime
async def test_a_journal_that_continues_keeps_table_and_coverage() -> None:
    rig = Rig(restored=consumer.Restored("partial", 3))
    rig.table.apply_batch([], 0.0)
    rig.consumer.take(facts.Attached(5, True, continued=True))
    rig.batch(stored())
    await rig.speak()
    assert rig.begins() == [("b-1", "partial", "continued")]
    assert rig.journal.kept == [("applied", 0, True, "partial", 3, False)]


@pytest.mark.looptime
async def test_a_new_life_forgets_everything_in_a_new_session() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored())
    await rig.speak()
    rig.consumer.take(facts.NewLife(0, True, "the sequence went back"))
    rig.batch(stored(2, list(range(100, 116))))
    await rig.speak()
    assert [begin[0] for begin in rig.begins()] == ["b-1", "b-2"]
    assert rig.table.count == 1
    assert ("dropped", "forget", "complete", 1, True) in rig.journal.kept


@pytest.mark.looptime
async def test_a_life_that_was_told_before_its_first_batch_is_one_session() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    await rig.speak()
    rig.consumer.take(facts.NewLife(facts.UNKNOWN, False, "nothing proves that it is the same"))
    await rig.speak()
    rig.consumer.take(facts.NewLife(95, False, "first contact at batch 95"))
    rig.batch(stored())
    await rig.speak()
    assert [begin[:2] for begin in rig.begins()] == [("b-1", "complete"), ("b-2", "partial")]
    assert rig.table.count == 1


@pytest.mark.looptime
async def test_a_gap_forgets_everything_and_is_partial_in_the_same_session() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored())
    await rig.speak()
    rig.consumer.take(facts.Gap(1, 4, "no replay endpoint"))
    await rig.speak()
    assert [begin[:2] for begin in rig.begins()] == [("b-1", "complete"), ("b-1", "partial")]
    assert rig.table.count == 0


@pytest.mark.looptime
async def test_a_gone_engine_ends_its_session_and_says_nothing_until_it_is_back() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored())
    await rig.speak()

    rig.consumer.take(facts.Gone("tcp://127.0.0.1:5557", 2.0))
    await rig.speak(60)
    assert isinstance(rig.sink.said[-1], kvwire.Bye)
    assert rig.table.count == 0


@pytest.mark.looptime
async def test_an_engine_that_came_and_went_in_one_breath_is_not_spoken_for() -> None:
    rig = Rig()
    await rig.speak(1)
    rig.consumer.take(ATTACHED)
    rig.consumer.take(facts.Gone("tcp://127.0.0.1:5557", 2.0))
    await rig.speak(60)
    assert rig.sink.said == []


@pytest.mark.looptime
async def test_all_blocks_cleared_is_one_empty_keyframe_and_completes_a_partial_replica() -> None:
    rig = Rig()
    rig.consumer.take(facts.Attached(7, False, reason="first contact at batch 7"))
    rig.batch(stored())
    await rig.speak()
    rig.batch(["AllBlocksCleared"])
    await rig.speak()
    assert [begin[1:] for begin in rig.begins()] == [("partial", "first contact at batch 7"), ("complete", "cleared")]
    assert rig.sink.said[-1] == kvwire.End(1, "uid", "b-1", rig.sink.said[-1].n, 1, "complete", 0, 0)


@pytest.mark.looptime
async def test_a_malformed_store_loses_no_other_event_and_makes_the_replica_partial() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored(), ["BlockStored", "no list", None, BLOCK, 16, None], stored(3, list(range(50, 66))))
    await rig.speak()
    assert rig.table.count == 2
    assert rig.replica.coverage == "partial"


@pytest.mark.looptime
@pytest.mark.parametrize("bad", [["BlockRemoved", "no list"], ["BlockRemoved"]], ids=str)
async def test_a_malformed_removal_forgets_what_it_may_have_removed(bad: list[Any]) -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored())
    rig.batch(bad)
    await rig.speak()
    assert rig.table.count == 0
    assert rig.replica.coverage == "partial"
    assert rig.journal.kept[-1][-1] is True


@pytest.mark.looptime
async def test_an_undecodable_batch_is_quarantined_counted_and_bounded(tmp_path: Path) -> None:
    rig = Rig(keep=tmp_path / "quarantine")
    rig.consumer.take(ATTACHED)
    for _ in range(40):
        rig.batch(raw=b"\xc1 not msgpack")
    rig.batch(stored())
    await rig.speak()
    assert rig.consumer.counters.undecodable == 40
    assert len(list((tmp_path / "quarantine").iterdir())) == 16
    assert rig.table.count == 1, "the next good batch applies"


@pytest.mark.looptime
async def test_an_unknown_tag_costs_nothing() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(["Mystery", 1], stored())
    await rig.speak()
    assert (rig.table.count, rig.replica.coverage, rig.consumer.counters.unknown_tags) == (1, "complete", 1)


@pytest.mark.looptime
async def test_a_rank_in_the_payload_wins_over_the_ports_and_has_a_replica_of_its_own() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored(), rank=3)
    rig.batch(stored(2, list(range(30, 46))), rank=0)
    assert rig.others[3].table.pending == 1
    assert rig.table.pending == 1
    assert rig.journal.kept[0][:3] == ("applied", 0, False), "the journal is the port's own rank's"


@pytest.mark.looptime
async def test_an_undecodable_batch_may_have_been_any_ranks() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored(), rank=3)
    rig.batch(raw=b"\xc1")
    assert rig.others[3].table.pending == rig.others[3].table.count == 0
    assert rig.others[3].replica.coverage == "partial"


NOT_WHOLE = {
    "the journal kept the port's own rank only": facts.Attached(7, False, continued=True),
    "what came before is not known": facts.Attached(7, False),
    "it may have spoken in a gap": facts.Gap(1, 2, "lost"),
    "the life was joined late": facts.NewLife(7, False, "restart"),
}


@pytest.mark.looptime
@pytest.mark.parametrize("before", NOT_WHOLE.values(), ids=NOT_WHOLE)
async def test_a_rank_learned_late_is_partial(before: facts.Fact) -> None:
    rig = Rig(restored=consumer.Restored("complete", 0))
    if isinstance(before, facts.Gap):
        rig.consumer.take(ATTACHED)
    rig.consumer.take(before)
    rig.batch(["AllBlocksCleared"])  # the own rank is complete from here on, the other may hold what it held
    rig.batch(stored(), rank=3)
    assert (rig.replica.coverage, rig.others[3].replica.coverage) == ("complete", "partial")


@pytest.mark.looptime
async def test_ranks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_MOST_RANKS", 3)
    rig = Rig()
    rig.consumer.take(ATTACHED)
    for number in range(1, 100):
        rig.batch(stored(), rank=number)
    assert list(rig.others) == [1, 2]
    assert rig.consumer.counters.foreign_ranks == 99


@pytest.mark.looptime
async def test_a_sleeping_engine_holds_nothing_although_no_event_says_so() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    rig.batch(stored())
    await rig.speak()
    rig.consumer.asleep()
    await rig.speak()
    assert rig.table.count == 0
    assert rig.begins()[-1][2] == "cleared"


@pytest.mark.looptime
async def test_statistics_travel_with_the_next_heartbeat_also_of_a_later_session() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    await rig.speak()
    rig.replica.measured(kvwire.Stats(at=5.0, hit_rate=0.5))
    await rig.speak(6)
    rig.consumer.take(facts.NewLife(0, True, "restart"))
    await rig.speak(6)
    rates = [beat.stats.hit_rate for beat in rig.sink.said if isinstance(beat, kvwire.Beat) and beat.stats]
    assert rates == [0.5, 0.5]


@pytest.mark.looptime
async def test_being_fenced_ends_the_replica() -> None:
    rig = Rig()
    rig.consumer.take(ATTACHED)
    await rig.speak()
    rig.sink.order(kvwire.Control("fenced", "b-1", "session x began later"))
    with pytest.raises(session.Fenced, match="session x began later"):
        await rig.speak()
