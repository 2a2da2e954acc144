"""Recorded histories, folded by today's code, give what they gave when they were recorded.

A difference that is wanted is named in accepted.toml as ["<history>:<moment>:<field>"] = "why"; it must then exist.
Every event type and wire version that was ever shipped stays readable: nothing in a history may be skipped.
"""

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.replay import record

FILES = sorted(record.HISTORIES.glob("*.json.gz"))
ACCEPTED: dict[str, str] = tomllib.loads((Path(__file__).parent / "accepted.toml").read_text()).get("accepted", {})


def history(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


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
    mine = {name for name in ACCEPTED if name.startswith(f"{path.name.removesuffix('.json.gz')}:")}
    assert differences == mine


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_folding_twice_gives_the_same_bytes(path: Path) -> None:
    recorded = history(path)
    last = recorded["kv"][-1][0]
    first, second = (list(record.fold_kv(recorded["kv"], last).dump()) for _ in range(2))
    assert first == second
    assert first
