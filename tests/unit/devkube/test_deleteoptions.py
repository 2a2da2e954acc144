"""DeleteOptions."""

from typing import Any

import pytest

from devkube import deleteoptions
from devkube.deleteoptions import DeleteOptions
from devkube.errors import StatusError
from tests.unit.devkube.doubles import Api


def delete(body: Any = None, **query: str) -> DeleteOptions:
    return deleteoptions.read(Api.request("delete", "pods", "a", body, query=query))


def test_deletes() -> None:
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": -5,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    found = delete(body)
    assert found == DeleteOptions(dry_run=True, grace=1, policy="Foreground", uid="u", version="7")
    assert found.options()["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert delete(gracePeriodSeconds="0", propagationPolicy="Orphan") == DeleteOptions(grace=0, policy="Orphan")
    assert delete(orphanDependents="true").policy == "Orphan"
    assert delete({"orphanDependents": False}).policy == "Background"


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ({"propagationPolicy": "Maybe"}, 422, 'propagationPolicy: Unsupported value: "Maybe"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"dryRun": ["x"]}, 422, "dryRun: Unsupported value"),
        ({"gracePeriodSeconds": "1"}, 400, "gracePeriodSeconds must be a whole number, not string"),
        ({"preconditions": []}, 400, "preconditions must be an object, not array"),
        ({"kind": "Pod"}, 400, "cannot be handled as a DeleteOptions"),
    ],
)
def test_deletes_that_are_none(body: dict[str, Any], code: int, told: str) -> None:
    with pytest.raises(StatusError) as caught:
        delete(body)
    assert caught.value.code == code
    assert told in caught.value.message
