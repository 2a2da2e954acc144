"""Custom resources: what may be created and changed."""

from typing import Any

from tests.conformance import forms
from tests.conformance.drivers.worker_gpustack import desk


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "operation", "object", "old", "objects", "settings")
    assert (given["operation"] == "UPDATE") == ("old" in given)
    return desk.validated(given)


def compare(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """Of each expected field one is found that is equal, below or directly above."""
    found = []
    for key, wanted in expect.items():
        if key == "message_contains":
            found += [f"{one!r} is not in {observed['message']!r}" for one in wanted if one not in observed["message"]]
        elif key == "fields":
            missing = [one for one in wanted if not any(desk.near(one, field) for field in observed["fields"])]
            found += [f"{one} is not among {observed['fields']}" for one in missing]
        elif key == "warnings_min":
            found += [] if len(observed["warnings"]) >= wanted else [f"warnings: {observed['warnings']}"]
        else:
            found += forms.differences({key: wanted}, observed)
    return found
