"""Scale, where the object has no place for the number."""

from typing import Any

import pytest

from devkube import scale
from devkube.errors import StatusError
from tests.unit.devkube.doubles import RESOURCES


def written(spec: Any) -> Any:
    obj = {"metadata": {"name": "w"}, "spec": spec}
    scale.write(obj, {"spec": {"replicas": 2}}, RESOURCES["widgets"])
    return obj["spec"]


def test_parents_are_made() -> None:
    assert written(None) == {"replicas": 2}
    assert written({"a": 1}) == {"a": 1, "replicas": 2}


def test_what_is_no_object_is_told() -> None:
    with pytest.raises(StatusError, match=r"\.spec\.replicas cannot be set: spec is no object") as caught:
        written("text")
    assert caught.value.code == 400
