"""Every acceptance case of every file is one test, driven by drivers/<area>.py, or by drivers/<file>/<area>.py where a
file's areas have names that another file uses for something else. Such an area is called `<file>/<area>` in the lists.

WARMLOG_CASES names another folder of case files. An area without a driver fails, unless waiting.toml names it.
Excluded: what the cases mean; that is the drivers' business.
"""

import importlib
import importlib.util
import json
import os
import pathlib
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.conformance import forms

HERE = pathlib.Path(__file__).parent
OWN = HERE / "cases"
FOLDER = pathlib.Path(os.environ.get("WARMLOG_CASES") or OWN)


class Case(NamedTuple):
    area: str
    name: str
    given: dict[str, Any]
    expect: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.area}: {self.name}"


def cases(folder: pathlib.Path) -> Iterator[Case]:
    """The cases of every file in a folder. A file that holds none is an error, not an empty success."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"no case files in {folder}")
    for file in files:
        own = (HERE / "drivers" / module(file.stem)).is_dir()
        for case in json.loads(file.read_text())["cases"]:
            area = f"{file.stem}/{case['area']}" if own else case["area"]
            yield Case(area, case["name"], case["given"], case["expect"])


def module(name: str) -> str:
    """The name of a module for an area or a file."""
    return name.replace("-", "_").replace("/", ".")


def listed(file: pathlib.Path) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """(areas, cases by area and name) that a list names, each with its reason."""
    entries = tomllib.loads(file.read_text())
    named = {(area, name): reason for area, names in entries.get("cases", {}).items() for name, reason in names.items()}
    return entries.get("areas", {}), named


WAITING_AREAS, WAITING = listed(HERE / "waiting.toml")
_, DEVIATIONS = listed(HERE / "deviations.toml")
CASES = list(cases(FOLDER))


def driver(area: str) -> Any:
    """The driver of an area, or None."""
    name = f"tests.conformance.drivers.{module(area)}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def found_different(case: Case) -> list[str]:
    """How what happens differs from what the case expects; empty when it does not."""
    drive = driver(case.area)
    if drive is None:
        return [
            f"no driver for area {case.area}: write drivers/{module(case.area)}.py, or name the area in waiting.toml"
        ]
    compare = getattr(drive, "compare", forms.differences)
    differences: list[str] = compare(case.expect, drive.run(case.given))
    return differences


def expected_to_differ(case: Case) -> str:
    """Why a case may fail; empty when it must pass."""
    at = (case.area, case.name)
    if at in DEVIATIONS:
        return f"deviates on purpose: {DEVIATIONS[at]}"
    reason = WAITING.get(at) or WAITING_AREAS.get(case.area)
    return f"waits: {reason}" if reason else ""


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case: Case) -> None:
    excuse = expected_to_differ(case)
    if not excuse:
        assert found_different(case) == []
        return
    try:
        differences = found_different(case)
    except Exception as error:
        differences = [repr(error)]
    assert differences, f"{case.id} passes: remove it from the list that says it {excuse}"
    pytest.skip(f"{case.id} {excuse}")


@pytest.mark.skipif(FOLDER != OWN, reason="the lists speak of our own cases")
def test_lists_name_only_what_exists() -> None:
    areas = {case.area for case in CASES}
    names = {(case.area, case.name) for case in CASES}
    assert sorted(set(WAITING_AREAS) - areas) == []
    assert sorted((set(WAITING) | set(DEVIATIONS)) - names) == []


def test_areas_that_wait_have_no_driver_yet() -> None:
    assert [area for area in WAITING_AREAS if driver(area) is not None] == []


def test_input_that_a_driver_does_not_know_is_a_failure() -> None:
    with pytest.raises(forms.UnknownForm, match="surprise"):
        found_different(Case("fingerprint", "made up", {"tokens": [], "surprise": 1}, {}))


def test_an_area_without_a_driver_is_a_failure() -> None:
    assert "no driver" in found_different(Case("no_such_area", "made up", {}, {}))[0]


def test_an_expectation_that_no_driver_observes_is_a_failure() -> None:
    case = Case("fingerprint", "made up", {"tokens": [], "block_size": 16, "parent": None}, {"colour": "red"})
    assert "not observed" in found_different(case)[0]


def test_case_names_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
