"""One container, second by second."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.simulation.lives import Container, backoff
from devkube.simulation.plans import Plan

WELL: dict[str, Any] = {
    "pull": 2.0,
    "pull_error": "",
    "run": None,
    "code": 0,
    "ready": 0.0,
    "stop": 1.0,
    "restart": "Always",
}


def plan(**more: Any) -> Plan:
    return Plan(**{**WELL, **more})


def begun(at: float = 100.0) -> Container:
    one = Container("c", "image:1")
    one.begin(at)
    return one


def reasons(one: Container, told: Plan, now: float) -> list[str]:
    return [happening.reason for happening in one.step(told, now)]


def test_it_is_pulled_and_started_when_the_pull_is_over() -> None:
    one = begun()
    assert reasons(one, plan(), 100) == ["Pulling"]
    assert one.due(plan(), 100) == 102
    assert reasons(one, plan(), 101.9) == []
    assert reasons(one, plan(), 102) == ["Pulled", "Created", "Started"]
    assert (one.state, one.at, one.due(plan(), 102)) == ("running", 102, None)


def test_an_image_that_is_there_is_not_pulled() -> None:
    one = begun()
    assert reasons(one, plan(pull=None), 100) == ["Pulled", "Created", "Started"]


def test_failed_pulls_wait_longer_and_longer() -> None:
    one, told = begun(), plan(pull=1.0, pull_error="denied")
    assert reasons(one, told, 101) == ["Pulling", "Failed", "Failed"]
    assert one.due(told, 101) == 103  # ErrImagePull becomes ImagePullBackOff
    assert one.due(told, 103) == 111
    assert reasons(one, told, 111) == ["BackOff", "Pulling"]
    assert reasons(one, told, 112) == ["Failed", "Failed"]
    assert one.due(told, 120) == 132  # 20 s after the second
    assert reasons(one, plan(pull=1.0), 140) == ["BackOff", "Pulling", "Pulled", "Created", "Started"]


def test_an_hour_at_once_is_an_hour_in_small_steps() -> None:
    told = plan(pull=1.0, run=2.0, code=1)
    leap, walk = begun(), begun()
    list(leap.step(told, 3700))
    for now in range(100, 3701):
        list(walk.step(told, float(now)))
    assert leap == walk
    assert leap.restarts > 10


@given(st.lists(st.floats(0.01, 50), max_size=30), st.floats(0, 5), st.integers(0, 1))
def test_how_often_somebody_looks_changes_nothing(steps: list[float], run: float, code: int) -> None:
    told = plan(pull=0.5, run=run, code=code, restart="OnFailure")
    walk, now = begun(), 100.0
    for step in steps:
        now += step
        list(walk.step(told, now))
        due = walk.due(told, now)
        assert due is None or due > now
    leap = begun()
    list(leap.step(told, now))
    list(walk.step(told, now))
    assert walk == leap


def test_after_a_long_calm_the_delay_starts_over() -> None:
    one, told = begun(), plan(pull=None, run=601.0, code=1)
    list(one.step(told, 100 + 3 * 601))
    assert (one.restarts, one.streak) == (3, 1)


@pytest.mark.parametrize(
    ("restart", "code", "restarts"),
    [("Always", 0, 1), ("Always", 1, 1), ("OnFailure", 0, 0), ("OnFailure", 1, 1), ("Never", 1, 0)],
)
def test_who_is_started_again(restart: str, code: int, restarts: int) -> None:
    one = begun()
    list(one.step(plan(pull=None, run=5.0, code=code, restart=restart), 106))
    assert one.restarts == restarts


def test_stopping() -> None:
    one = begun()
    list(one.step(plan(pull=None), 100))
    one.stop(110, 137, "Error")
    assert one.end is not None
    assert (one.end.code, one.end.started, one.end.finished) == (137, 100, 110)
    never = begun()
    never.stop(110, 0, "Completed")
    assert (never.state, never.end) == ("new", None)


def test_delays_are_upstreams() -> None:
    assert [backoff(n) for n in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
