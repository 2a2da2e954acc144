"""Recorded histories, folded by today's code, give what they gave when they were recorded.

A difference that is wanted is named in accepted.toml as ["<history>:<moment>:<field>"] = "why"; it must then exist.
Every event type and wire version that was ever shipped stays readable: nothing in a history may be skipped. Decisions
and writes are decided again at their positions; ["<history>:again:<decision or verb>"] accepts that those of one kind
come out otherwise, because the logic changed on purpose.
"""

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from eventstore import store
from handlers.world import keyframe
from handlers.world.fold import fold
from handlers.world.state import World
from tests.replay import record
from tests.support import equivalence

FILES = sorted(record.HISTORIES.glob("*.json.gz"))
ACCEPTED: dict[str, str] = tomllib.loads((Path(__file__).parent / "accepted.toml").read_text()).get("accepted", {})


def history(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def accepted(path: Path, *, again: bool) -> set[str]:
    mine = {name for name in ACCEPTED if name.startswith(f"{path.name.removesuffix('.json.gz')}:")}
    return {name for name in mine if (":again:" in name) == again}


def log_of(recorded: dict[str, Any]) -> list[store.Stored]:
    return [store.Stored(number, at, subject, body.encode()) for number, at, subject, body in recorded["log"]]


def test_there_are_histories() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_a_history_folds_to_what_it_folded_to(path: Path) -> None:
    recorded = history(path)
    today = json.loads(json.dumps(record.conclude(recorded)))
    differences = {
        f"{path.name.removesuffix('.json.gz')}:{number}:{field}"
        for number, (then, now) in enumerate(zip(recorded["concluded"], today, strict=True))
        for field in then
        if then[field] != now[field]
    }
    assert differences == accepted(path, again=False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_folding_twice_gives_the_same_bytes(path: Path) -> None:
    recorded = history(path)
    last = recorded["kv"][-1][0]
    first, second = (list(record.fold_kv(recorded["kv"], last).dump()) for _ in range(2))
    assert first == second
    assert first


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_decision_and_every_write_is_decided_again(path: Path) -> None:
    result = equivalence.judge(log_of(history(path)), incarnation="i")
    name = path.name.removesuffix(".json.gz")
    differs = {f"{name}:again:{one.what}" for one in result.differences}
    assert differs == accepted(path, again=True), "\n".join(one.line for one in result.differences)
    assert not result.world.skipped


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_a_fold_that_makes_another_world_has_another_number(path: Path) -> None:
    """A keyframe of an older version is gone on from when its FOLD is ours: then its world must be ours too.

    When this fails, count keyframe.FOLD up. `python -m tests.replay.record --folds` writes folds.json anew.
    """
    known = record.folds().get(path.name.removesuffix(".json.gz"))
    now = record.fold_of(history(path))
    assert known is not None, "run `python -m tests.replay.record --folds`"
    if (known["fold"], known["form"]) == (now["fold"], now["form"]):
        assert known["digest"] == now["digest"]


def test_some_history_has_admissions_and_statuses() -> None:
    results = [equivalence.judge(log_of(history(path)), incarnation="i") for path in FILES]
    assert max(one.decisions for one in results) >= 5
    assert max(one.statuses for one in results) >= 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_from_a_keyframe_at_any_position_the_fold_gives_equal_bytes(path: Path) -> None:
    log = log_of(history(path))
    whole = World()
    frames = []
    for one in log:
        fold(whole, one, incarnation="i")
        frames.append(list(keyframe.cut(keyframe.rows(whole))))
    wanted = keyframe.digest(whole)
    for at in range(0, len(log), max(1, len(log) // 20)):
        world, _ = keyframe.load(frames[at], incarnation="i")
        for one in log[at + 1 :]:
            fold(world, one, incarnation="i")
        assert keyframe.digest(world) == wanted
