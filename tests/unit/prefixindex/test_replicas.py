"""The life of a replica, row by row of the table in replicas.py. Random orders are in test_model."""

from collections.abc import Callable

import pytest

from eventstore import kvwire
from handlers.prefixindex import index, outcomes, replicas
from tests.support import kvspeaker

KEYS = [11, 22, 33]
Outcomes = list[outcomes.Outcome]


def edges(found: Outcomes) -> list[str]:
    return [each.edge for each in found if isinstance(each, outcomes.Edge)]


def orders(found: Outcomes) -> list[tuple[str, str]]:
    return [(each.order, each.session) for each in found if isinstance(each, outcomes.Order)]


def skipped(found: Outcomes) -> list[str]:
    return [each.reason for each in found if isinstance(each, outcomes.Skipped)]


class Scene:
    """One replica that has said its first keyframe of three blocks."""

    def __init__(self) -> None:
        self.stream = kvspeaker.Stream()
        self.speaker = kvspeaker.Speaker("r").holds(KEYS)
        self.first = self.stream.start(self.speaker)

    def say(self, *payloads: bytes) -> Outcomes:
        return self.stream.put(self.speaker, *payloads)

    def newer(self, session: str = "s2", uid: str = "uid-1") -> kvspeaker.Speaker:
        return kvspeaker.Speaker("r", session, uid=uid)

    @property
    def replica(self) -> replicas.Replica:
        return self.stream.index.fleet["t", "r"]

    @property
    def state(self) -> str:
        return self.replica.state


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_keyframe_that_agrees_makes_a_replica_complete(scene: Scene) -> None:
    assert edges(scene.first) == ["first-event", "complete"]
    assert scene.state == "complete"
    assert scene.replica.keyframe == 1
    assert scene.stream.contents(scene.speaker) == dict.fromkeys([("", key) for key in KEYS], 1)


def test_nothing_counts_before_the_first_keyframe_ends() -> None:
    stream, speaker = kvspeaker.Stream(), kvspeaker.Speaker("r").holds(KEYS)
    assert edges(stream.put(speaker, speaker.begin())) == []
    stream.put(speaker, speaker.chunk())
    assert stream.index.fleet["t", "r"].state == "unknown"
    assert stream.contents(speaker) is None
    assert [each.name for each in stream.index.incomplete()] == ["r"]


def test_an_empty_keyframe_is_complete_but_no_first_event() -> None:
    stream, speaker = kvspeaker.Stream(), kvspeaker.Speaker("r")
    assert edges(stream.start(speaker)) == ["complete"]
    assert edges(stream.put(speaker, speaker.ops({5: 1}))) == ["first-event"]
    assert edges(stream.put(speaker, speaker.ops({6: 1}))) == []


def test_a_missing_n_makes_it_unknown_until_the_next_keyframe(scene: Scene) -> None:
    scene.speaker.ops({44: 1})  # never stored
    found = scene.say(scene.speaker.ops({55: 1}))
    assert edges(found) == ["gap"]
    assert orders(found) == [("keyframe", "s1")]
    assert (scene.state, scene.replica.blocks) == ("unknown", 0)
    assert edges(scene.say(*scene.speaker.keyframe("asked"))) == ["complete"]
    assert scene.replica.blocks == 5


def test_an_order_is_repeated_while_unknown_but_not_with_every_message(scene: Scene) -> None:
    scene.speaker.ops({44: 1})
    assert len(orders(scene.say(scene.speaker.ops({55: 1})))) == 1
    assert orders(scene.say(scene.speaker.ops({66: 1}), scene.speaker.beat())) == []
    assert orders(scene.stream.wait(1)) == [("keyframe", "s1")]
    assert orders(scene.stream.wait(0.9)) == []
    scene.stream.now += kvspeaker.SECOND
    assert orders(scene.say(scene.speaker.beat())) == [("keyframe", "s1")]


