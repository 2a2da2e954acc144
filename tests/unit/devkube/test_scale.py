"""Scale, where the object has no place for the number."""

from typing import Any

from devkube import scale
from tests.unit.devkube.doubles import RESOURCES


def written(spec: Any) -> Any:
    obj = {"metadata": {"name": "w"}, "spec": spec}
    scale.write(obj, {"spec": {"replicas": 2}}, RESOURCES["widgets"])
    return obj["spec"]


def test_parents_are_made() -> None:
    assert written(None) == {"replicas": 2}
    assert written("text") == {"replicas": 2}
    assert written({"a": 1}) == {"a": 1, "replicas": 2}
