"""What a batch number means. Excluded: sockets and time (tests/integration/test_kvevents_source.py)."""

from collections.abc import Sequence

import pytest

from subscribers.kvevents import cursor, facts

Frame = tuple[int, int]  # number, digest


def seen_live(*seqs: int, at: cursor.Cursor | None = None) -> cursor.Cursor:
    """The cursor after these batches arrived one by one; their digest is 1000 + number."""
    standing = at or cursor.Cursor()
    for seq in seqs:
        assert isinstance(cursor.decide(standing, seq, 1000 + seq), cursor.Apply)
        standing = cursor.applied(standing, seq, 1000 + seq, live=True)
    return standing


def with_replayed(standing: cursor.Cursor, frames: Sequence[Frame]) -> cursor.Cursor:
    """The cursor after a replay returned these frames and all of them were applied."""
    for seq, digest in frames:
        standing = cursor.applied(standing, seq, digest, live=False)
    return cursor.Cursor("sure", standing.applied, standing.digest, standing.live, dict(frames))


NEW = cursor.Cursor()
JOURNAL = cursor.resumed(facts.Position(6, 1006))
RUNNING = seen_live(0, 1, 2, 3, 4, 5, 6)
AHEAD = with_replayed(RUNNING, [(7, 1007), (8, 1008), (9, 1009), (10, 1010)])

DECISIONS = {
    "first contact at batch 0 is complete": (NEW, 0, cursor.Apply(facts.Attached(0, True))),
    "first contact later asks for everything": (NEW, 4211, cursor.Ask(0)),
    "the next number is the next batch": (RUNNING, 7, cursor.Apply()),
    "a hole asks from the first missing number": (RUNNING, 9, cursor.Ask(7)),
    "batch 0 again is a new life": (RUNNING, 0, cursor.Restart("the sequence went back from 6 to 0")),
    "the same number again is a new life": (RUNNING, 6, cursor.Restart("the sequence went back from 6 to 6")),
    "what replay supplied is applied once": (AHEAD, 9, cursor.Skip()),
    "after the overlap the next number is the next batch": (AHEAD, 11, cursor.Apply()),
    "a journal's position is compared first": (JOURNAL, 7, cursor.Ask(6)),
    "a journal's position is compared first, also across a hole": (JOURNAL, 40, cursor.Ask(6)),
    "a number below a journal's is a new life": (
        JOURNAL,
        3,
        cursor.Restart("batch 3 is not the one that was applied under this number"),
    ),
    "a connection that came back is compared first": (cursor.reconnected(RUNNING), 7, cursor.Ask(6)),
    "a connection that came back with batch 0 is a new life": (
        cursor.reconnected(RUNNING),
        0,
        cursor.Restart("the sequence went back from 6 to 0"),
    ),
}


@pytest.mark.parametrize(("standing", "seq", "expected"), DECISIONS.values(), ids=DECISIONS)
def test_a_live_number(standing: cursor.Cursor, seq: int, expected: object) -> None:
    assert cursor.decide(standing, seq, 1000 + seq) == expected


def test_a_number_that_replay_supplied_with_another_payload_is_a_new_life() -> None:
    assert isinstance(cursor.decide(AHEAD, 9, 5), cursor.Restart)


def test_live_frames_behind_a_replay_never_look_like_a_restart() -> None:
    standing = AHEAD
    for seq in (7, 8, 9, 10):
        assert cursor.decide(standing, seq, 1000 + seq) == cursor.Skip()
        standing = cursor.skipped(standing, seq)
    assert cursor.decide(standing, 11, 1) == cursor.Apply()
    assert isinstance(cursor.decide(standing, 10, 1010), cursor.Restart)


DOUBT = cursor.reconnected(RUNNING)
REPLAYED = {
    "history from its beginning is complete": (NEW, 0, True, cursor.Apply(facts.Attached(0, True))),
    "history that lost its beginning is not": (
        NEW,
        12,
        True,
        cursor.Apply(facts.Attached(12, False, reason="replay begins at 12")),
    ),
    "the number asked for closes the hole": (RUNNING, 7, True, cursor.Apply()),
    "a number that was applied is passed over": (RUNNING, 5, True, cursor.Skip()),
    "a wrapped ring is a gap": (
        RUNNING,
        9,
        True,
        cursor.Apply(facts.Gap(7, 8, "replay begins at 9: older batches are no longer held")),
    ),
    "a hole inside an answer is asked for again": (RUNNING, 9, False, cursor.Hole()),
    "the same batch proves the same life": (DOUBT, 6, True, cursor.Confirm()),
    "a ring without the last batch proves nothing": (
        DOUBT,
        7,
        True,
        cursor.Apply(facts.NewLife(7, False, "replay begins at 7: batch 6 is not there to compare")),
    ),
}


@pytest.mark.parametrize(("standing", "seq", "first", "expected"), REPLAYED.values(), ids=REPLAYED)
def test_a_replayed_number(standing: cursor.Cursor, seq: int, first: bool, expected: object) -> None:
    assert cursor.decide_replayed(standing, seq, 1000 + seq, first=first) == expected


def test_another_batch_under_the_last_number_is_another_life() -> None:
    assert isinstance(cursor.decide_replayed(DOUBT, 6, 5, first=True), cursor.Restart)


UNANSWERED = {
    "at first contact": (NEW, 9, facts.Attached(9, False, reason="first contact at batch 9; no answer")),
    "for a hole": (RUNNING, 9, facts.Gap(7, 8, "no answer")),
    "for a life in doubt": (DOUBT, 7, facts.NewLife(7, False, "the engine cannot be proved to be the same; no answer")),
}


@pytest.mark.parametrize(("standing", "seq", "expected"), UNANSWERED.values(), ids=UNANSWERED)
def test_a_question_that_stays_open_costs_completeness(standing: cursor.Cursor, seq: int, expected: object) -> None:
    assert cursor.decide_unanswered(standing, seq, "no answer") == cursor.Apply(expected)  # type: ignore[arg-type]


EMPTY = {
    "of an engine not seen before is a complete start": (
        NEW,
        facts.Attached(0, True, reason="the engine has published nothing yet"),
    ),
    "of an engine that had published is another life": (
        DOUBT,
        cursor.Restart("the engine has published fewer than 7 batches"),
    ),
    "after the same batch means nothing": (RUNNING, None),
}


@pytest.mark.parametrize(("standing", "expected"), EMPTY.values(), ids=EMPTY)
def test_an_empty_answer(standing: cursor.Cursor, expected: object) -> None:
    assert cursor.decide_empty(standing) == expected


def test_what_is_asked_right_after_connecting() -> None:
    assert [cursor.question(at) for at in (NEW, JOURNAL, DOUBT, RUNNING)] == [0, 6, 6, None]


def test_a_life_after_another_says_why_it_began() -> None:
    over = cursor.restarted("the sequence went back from 6 to 0")
    assert cursor.decide(over, 0, 0) == cursor.Apply(facts.NewLife(0, True, "the sequence went back from 6 to 0"))


def test_the_position_is_the_last_batch_handed_over() -> None:
    assert NEW.position is None
    assert AHEAD.position == facts.Position(10, 1010)


def test_an_empty_life_that_reconnects_is_met_as_new() -> None:
    assert cursor.question(cursor.reconnected(cursor.emptied())) == 0
