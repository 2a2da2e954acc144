"""Live and replayed frames in every order. Excluded: sockets (tests/integration/test_kvevents_source.py) and what one
number means (test_kvevents_cursor)."""

from collections.abc import Iterable

import hypothesis
import pytest
from hypothesis import strategies

from subscribers.kvevents import facts, sequencer, sockets


def frame(seq: int, life: int = 0) -> sockets.Frame:
    """Batch `seq` of a life: every life has other payloads."""
    return sockets.frame(seq, b"%d/%d" % (life, seq), 100)


class Rank:
    """A sequencer whose questions are answered from a ring, as an engine does."""

    def __init__(self, *, replays: bool = True, resume: facts.Position | None = None) -> None:
        self.sequencer = sequencer.Sequencer(resume, replays=replays, payload_limit=100, context={})
        self.ring: list[sockets.Frame] = []
        self.asked: list[int] = []
        self.said: list[facts.Fact] = []
        self.fail = ""
        self.lose: set[int] = set()  # numbers that the next answer loses on its way

    def live(self, *frames: sockets.Frame) -> None:
        for each in frames:
            self.said += self.sequencer.live(each)
            self.serve()

    def connected(self) -> None:
        self.said += self.sequencer.connected()
        self.serve()

    def serve(self) -> None:
        while (start := self.sequencer.ask) is not None:
            self.asked.append(start)
            assert len(self.asked) < 20, "asks without end"
            answer = [each for each in self.ring if each.seq >= start and each.seq not in self.lose]
            self.lose.clear()
            if not self.fail:
                self._feed(answer)
            self.said += self.sequencer.answered(self.fail)

    def _feed(self, answer: Iterable[sockets.Frame]) -> None:
        for each in answer:
            self.said += self.sequencer.replied(each)
            if self.sequencer.enough:
                return

    @property
    def seqs(self) -> list[int]:
        return [fact.seq for fact in self.said if isinstance(fact, facts.Batch)]

    def of(self, kind: type) -> list[facts.Fact]:
        return [fact for fact in self.said if isinstance(fact, kind)]


def test_replay_and_live_overlap_and_every_batch_is_applied_once() -> None:
    rank = Rank()
    rank.live(frame(0), *map(frame, range(1, 7)))
    rank.ring = [frame(seq) for seq in range(11)]
    rank.live(frame(9), frame(10), frame(11))
    assert rank.seqs == list(range(12))
    assert rank.asked == [7]
    assert rank.of(facts.Bridged) == [facts.Bridged(7, 10)]
    assert rank.sequencer.counters.repeated == 2


def test_holes_inside_an_answer_are_asked_for_again() -> None:
    rank = Rank()
    rank.ring = [frame(seq) for seq in range(30)]
    rank.lose = {12, 20}
    rank.connected()
    assert rank.seqs == list(range(30))
    assert rank.asked == [0, 12]
    assert not rank.of(facts.Gap)


def test_a_hole_that_was_dropped_meanwhile_is_a_gap_in_the_end() -> None:
    rank = Rank()
    rank.ring = [frame(seq) for seq in range(30) if seq not in (12, 13)]
    rank.connected()
    assert [(gap.first, gap.last) for gap in rank.of(facts.Gap) if isinstance(gap, facts.Gap)] == [(12, 13)]
    assert rank.seqs == [seq for seq in range(30) if seq not in (12, 13)]
    assert not rank.of(facts.Bridged)


def test_a_lost_end_marker_is_asked_for_only_while_it_leads_further() -> None:
    rank = Rank()
    rank.live(frame(0))
    rank.fail = "no answer"
    rank.live(frame(5))
    assert rank.asked == [1]
    assert rank.of(facts.Gap) == [facts.Gap(1, 4, "no answer")]


def test_a_failure_after_some_batches_asks_for_the_rest() -> None:
    rank = Rank()
    rank.live(frame(0))
    rank.said += rank.sequencer.live(frame(9))
    rank.said += rank.sequencer.replied(frame(1))
    rank.said += rank.sequencer.answered("no answer within 2 s")
    assert rank.sequencer.ask == 2
    rank.ring = [frame(seq) for seq in range(10)]
    rank.serve()
    assert rank.seqs == list(range(10))


def test_an_interrupted_connection_to_the_same_life_says_nothing() -> None:
    rank = Rank()
    rank.live(frame(0), frame(1))
    rank.ring = [frame(seq) for seq in range(4)]
    rank.said.clear()
    rank.connected()
    rank.live(frame(4))
    assert rank.seqs == [2, 3, 4]
    assert rank.of(facts.Bridged) == [facts.Bridged(2, 3)]
    assert len(rank.said) == 4


def test_a_reconnect_to_another_life_begins_it_from_its_first_batch() -> None:
    rank = Rank()
    rank.live(frame(0), frame(1))
    rank.ring = [frame(seq, life=1) for seq in range(5)]
    rank.connected()
    assert rank.asked == [1, 0]
    assert [type(fact) for fact in rank.said[3:]] == [facts.NewLife] + [facts.Batch] * 5


