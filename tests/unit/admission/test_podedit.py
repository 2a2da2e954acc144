"""Edits of Pods: in place, in order, and twice is once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.admission import podedit

FLAGS = {
    "absent": (["a"], ["a", "--f", "v"]),
    "two words": (["--f", "x", "a"], ["--f", "v", "a"]),
    "one word": (["a", "--f=x"], ["a", "--f", "v"]),
    "without a value": (["--f", "--g"], ["--f", "v", "--g"]),
    "at the end": (["--f"], ["--f", "v"]),
    "twice": (["--f", "x", "b", "--f=y"], ["--f", "v", "b"]),
    "a longer flag is another": (["--ff", "x"], ["--ff", "x", "--f", "v"]),
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_set_once_in_its_place(name: str) -> None:
    before, after = FLAGS[name]
    container = {"args": list(before)}
    podedit.set_flag(container, "--f", "v")
    assert container["args"] == after


@given(st.lists(st.sampled_from(["--f", "--f=1", "--g", "x", "-f", "--f=", ""]), max_size=6))
def test_setting_a_flag_twice_is_setting_it_once(words: list[str]) -> None:
    container: dict[str, Any] = {"args": list(words)}
    podedit.set_flag(container, "--f", "v")
    once = list(container["args"])
    podedit.set_flag(container, "--f", "v")
    assert container["args"] == once
    assert podedit.flags(once)["--f"] == ["v"]


def test_a_variable_is_replaced_in_place_whatever_its_form() -> None:
    container: dict[str, Any] = {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}, {"name": "C"}, {"name": "B", "value": "9"}]
    }
    podedit.set_env(container, "B", "2")
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C"}]


def test_what_becomes_empty_goes() -> None:
    spec: dict[str, Any] = {"initContainers": [{"name": "a"}]}
    podedit.remove(spec, "initContainers", "a")
    assert spec == {}
    pod: dict[str, Any] = {"metadata": {"annotations": {"a": "1"}}}
    podedit.unannotate(pod, "a")
    assert pod == {"metadata": {}}


def test_values_of_flags_are_told_apart_from_flags() -> None:
    assert podedit.flags(["serve", "--a", "1", "--b", "--c=2", "-d", "x", "--a=3"]) == {
        "--a": ["1", "3"],
        "--b": [None],
        "--c": ["2"],
        "-d": ["x"],
    }