def test_no_order_is_sent_while_a_keyframe_is_under_way(scene: Scene) -> None:
    scene.speaker.ops({44: 1})
    found = scene.say(scene.speaker.begin("asked"))
    assert (edges(found), orders(found)) == (["gap"], [])
    assert orders(scene.stream.wait(6)) == []


def test_a_gap_inside_a_keyframe_abandons_it(scene: Scene) -> None:
    scene.say(scene.speaker.begin("interval"))
    scene.speaker.chunk()
    found = scene.say(scene.speaker.end())
    assert (edges(found), orders(found), scene.state) == (["gap"], [("keyframe", "s1")], "unknown")


def test_a_digest_that_disagrees_makes_it_unknown(scene: Scene) -> None:
    scene.speaker.table["", 99] = 1  # held there, never said
    found = scene.say(scene.speaker.beat())
    assert (edges(found), orders(found), scene.state) == (["gap"], [("keyframe", "s1")], "unknown")
    assert "3 blocks here, 4 at the subscriber" in scene.replica.reason


def test_equal_counts_of_different_keys_disagree(scene: Scene) -> None:
    del scene.speaker.table["", 11]
    scene.speaker.table["", 12] = 1
    assert edges(scene.say(scene.speaker.beat())) == ["gap"]
    assert "not the same ones" in scene.replica.reason


def test_a_keyframe_under_way_heals_a_digest_that_disagrees(scene: Scene) -> None:
    scene.say(scene.speaker.begin("asked"))
    scene.speaker.table["", 99] = 1  # held there, never said
    found = scene.say(scene.speaker.beat())
    assert (edges(found), orders(found), scene.state) == (["gap"], [], "unknown")
    assert edges(scene.say(scene.speaker.chunk(), scene.speaker.end())) == ["complete"]
    assert scene.replica.blocks == 4


def test_a_keyframe_whose_end_disagrees_is_thrown_away(scene: Scene) -> None:
    scene.say(scene.speaker.begin("interval"), scene.speaker.chunk([("", 11)]))
    found = scene.say(scene.speaker.end())
    assert (edges(found), scene.state) == (["gap"], "unknown")
    assert "has 1 blocks, the subscriber counted 3" in scene.replica.reason


def test_the_old_content_counts_until_an_asked_keyframe_agrees(scene: Scene) -> None:
    scene.say(scene.speaker.begin("asked"), scene.speaker.chunk([("", 11)]))
    assert (scene.state, scene.replica.blocks) == ("complete", 3)
    scene.say(scene.speaker.ops({11: 0, 44: 1}))  # into both, past what was sent and before what is not
    assert scene.stream.contents(scene.speaker) == {("", 22): 1, ("", 33): 1, ("", 44): 1}
    found = scene.say(scene.speaker.chunk([("", 22), ("", 33)]), scene.speaker.end(), scene.speaker.beat())
    assert found == []
    assert scene.stream.contents(scene.speaker) == {("", 22): 1, ("", 33): 1, ("", 44): 1}


@pytest.mark.parametrize("reason", ["cleared", "gap", "restart", "outage", "a reason of a newer version"])
def test_any_other_keyframe_stops_the_old_content_at_once(scene: Scene, reason: str) -> None:
    scene.say(scene.speaker.begin(reason))
    assert (scene.state, scene.replica.blocks) == ("unknown", 0)


def test_a_new_keyframe_replaces_one_that_was_never_finished(scene: Scene) -> None:
    scene.say(scene.speaker.begin("asked"), scene.speaker.chunk([("", 11)]))
    assert edges(scene.say(*scene.speaker.keyframe("asked"))) == []
    assert (scene.state, scene.replica.blocks) == ("complete", 3)