def test_after_gone_nothing_continues() -> None:
    rank = Rank()
    rank.live(frame(0), frame(1))
    rank.ring = [frame(seq) for seq in range(3)]
    rank.sequencer.gone()
    rank.said.clear()
    rank.connected()
    assert rank.said[0] == facts.NewLife(0, True, "the engine was gone")
    assert rank.seqs == [0, 1, 2]


def test_a_life_found_by_a_live_frame_is_completed_by_replay() -> None:
    rank = Rank()
    rank.live(*map(frame, range(5)))
    rank.ring = [frame(seq, life=1) for seq in range(4)]
    rank.live(frame(3, life=1))
    assert rank.of(facts.NewLife) == [facts.NewLife(0, True, "the sequence went back from 4 to 3")]
    assert rank.seqs == [0, 1, 2, 3, 4, 0, 1, 2, 3]


def test_an_oversized_replayed_batch_is_a_gap_of_its_own() -> None:
    rank = Rank()
    rank.ring = [frame(0), sockets.frame(1, bytes(101), 100), frame(2)]
    rank.connected()
    assert rank.seqs == [0, 2]
    assert [(gap.first, gap.last) for gap in rank.of(facts.Gap) if isinstance(gap, facts.Gap)] == [(1, 1)]


def test_without_a_replay_socket_nothing_is_ever_asked() -> None:
    rank = Rank(replays=False)
    rank.connected()
    rank.live(frame(3), frame(4), frame(7))
    rank.connected()
    rank.live(frame(8))
    assert rank.asked == []
    assert rank.seqs == [3, 4, 7, 8]
    kinds = [type(fact) for fact in rank.said if not isinstance(fact, facts.Batch)]
    assert kinds == [facts.Attached, facts.Gap, facts.NewLife, facts.NewLife]


@pytest.mark.parametrize("replays", [True, False])
def test_the_position_is_that_of_the_batch_just_handed_over(replays: bool) -> None:
    rank = Rank(replays=replays)
    rank.ring = [frame(seq) for seq in range(3)]
    for each in rank.sequencer.live(frame(0)):
        if isinstance(each, facts.Batch):
            assert rank.sequencer.position == facts.Position(each.seq, each.digest)


def test_a_journal_continues_over_a_hole_that_replay_fills() -> None:
    at = frame(6)
    rank = Rank(resume=facts.Position(6, at.digest))
    rank.ring = [frame(seq) for seq in range(3, 12)]
    rank.connected()
    assert rank.said[0] == facts.Attached(7, False, continued=True)
    assert rank.seqs == [7, 8, 9, 10, 11]


class World:
    """An engine, its consumer, and what the consumer believes: the batches since its table was last void."""

    def __init__(self, *, replays: bool, ring: int) -> None:
        self.rank = Rank(replays=replays)
        self.ring, self.life, self.next = ring, 0, 0
        self.believed: list[bytes] = []
        self.complete = False
        self.rank.connected()

    def publish(self, *, lost: bool) -> None:
        made = frame(self.next, self.life)
        self.next += 1
        self.rank.ring = [*self.rank.ring, made][-self.ring :]
        if not lost:
            self.rank.live(made)

    def restart(self) -> None:
        self.life, self.next, self.rank.ring = self.life + 1, 0, []
        self.rank.connected()

    def step(self, action: str) -> None:
        self.rank.asked.clear()
        match action:
            case "publish":
                self.publish(lost=False)
            case "lose":
                self.publish(lost=True)
            case "reconnect":
                self.rank.connected()
            case "restart":
                self.restart()
            case "restart, and more than before is lost":
                before, self.life, self.next, self.rank.ring = self.next, self.life + 1, 0, []
                for _ in range(before + 1):
                    self.publish(lost=True)
                self.rank.connected()
            case "gone and back":
                self.rank.sequencer.gone()
                self.believed, self.complete = [], False  # Gone itself ends what was believed
                self.restart()
            case "replay fails":
                self.rank.fail = "no answer"
            case "replay works":
                self.rank.fail = ""
        self.fold()

    def fold(self) -> None:
        for fact in self.rank.said:
            match fact:
                case facts.Batch():
                    self.believed.append(fact.payload)
                case facts.Attached() | facts.NewLife():
                    self.believed, self.complete = [], fact.complete
                case facts.Gap():
                    self.believed, self.complete = [], False
        self.rank.said.clear()


ACTIONS = [
    "publish",
    "lose",
    "reconnect",
    "restart",
    "restart, and more than before is lost",
    "gone and back",
    "replay fails",
    "replay works",
]


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(
    strategies.lists(strategies.sampled_from(["publish", "publish", *ACTIONS]), max_size=25),
    strategies.booleans(),
    strategies.sampled_from([1, 3, 100]),
)
def test_whatever_happens_nothing_of_another_life_is_believed_and_complete_means_all(
    actions: list[str], replays: bool, ring: int
) -> None:
    world = World(replays=replays, ring=ring)
    for action in actions:
        world.step(action)
        life = [b"%d/%d" % (world.life, seq) for seq in range(world.next)]
        if world.complete:
            assert world.believed == life[: len(world.believed)]
        else:
            start = life.index(world.believed[0]) if world.believed else 0
            assert world.believed == life[start : start + len(world.believed)]
        if action == "publish":  # a batch that arrives is always the last one applied
            assert world.believed[-1] == life[-1]
