"""Objects as small as a kind allows, and one way through its rules as a write takes it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from devkube.builtin.catalog import builtin_resources
from devkube.errors import Cause
from devkube.kinds import Catalog, Object

CATALOG = Catalog(builtin_resources())


def resource_of(obj: Object) -> Any:
    found = CATALOG.of_kind(obj["apiVersion"], obj["kind"])
    assert found is not None, f"{obj['apiVersion']} {obj['kind']} is not served"
    return found


class Written:
    """An object after decoding and defaults, and what its rules say of it."""

    def __init__(self, obj: Object, old: Object | None = None, subresource: str = "") -> None:
        self.object, self.resource = deepcopy(obj), resource_of(obj)
        rules = self.resource.rules
        self.warnings = rules.decode(self.object, validation="Strict")
        rules.default(self.object)
        rules.prepare(self.object, old, subresource)
        self.causes: list[Cause] = rules.validate(self.object, old, subresource)

    @property
    def told(self) -> dict[str, str]:
        return {cause.field: cause.message for cause in self.causes}


@pytest.fixture
def written() -> type[Written]:
    return Written


@pytest.fixture
def catalog() -> Catalog:
    return CATALOG


def pod(**spec: Any) -> Object:
    containers = [{"name": "main", "image": "registry/app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": containers, **spec},
    }


@pytest.fixture
def a_pod() -> Callable[..., Object]:
    return pod


@pytest.fixture
def container() -> Callable[..., Object]:
    return lambda name="main", **more: {"name": name, "image": "registry/app:1", **more}


def workload(kind: str, version: str = "apps/v1", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "i:1"}]}}
    given: dict[str, Any] = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    if kind == "Job":
        given = {"template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "w", "namespace": "n", "uid": "u-1"},
        "spec": {**given, **spec},
    }


@pytest.fixture
def a_workload() -> Callable[..., Object]:
    return workload