def test_a_keyframe_that_is_partial_counts_as_partial(scene: Scene) -> None:
    scene.speaker.coverage = "partial"
    assert edges(scene.say(*scene.speaker.keyframe("gap"))) == ["partial"]
    assert (scene.state, scene.replica.blocks) == ("partial", 3)
    assert [each.name for each in scene.stream.index.incomplete()] == ["r"]
    assert edges(scene.say(*scene.speaker.keyframe("interval"))) == []
    scene.speaker.coverage = "complete"
    assert edges(scene.say(*scene.speaker.keyframe("cleared"))) == ["complete"]


def test_a_heartbeat_can_make_it_partial_but_not_complete(scene: Scene) -> None:
    scene.speaker.coverage = "partial"
    assert edges(scene.say(scene.speaker.beat())) == ["partial"]
    scene.speaker.coverage = "complete"
    assert edges(scene.say(scene.speaker.beat())) == []
    assert scene.state == "partial"


def test_silence_is_noticed_after_15_seconds_and_ends_with_any_message(scene: Scene) -> None:
    assert edges(scene.stream.wait(15)) == []
    assert edges(scene.stream.wait(1)) == ["silent"]
    assert (scene.state, scene.replica.blocks) == ("silent", 3)
    assert edges(scene.stream.wait(1)) == []
    assert edges(scene.say(scene.speaker.beat())) == ["recovered"]
    assert scene.state == "complete"


def test_freshness_is_1_while_heard_and_decays_with_the_ttl(scene: Scene) -> None:
    ttl = 100 * kvspeaker.SECOND
    heard = scene.replica.heard_ns
    ages = [0, 15, 16, 50, 99, 100, 101]
    fresh = [replicas.freshness(scene.replica, heard + age * kvspeaker.SECOND, ttl) for age in ages]
    assert fresh == pytest.approx([1, 1, 0.84, 0.5, 0.01, 0, 0])


def test_silence_of_a_ttl_is_gone_and_swept(scene: Scene) -> None:
    assert edges(scene.stream.wait(1800)) == ["gone"]
    assert scene.state == "gone"
    scene.stream.upkeep()
    assert scene.stream.index.domains == {}
    found = scene.say(scene.speaker.beat())
    assert (scene.state, orders(found)) == ("unknown", [("keyframe", "s1")])
    assert edges(scene.say(*scene.speaker.keyframe("asked"))) == ["complete"]


def test_an_hour_later_it_is_forgotten(scene: Scene) -> None:
    scene.stream.wait(1800)
    scene.stream.wait(1800)
    assert scene.stream.index.fleet == {}
    assert scene.stream.index.roster.serving("t", "m", "vllm") == []


def test_a_bye_ends_the_session(scene: Scene) -> None:
    assert edges(scene.say(scene.speaker.bye("gone"))) == ["gone"]
    assert (scene.state, scene.replica.blocks) == ("gone", 0)
    assert "has said bye" in skipped(scene.say(scene.speaker.ops({77: 1})))[0]
    newer = scene.newer()
    assert edges(scene.stream.start(newer)) == ["restart", "complete"]
    assert scene.state == "complete"


def test_a_newer_session_takes_over_and_the_older_one_is_told(scene: Scene) -> None:
    newer = scene.newer().holds([44])
    assert edges(scene.stream.put(newer, newer.begin())) == ["restart"]
    assert (scene.state, scene.replica.blocks) == ("unknown", 0)
    assert orders(scene.say(scene.speaker.ops({55: 1}))) == [("fenced", "s1")]
    assert scene.say(scene.speaker.ops({66: 1}), scene.speaker.beat(), scene.speaker.bye("fenced")) == []
    scene.stream.put(newer, newer.chunk(), newer.end())
    assert scene.stream.contents(newer) == {("", 44): 1}
    scene.stream.now += kvspeaker.SECOND
    assert orders(scene.say(scene.speaker.beat())) == [("fenced", "s1")], "the order may have been lost"


def test_a_zombie_that_was_met_while_a_server_caught_up_is_told_when_it_speaks_again(scene: Scene) -> None:
    newer = scene.newer()
    scene.stream.start(newer)
    assert orders(scene.say(scene.speaker.beat())) == [("fenced", "s1")], "kept back by a server that catches up"
    assert scene.stream.index.ask_again(scene.stream.now) == ()
    assert orders(scene.say(scene.speaker.beat())) == [("fenced", "s1")]


