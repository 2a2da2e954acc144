"""The laptop's stand-in for kubectl: where objects go, how tables are printed, which command is found.

Excluded: the real command (tests/integration/test_demo.py).
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from handlers.effects.cluster import ClusterError
from subscribers.kubernetes.client import Answer
from warmlog import kubectl
from warmlog.children import LabError

TABLE: dict[str, Any] = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0},
        {"name": "Ready", "priority": 0},
        {"name": "Prefixes"},
        {"name": "Message", "priority": 1},
    ],
    "rows": [{"cells": ["chat", True, 320, "long"]}, {"cells": ["a-longer-name", False, None, ""]}],
}


class Server:
    """Answers like a client, and remembers."""

    def __init__(self, error: ClusterError | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.error = error

    async def request(self, method: str, path: str, **given: Any) -> Answer:
        self.asked.append((method, path))
        if self.error:
            raise self.error
        return Answer(200, b'{"columnDefinitions": [], "rows": []}')


def document(version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def test_a_table_is_printed_as_kubectl_prints_it() -> None:
    assert kubectl.printed(TABLE).splitlines() == [
        "NAME            READY   PREFIXES",
        "chat            true    320",
        "a-longer-name   false",
    ]


async def test_objects_go_where_their_kind_lives() -> None:
    server = Server()
    told = await kubectl.Api(server).apply(  # type: ignore[arg-type]
        document("v1", "Namespace", "team-a"),
        document("apiextensions.k8s.io/v1", "CustomResourceDefinition", "cachebackends.inferencecache.io"),
        document("inferencecache.io/v1alpha1", "CacheBackend", "chat", "team-a"),
        document("apps/v1", "Deployment", "engine"),
    )
    assert server.asked == [
        ("PATCH", "/api/v1/namespaces/team-a"),
        ("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cachebackends.inferencecache.io"),
        ("PATCH", "/apis/inferencecache.io/v1alpha1/namespaces/team-a/cachebackends/chat"),
        ("PATCH", "/apis/apps/v1/namespaces/default/deployments/engine"),
    ]
    assert told[2] == "cachebackend.inferencecache.io/chat applied"


async def test_a_refusal_is_one_line_that_names_the_object() -> None:
    server = Server(ClusterError(422, "Invalid", "spec.runtime is required"))
    with pytest.raises(LabError, match=r"CacheBackend chat is not taken: spec\.runtime is required"):
        await kubectl.Api(server).apply(document("inferencecache.io/v1alpha1", "CacheBackend", "chat"))  # type: ignore[arg-type]


def test_a_kind_that_nobody_applies_here_is_refused() -> None:
    with pytest.raises(LabError, match="batch/v1 Job is none of the kinds"):
        kubectl.route_of(document("batch/v1", "Job", "x"))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder of this Python, and one on the path."""
    beside, path = tmp_path / "venv", tmp_path / "bin"
    for place in (beside, path):
        place.mkdir()
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setenv("PATH", str(path))
    return beside, path


def test_the_wheels_command_comes_before_the_paths(places: tuple[Path, Path]) -> None:
    assert kubectl.find() is None
    for place in reversed(places):
        (place / "kubectl").write_text("#!/bin/sh\n")
        os.chmod(place / "kubectl", 0o755)
        assert kubectl.find() == place / "kubectl"
