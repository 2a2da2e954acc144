"""Query parameters."""

from typing import Any

import pytest

from devkube import parameters
from devkube.errors import StatusError
from devkube.store import Stored
from tests.unit.devkube.doubles import RESOURCES, Api

PODS = RESOURCES["pods"]


def write(kind: str = "CreateOptions", *, agent: str = "", applies: bool = False, **query: str) -> parameters.Write:
    return parameters.write(Api.request("create", "pods", query=query, agent=agent), kind, applies=applies)


def test_writes() -> None:
    found = write(dryRun="All", fieldManager="me", fieldValidation="Strict")
    assert (found.dry_run, found.manager, found.validation) == (True, "me", "Strict")
    assert found.options("CreateOptions")["dryRun"] == ["All"]
    assert write(agent="kubectl/v1.37 (linux)").manager == "kubectl"
    assert write().manager == "unknown"
    assert write().validation == "Warn"
    assert write("PatchOptions", applies=True, fieldManager="me", force="true").force


@pytest.mark.parametrize(
    ("query", "more", "told"),
    [
        ({"dryRun": "Some"}, {}, 'dryRun: Unsupported value: "Some": supported values: "All"'),
        ({"fieldValidation": "Mild"}, {}, 'fieldValidation: Unsupported value: "Mild"'),
        ({"fieldManager": "x" * 129}, {}, "fieldManager: Too long: may not be more than 128 bytes"),
        ({"fieldManager": "a\n"}, {}, "has characters that cannot be printed"),
        ({"force": "true"}, {"kind": "PatchOptions"}, "force: Forbidden: may not be specified for non-apply patch"),
        ({}, {"kind": "PatchOptions", "applies": True}, "fieldManager: Required value: is required for apply patch"),
    ],
)
def test_writes_that_are_none(query: dict[str, str], more: dict[str, Any], told: str) -> None:
    with pytest.raises(StatusError) as caught:
        write(**more, **query)
    assert caught.value.code == 422
    assert told in caught.value.message


def read(watch: bool = False, **query: str) -> parameters.Read:
    return parameters.read(query, PODS, watch=watch)


def stored(name: str, **labels: str) -> Stored:
    return Stored("pods", "ns", name, "", 1, b"", labels, {}, ())


def test_reads() -> None:
    found = read(limit="5", timeoutSeconds="7", allowWatchBookmarks="1", resourceVersion="3")
    assert (found.limit, found.timeout, found.bookmarks, found.version) == (5, 7, True, "3")
    assert found.predicate is None
    for chosen in (read(labelSelector="l=b"), read(fieldSelector="metadata.name=a")):
        assert chosen.predicate is not None
        assert chosen.predicate(stored("a", l="b"))
        assert not chosen.predicate(stored("b"))


@pytest.mark.parametrize(
    ("query", "watch", "code", "told"),
    [
        ({"limit": "x"}, False, 400, 'parsing "x": invalid syntax'),
        ({"resourceVersion": "x"}, False, 400, 'resourceVersion: Invalid value: "x"'),
        ({"resourceVersionMatch": "Exact"}, False, 422, "forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Most", "resourceVersion": "1"}, False, 422, 'Unsupported value: "Most"'),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, False, 422, '"exact" is forbidden'),
        ({"sendInitialEvents": "true"}, False, 422, "sendInitialEvents is forbidden for list"),
        ({"sendInitialEvents": "true"}, True, 422, "requires setting resourceVersionMatch to NotOlderThan"),
        ({"resourceVersionMatch": "NotOlderThan"}, True, 422, "forbidden for watch unless sendInitialEvents"),
    ],
)
def test_reads_that_are_none(query: dict[str, str], watch: bool, code: int, told: str) -> None:
    with pytest.raises(StatusError) as caught:
        read(watch, **query)
    assert caught.value.code == code
    assert told in caught.value.message