def refolded(scene: Scene, kept: int) -> kvspeaker.Stream:
    """Another index, over the first `kept` messages of the stream: its end is lost."""
    again = kvspeaker.Stream()
    again.now = scene.stream.now
    for stored in scene.stream.stored[:kept]:
        again.index.apply(*stored)
    again.sequence = kept
    return again


def test_what_a_session_said_in_the_lost_end_of_the_stream_makes_the_rest_uncertain(scene: Scene) -> None:
    scene.say(scene.speaker.ops({11: 0}))
    again = refolded(scene, 3)
    assert again.index.fleet["t", "r"].blocks == 3, "the removal is lost"
    found = list(again.index.ask_again(again.now, scene.stream.index.spoken()))
    assert (edges(found), orders(found)) == (["gap"], [("keyframe", "s1")])
    assert again.index.fleet["t", "r"].state == "unknown"


def test_a_session_that_the_stream_lost_whole_is_asked_although_it_is_idle(scene: Scene) -> None:
    newer = scene.newer()
    scene.stream.start(newer)
    again = refolded(scene, 3)
    found = list(again.index.ask_again(again.now, scene.stream.index.spoken()))
    assert orders(found) == [("keyframe", "s2")]
    assert again.index.fleet["t", "r"].state == "unknown", "what the earlier session held counts no more"
    assert again.index.strangers.speaking(again.now) == [("t", "r", "s2")]
    newer.rank = 0
    again.put(newer, *newer.keyframe("regressed"))
    assert again.index.fleet["t", "r"].state == "complete"


def test_a_session_of_which_nothing_is_lost_goes_on_counting(scene: Scene) -> None:
    again = refolded(scene, 3)
    assert again.index.ask_again(again.now, scene.stream.index.spoken()) == ()
    assert again.index.fleet["t", "r"].state == "complete"


def test_a_begin_that_repeats_an_older_rank_is_fenced(scene: Scene) -> None:
    newer = scene.newer()
    scene.stream.start(newer)
    assert scene.speaker.rank == 1
    assert orders(scene.say(scene.speaker.begin("asked"))) == [("fenced", "s1")]
    assert scene.replica.session == "s2"


def test_the_first_begin_of_an_older_session_stored_twice_does_not_bring_it_back() -> None:
    stream, old = kvspeaker.Stream(), kvspeaker.Speaker("r")
    first = old.begin()
    stream.put(old, first)
    newer = kvspeaker.Speaker("r", "s2")
    stream.start(newer)
    assert orders(stream.put(old, first)) == [("fenced", "s1")]
    assert stream.index.fleet["t", "r"].session == "s2"


def test_a_server_that_starts_late_ranks_by_what_begins_repeat() -> None:
    """The first begins have left the stream; only later keyframes of both claimants are read."""
    old, new = kvspeaker.Speaker("r", "s1"), kvspeaker.Speaker("r", "s2")
    old.rank, new.rank = 5, 90
    stream = kvspeaker.Stream()
    stream.sequence = 1000
    stream.put(new, *new.keyframe("interval"))
    assert orders(stream.put(old, *old.keyframe("interval"))) == [("fenced", "s1")]
    assert stream.index.fleet["t", "r"].session == "s2"


