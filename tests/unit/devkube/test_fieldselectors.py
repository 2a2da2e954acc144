"""Field selectors: what they choose, what the store keeps for them, and what is said of those that are none."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube import selectors
from devkube.errors import StatusError
from tests.unit.devkube.doubles import RESOURCES

FIELDS = ("metadata.name", "metadata.namespace", "status.phase")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==b", False),
        ("metadata.namespace!=ns", False),
        ("status.phase=Running,metadata.name!=b", True),
        ("status.phase=", False),
        (r"status.phase!=a\,b", True),
    ],
)
def test_fields(text: str, chosen: bool) -> None:
    assert selectors.parse_fields(text, FIELDS).matches("ns", "a", {"status.phase": "Running"}) is chosen


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec.x=1", "field label not supported: spec.x"),
        ("metadata.name", "invalid field selector: can't understand 'metadata.name'"),
        (r"metadata.name=a\b", r"invalid field selector: can't understand 'metadata.name=a\b'"),
        ("metadata.name=a=b", "invalid field selector: can't understand 'metadata.name=a=b'"),
    ],
)
def test_fields_that_are_none(text: str, told: str) -> None:
    with pytest.raises(StatusError) as caught:
        selectors.parse_fields(text, FIELDS)
    assert caught.value.code == 400
    assert caught.value.message.startswith(told)


def test_what_is_kept_of_objects() -> None:
    pod = {"spec": {"nodeName": "n1", "hostNetwork": True}, "status": {"phase": "Running"}}
    found = selectors.values(RESOURCES["pods"], pod)
    assert (found["spec.nodeName"], found["spec.hostNetwork"], found["status.podIP"]) == ("n1", "true", "")
    assert selectors.values(RESOURCES["nodes"], {}) == {"spec.unschedulable": "false"}
    assert selectors.values(RESOURCES["configmaps"], {"data": {}}) == {}


@given(st.text(alphabet="ab=!,\\\\.metadata name", max_size=30))
def test_any_text_selects_or_is_refused(text: str) -> None:
    with contextlib.suppress(StatusError):
        assert selectors.parse_fields(text, ["metadata.name"]).matches("ns", "x", {}) in (True, False)
