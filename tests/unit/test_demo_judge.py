"""The demo's judge: which answers contradict what the engines hold. Excluded: the story (tests/integration)."""

import pytest

from warmlog.demoasking import Answer, Asking, disagreement
from warmlog.lab import Lab

A, B = "engine-a", "engine-b"


def match(**tokens: int) -> Answer:
    named = {name.replace("_", "-"): count for name, count in tokens.items()}
    return Answer("PREFIX_MATCH", named, next(iter(named)))


@pytest.mark.parametrize(
    ("answer", "held", "partial"),
    [
        (match(engine_a=128), {A: 128, B: 0}, set()),
        (match(engine_a=128, engine_b=64), {A: 128, B: 64}, set()),
        (match(engine_a=64), {A: 128, B: 0}, {A}),
        (match(engine_a=128), {A: 128, B: 48}, set()),
        (Answer("AFFINITY_HINT", {}, B), {A: 48, B: 0}, set()),
        (Answer("AFFINITY_HINT", {}, B), {A: 96, B: 96}, set()),
        (Answer("NO_HINT", {}, ""), {A: 128, B: 0}, {A}),
    ],
    ids=["exact", "two", "partial-is-less", "too-short-to-name", "nothing-worth", "all-alike", "partial-unknown"],
)
def test_right_answers(answer: Answer, held: dict[str, int], partial: set[str]) -> None:
    assert disagreement(answer, held, partial) is None


@pytest.mark.parametrize(
    ("answer", "held", "partial", "says"),
    [
        (match(engine_a=128), {A: 112, B: 0}, set(), "is credited with 128 tokens and holds 112"),
        (match(engine_a=128), {A: 112, B: 0}, {A}, "is credited with 128 tokens and holds 112"),
        (match(engine_a=128), {B: 0}, set(), "is credited with 128 tokens and holds 0"),
        (match(engine_a=64), {A: 128, B: 0}, set(), "holds 128 tokens and is credited with 64"),
        (match(engine_a=64, engine_b=128), {A: 64, B: 128}, set(), "named first and holds less"),
        (Answer("NO_HINT", {}, ""), {A: 128, B: 0}, set(), "is held"),
    ],
    ids=["too-much", "too-much-of-a-partial", "dead", "too-little", "order", "missed"],
)
def test_wrong_answers_say_why(answer: Answer, held: dict[str, int], partial: set[str], says: str) -> None:
    assert says in str(disagreement(answer, held, partial))


def test_pods_are_called_by_their_engines_names(tmp_path: object) -> None:
    laboratory = Lab.__new__(Lab)
    laboratory.replicas = {A: "engine-a-7d9f-x2x4p"}
    asking = Asking(laboratory, iter(()))
    scores = [{"replica_id": "engine-a-7d9f-x2x4p", "matched_tokens": 96}, {"replica_id": B, "matched_tokens": 0}]
    assert asking.reduced({"reason_code": "PREFIX_MATCH", "replica_scores": scores}) == match(engine_a=96)