def test_what_was_asked_for_while_a_server_caught_up_is_asked_for_once_more_when_it_has() -> None:
    stream = kvspeaker.Stream()
    stranger, doubtful, known = (kvspeaker.Speaker(name, f"s-{name}") for name in "abc")
    stranger.begin()
    stream.put(stranger, stranger.ops({1: 1}))
    stream.start(doubtful)
    doubtful.ops({1: 1})  # never stored
    stream.put(doubtful, doubtful.ops({2: 1}))
    stream.start(known)
    assert stream.index.strangers.speaking(stream.now) == [("t", "a", "s-a")]
    assert sorted(orders(list(stream.index.ask_again(stream.now)))) == [("keyframe", "s-a"), ("keyframe", "s-b")]
    assert stream.put(stranger, stranger.ops({2: 1})) == [], "not asked again at once"
    stream.put(stranger, *stranger.keyframe("asked"))
    stream.put(doubtful, doubtful.begin("asked"))
    assert stream.index.ask_again(stream.now) == ()


def test_a_stranger_that_says_nothing_any_more_is_waited_for_no_longer() -> None:
    stream, speaker = kvspeaker.Stream(), kvspeaker.Speaker("r")
    speaker.begin()
    stream.put(speaker, speaker.ops({1: 1}))
    assert orders(stream.wait(1)) == [("keyframe", "s1")], "the order may have been lost, and it may be idle"
    later = stream.now + 15 * kvspeaker.SECOND
    assert stream.index.strangers.speaking(later) == []
    assert stream.index.ask_again(later) == ()


def test_a_session_whose_begin_was_not_seen_is_asked_for_a_keyframe() -> None:
    stream, speaker = kvspeaker.Stream(), kvspeaker.Speaker("r")
    speaker.begin()
    assert orders(stream.put(speaker, speaker.ops({1: 1}))) == [("keyframe", "s1")]
    assert stream.put(speaker, speaker.ops({2: 1})) == []
    stream.now += kvspeaker.SECOND
    assert orders(stream.put(speaker, speaker.ops({3: 1}))) == [("keyframe", "s1")]
    assert stream.index.fleet == {}
    assert edges(stream.put(speaker, *speaker.keyframe("asked"))) == ["first-event", "complete"]


def test_a_pod_of_the_same_name_with_another_uid_starts_empty(scene: Scene) -> None:
    newer = scene.newer(uid="uid-2")
    found = scene.stream.start(newer)
    assert edges(found) == ["restart", "complete"]
    assert "Pod uid uid-1 became uid-2" in scene.replica.reason or any("uid-2" in str(each) for each in found)
    assert scene.stream.contents(newer) == {}


def test_another_uid_inside_a_session_is_refused(scene: Scene) -> None:
    scene.speaker.uid = "uid-2"
    assert "Pod uid uid-2 in a session that Pod uid uid-1 began" in skipped(scene.say(scene.speaker.ops({1: 1})))[0]
    assert scene.replica.blocks == 3


def test_redelivered_messages_are_counted_and_change_nothing(scene: Scene) -> None:
    before = list(scene.stream.index.dump())
    for stored in list(scene.stream.stored):
        assert scene.stream.index.apply(scene.stream.sequence + 1, *stored[1:]) == ()
    assert scene.stream.index.redelivered == 3
    assert list(scene.stream.index.dump()) == before


WRONG: dict[str, tuple[Callable[[kvspeaker.Speaker], bytes], str]] = {
    "not MessagePack": (lambda speaker: b"\xc1", "not a WARMLOG_KV message"),
    "a newer wire": (
        lambda speaker: kvwire.encode(kvwire.Bye(2, "uid-1", "s1", 3, "gone")),
        "wire version 2",
    ),
    "a negative n": (lambda speaker: kvwire.encode(kvwire.Bye(1, "uid-1", "s1", -1, "gone")), "n is -1"),
    "half a key": (
        lambda speaker: kvwire.encode(kvwire.Ops(1, "uid-1", "s1", 3, [kvwire.Group("", 16, b"123", b"\x01")])),
        "8 bytes a key",
    ),
    "a session that begins in the future": (
        lambda speaker: kvwire.encode(kvwire.Begin(1, "u", "s9", 0, 0, 99, "m", "vllm", "complete", "start")),
        "later than this message",
    ),
    "more adapters than may be": (
        lambda speaker: speaker.ops({(f"a{number}", 1): 1 for number in range(1025)}),
        "1026 adapters on one replica",
    ),
}


