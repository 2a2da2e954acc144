"""The oracle finds what it is there to find: planted answers and logs, one rule each; a right one is not blamed."""

import random
from math import inf

import msgspec
import pytest

from enginesim import engine, forms
from eventstore import events, store
from tests.faults import audit, load, oracle, rounds, schedule, soak, timeline

PROMPT = list(range(1, 129))  # eight blocks of 16
OTHER = list(range(1001, 1129))


class Scene:
    """One engine of at most 12 blocks, up since 0; every part healthy since 0 unless a test says otherwise."""

    def __init__(self) -> None:
        self.engine = timeline.Engine("r", capacity=12, block_size=16, replay=True, ring=10_000)
        self.engine.begins(0.0)
        self.parts = oracle.Parts()
        self.judge = oracle.Judge({"r": self.engine}, self.parts)

    def serve(self, tokens: list[int], at: float, answered: float | None = None) -> None:
        assert self.engine.life is not None
        self.engine.life.generated(tokens, 1, at, at + 0.01 if answered is None else answered)

    def restart(self, at: float, ready: float) -> None:
        down = self.parts.disturb("engine r", at)
        self.engine.ends(at)
        self.engine.begins(ready)
        down.until = ready

    def ask(self, matched: int, at: float, tokens: list[int] = PROMPT, state: str = "complete") -> list[str]:
        credits = {} if state == "absent" else {"r": oracle.Credit(state, matched)}
        answer = oracle.Answer(tokens, at, at + 0.01, credits, True, "PREFIX_MATCH")
        return [violation.kind for violation in self.judge.judge(answer)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_right_answer_is_not_blamed(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    assert scene.ask(128, 5) == []


def test_a_block_that_was_never_held_is_wrong_at_any_time(scene: Scene) -> None:
    scene.parts.disturb("nats", 1)
    scene.serve(PROMPT[:64], 3)
    assert scene.ask(80, 5) == ["never held"]


def test_a_block_cannot_be_credited_before_it_was_asked_for(scene: Scene) -> None:
    scene.serve(PROMPT, 6)
    assert scene.ask(16, 5) == ["never held"]


def test_half_a_block_is_never_held(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    assert scene.ask(120, 5, state="partial") == ["never held"]


def test_an_unknown_replica_is_never_right(scene: Scene) -> None:
    answer = oracle.Answer(PROMPT, 5, 5, {"stranger": oracle.Credit("complete", 16)}, True, "PREFIX_MATCH")
    assert [one.kind for one in scene.judge.judge(answer)] == ["never held"]


@pytest.mark.parametrize(("asked", "found"), [(7.9, []), (8.1, ["removed"])], ids=["within a second", "after it"])
def test_an_evicted_block_may_be_credited_for_one_second(scene: Scene, asked: float, found: list[str]) -> None:
    scene.serve(PROMPT, 3)
    scene.serve(OTHER, 7, answered=7.0)  # 16 blocks in a cache of 12: the tail of the first prompt goes
    assert scene.ask(128, asked) == found
    assert scene.ask(64, asked) == []


def test_a_stale_block_is_excused_while_a_part_of_the_path_heals(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    scene.serve(OTHER, 7)
    down = scene.parts.disturb("server", 7.5)
    assert scene.ask(128, 9) == []
    down.until = 9.0
    assert scene.ask(128, 10.9) == []
    assert scene.ask(128, 11.1) == ["removed"]


def test_another_replicas_trouble_excuses_nothing(scene: Scene) -> None:
    scene.parts.disturb("subscriber other", 1)
    scene.serve(PROMPT, 3)
    assert scene.ask(0, 5) == ["missing"]


def test_an_earlier_life_counts_no_more_once_the_new_one_has_settled(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    scene.restart(5, 6)
    assert scene.ask(128, 7.9) == []
    assert scene.ask(128, 8.1) == ["earlier life"]


def test_what_a_new_life_holds_too_is_its_own(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    scene.restart(5, 6)
    scene.serve(PROMPT, 6.5)
    assert scene.ask(128, 9) == []


def test_a_run_over_two_lives_is_wrong_at_any_time(scene: Scene) -> None:
    scene.serve(PROMPT[:64], 3)
    scene.restart(5, 6)
    scene.parts.disturb("nats", 6)
    scene.engine.lives[1].generated(PROMPT, 1, 7, 7)
    scene.engine.lives[1].stays.pop(scene.engine.path(PROMPT)[0])
    assert scene.ask(128, 8) == ["mixed lives"]


def test_an_answer_must_not_go_back_to_an_earlier_life_whatever_is_down(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    scene.restart(5, 6)
    scene.parts.disturb("nats", 6.2)
    scene.serve(OTHER, 6.3)
    assert scene.ask(128, 6.4) == []
    assert scene.ask(128, 6.5, OTHER) == []
    assert scene.ask(128, 6.6) == ["went back"]


def test_a_dead_engine_is_not_credited_after_five_seconds(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    scene.parts.disturb("engine r", 5)
    scene.engine.ends(5)
    assert scene.ask(128, 9) == []
    assert scene.ask(128, 10.1) == ["dead engine"]


@pytest.mark.parametrize(
    ("state", "found"),
    [("complete", ["missing"]), ("absent", ["missing"]), ("gone", ["missing"]), ("partial", []), ("unknown", [])],
)
def test_a_held_prefix_may_be_missing_only_where_it_is_said(scene: Scene, state: str, found: list[str]) -> None:
    scene.serve(PROMPT, 3)
    assert scene.ask(0, 5, state=state) == found


def test_what_was_stored_within_the_last_second_may_be_missing(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    assert scene.ask(0, 3.9) == []


def test_two_seconds_after_the_last_part_is_healthy_nothing_may_be_missing(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    down = scene.parts.disturb("subscriber r", 4)
    down.until = 6
    assert scene.ask(0, 7.9) == []
    assert scene.ask(0, 8.1) == ["missing"]


def test_a_call_that_was_cut_off_is_neither_surely_held_nor_wrong(scene: Scene) -> None:
    scene.engine.lives[0].generated(PROMPT, 1, 3, None)
    assert scene.ask(0, 9) == []
    assert scene.ask(128, 9) == []


def test_the_engines_own_account_must_be_ours(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    blocks = [PROMPT[at : at + 16] for at in range(0, 128, 16)]
    scene.engine.lives[0].check_truth({"ranks": [[{"blocks": blocks}]]})
    with pytest.raises(AssertionError, match="lost track"):
        scene.engine.lives[0].check_truth({"ranks": [[{"blocks": blocks[:7]}]]})


def test_a_cleared_cache_holds_nothing(scene: Scene) -> None:
    scene.serve(PROMPT, 3)
    scene.engine.lives[0].cleared(4, 4)
    assert scene.ask(16, 5.1) == ["removed"]
    assert scene.ask(0, 5.1) == []


# The log --------------------------------------------------------------------------------------------------------------


def logged(*events_: tuple[str, events.Event]) -> list[store.Stored]:
    found = []
    for number, (name, data) in enumerate(events_, 1):
        event = events.event(data, id=name, source="/t", subject="wl.x", time_ns=0, actor="t")
        found.append(store.Stored(number, 0, "wl.x", msgspec.json.encode(event)))
    return found


def moment(number: int) -> events.Event:
    return events.Moment(kv_sequence=number, kv_incarnation="i")


def edge(sequence: int) -> events.Event:
    return events.ReplicaObserved(
        tenant="t",
        replica="r",
        model="m",
        scheme="s",
        uid="u",
        session="1",
        edge="gap",
        kv_sequence=sequence,
        kv_incarnation="i",
    )


@pytest.mark.parametrize(
    ("stored", "acked", "found"),
    [
        (logged(("a", moment(1)), ("b", moment(2))), {"a": 1, "b": 2}, []),
        (logged(("a", moment(1))), {"a": 1, "b": 2}, ["lost"]),
        (logged(("b", moment(1)), ("a", moment(1))), {"a": 1}, ["lost"]),
        (logged(("a", moment(1)), ("a", moment(1))), {"a": 1}, ["twice"]),
        (logged(("a", moment(1)), ("b", moment(2)))[1:], {"b": 2}, ["hole"]),
        (logged(("a", edge(7)), ("b", edge(7))), {}, ["twice"]),
        (logged(("a", edge(7)), ("b", edge(8))), {}, []),
    ],
    ids=["right", "lost", "elsewhere", "twice", "a hole", "an edge twice", "two edges"],
)
def test_the_log_is_compared_with_what_was_acknowledged(
    stored: list[store.Stored], acked: dict[str, int], found: list[str]
) -> None:
    assert [one.kind for one in audit.audit(stored, load.Probes(acked=acked))] == found


def test_an_append_that_a_sole_writer_cannot_lose_is_told() -> None:
    assert [one.kind for one in audit.audit([], load.Probes(wrong=["x: Conflict"]))] == ["refused"]


# The schedule ---------------------------------------------------------------------------------------------------------


def test_a_seed_is_a_schedule_and_no_two_faults_of_a_round_touch_the_same_part() -> None:
    replicas = ["a", "b", "c", "d"]
    met = set()
    for number in range(400):
        has = schedule.trait(str(number), mounts=True)
        plan = schedule.faults(str(number), replicas, has)
        assert plan == schedule.faults(str(number), replicas, has)
        assert 1 <= len(plan) <= 4
        parts = [part for fault in plan for part in schedule.touched(fault.kind, fault.replica)]
        assert len(parts) == len(set(parts))
        assert all(bool(fault.replica) == ("*" not in fault.kind and per_replica(fault.kind)) for fault in plan)
        met |= {fault.kind for fault in plan}
    assert met == set(schedule.KINDS)


def per_replica(kind: str) -> bool:
    return any(word in kind for word in schedule.PER_REPLICA)


def test_without_mounts_there_are_no_full_disks() -> None:
    traits = [schedule.trait(str(number), mounts=False) for number in range(50)]
    assert not any(trait.small_disk for trait in traits)
    kinds = {fault.kind for n in range(200) for fault in schedule.faults(str(n), ["a"], traits[0])}
    assert kinds.isdisjoint({"full disk", "full journal"})


@pytest.mark.parametrize(
    ("first", "count", "jobs", "wanted"),
    [
        (0, 20, 1, [(0, 20)]),
        (0, 20, 2, [(0, 16), (16, 4)]),
        (3, 20, 2, [(3, 13), (16, 7)]),
        (0, 500, 3, [(0, 168), (168, 168), (336, 164)]),
        (5, 1, 4, [(5, 1)]),
    ],
)
def test_jobs_share_whole_labs(first: int, count: int, jobs: int, wanted: list[tuple[int, int]]) -> None:
    assert soak.shares(first, count, jobs) == wanted


def test_the_table_counts_a_round_under_each_of_its_faults() -> None:
    good = rounds.Report("s", 0, "", [], ["kill nats", "kill server"], heal=0.5, answers=1_000)
    bad = rounds.Report("s", 1, "", [], ["kill nats"], [oracle.Violation("lost", "", "x")], heal=1.5, answers=10)
    lines = soak.table([good, bad]).splitlines()
    assert lines[2] == "| kill nats | 2 | 1,010 | 0 | 1 | 0 | 1.50 s | 1.50 s |"
    assert lines[3] == "| kill server | 1 | 1,000 | 0 | 0 | 0 | 0.50 s | 0.50 s |"


def test_the_timeline_is_the_engine() -> None:
    """The same calls to the simulator's own engine leave the same blocks."""
    real = engine.Engine(forms.form("vllm-0.33"), model="m", block_size=16, capacity=40, seed=b"x", publish=None)
    mine = timeline.Life(0.0, capacity=40, block_size=16)
    chance = random.Random(5)
    heads = [[chance.randrange(1000) for _ in range(96)] for _ in range(3)]
    for number in range(60):
        tokens = [*chance.choice(heads), *(chance.randrange(1000) for _ in range(chance.randint(1, 200)))]
        real.generate(tokens, 20)
        mine.generated(tokens, 20, number, number)
    theirs = {tuple(block.tokens for block in path) for path in real.cache.prefixes()}
    mine.check_truth({"ranks": [[{"blocks": [list(tokens) for tokens in path]} for path in theirs]]})
    held = sum(stays[-1].left[1] == inf for stays in mine.stays.values())
    assert held == len(real.cache)
