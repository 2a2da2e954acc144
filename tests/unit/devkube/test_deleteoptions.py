"""DeleteOptions."""

from typing import Any

import pytest

from devkube.deleting import DeleteOptions, options_of
from devkube.errors import StatusError
from tests.unit.devkube.doubles import Api


def delete(body: Any = None, **query: str) -> DeleteOptions:
    return options_of(Api.request("delete", "pods", "a", body, query=query))


def test_deletes() -> None:
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    found = delete(body)
    assert found.options() == {**body, "apiVersion": "meta.k8s.io/v1"}
    wanted = DeleteOptions(grace_period_seconds=0, propagation_policy="Orphan")
    assert delete(gracePeriodSeconds="0", propagationPolicy="Orphan") == wanted


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ({"propagationPolicy": "Maybe"}, 422, 'propagationPolicy: Unsupported value: "Maybe"'),
        ({"dryRun": ["x"]}, 422, "dryRun: Unsupported value"),
        ({"gracePeriodSeconds": "1"}, 400, "Expected `int | null`, got `str` - at `$.gracePeriodSeconds`"),
        ({"gracePeriodSeconds": 2**63}, 400, "gracePeriodSeconds"),
        ({"preconditions": []}, 400, "Expected `object | null`, got `array` - at `$.preconditions`"),
        ({"kind": "Pod"}, 400, "cannot be handled as a DeleteOptions"),
    ],
)
def test_deletes_that_are_none(body: dict[str, Any], code: int, told: str) -> None:
    with pytest.raises(StatusError) as caught:
        delete(body)
    assert caught.value.code == code
    assert told in caught.value.message