@pytest.mark.parametrize(("payload", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_message_changes_nothing_and_says_why(
    scene: Scene, payload: Callable[[kvspeaker.Speaker], bytes], says: str
) -> None:
    before = list(scene.stream.index.dump())
    (reason,) = skipped(scene.say(payload(scene.speaker)))
    assert says in reason
    assert scene.stream.index.skipped == 1
    assert list(scene.stream.index.dump()) == before


def test_after_a_wrong_message_the_next_one_shows_the_gap(scene: Scene) -> None:
    scene.say(b"\xc1")
    scene.speaker.n += 1  # the wrong one had a number too
    assert edges(scene.say(scene.speaker.ops({1: 1}))) == ["gap"]


def test_a_begin_on_the_wrong_partition_is_refused() -> None:
    stream, speaker = kvspeaker.Stream(), kvspeaker.Speaker("r")
    wrong = "wlkv.0.t.r" if not speaker.subject.startswith("wlkv.0.") else "wlkv.1.t.r"
    (reason,) = skipped(stream.put(speaker, speaker.begin(), subject=wrong))
    assert "is partition" in reason
    assert stream.index.fleet == {}


def test_a_session_speaks_on_one_subject(scene: Scene) -> None:
    (reason,) = skipped(scene.stream.put(scene.speaker, scene.speaker.ops({1: 1}), subject="wlkv.0.t.r"))
    assert "began on" in reason


def test_a_model_change_moves_the_replica_to_another_group(scene: Scene) -> None:
    moved = kvspeaker.Speaker("r", "s2", model="other").holds([9])
    scene.stream.start(moved)
    assert scene.stream.index.roster.serving("t", "m", "vllm") == []
    assert [each.name for each in scene.stream.index.roster.serving("t", "other", "vllm")] == ["r"]
    assert orders(scene.say(scene.speaker.ops({1: 1}))) == [("fenced", "s1")]
    scene.stream.upkeep()
    assert [key.model for key in scene.stream.index.domains] == ["other"]


def test_adapters_are_counted_together(scene: Scene) -> None:
    found = scene.say(scene.speaker.ops({("sql", 11): 1, ("sql", 12): 1}), scene.speaker.beat())
    assert found == []
    assert scene.replica.blocks == 5
    assert len(scene.stream.index.domains) == 2


def test_statistics_are_an_edge_when_they_moved_and_not_too_often(scene: Scene) -> None:
    def beat(hit_rate: float) -> list[str]:
        return edges(scene.say(scene.speaker.beat(kvwire.Stats(1.0, hit_rate=hit_rate, pressure=float("nan")))))

    assert beat(0.5) == ["statistics"]
    scene.stream.now += 10 * kvspeaker.SECOND
    assert beat(0.8) == []
    scene.stream.now += 30 * kvspeaker.SECOND
    assert beat(0.801) == []
    assert beat(0.9) == ["statistics"]
    assert scene.replica.stats is not None
    assert (scene.replica.stats.pressure, scene.replica.relief) == (0.0, 1.0)


def test_the_dump_does_not_depend_on_the_order_of_replicas() -> None:
    speakers = [kvspeaker.Speaker(name).holds(keys) for name, keys in (("a", [1, 2, 3]), ("b", [3, 4]), ("c", [5]))]
    forward, backward = kvspeaker.Stream(index.Index()), kvspeaker.Stream(index.Index())
    frames = [speaker.keyframe() for speaker in speakers]
    for stream, order in ((forward, (0, 1, 2)), (backward, (2, 1, 0))):
        for which in order:
            stream.put(speakers[which], *frames[which])

    def blocks(stream: kvspeaker.Stream) -> list[str]:
        return [line for line in stream.index.dump() if line.startswith("block")]

    assert blocks(forward) == blocks(backward)
    assert blocks(forward) == sorted(blocks(forward))
