"""CRDs become rows of the catalog, and go."""

from typing import Any

from devkube.custom import cells
from devkube.custom.registry import Registry, resources_of
from devkube.kinds import Catalog, preference
from tests.support.crds import crd, version

OBJECT: dict[str, Any] = {"type": "object"}
NOW = "2026-01-01T00:00:00Z"


def accepted(registry: Registry, made: dict[str, Any], now: str = NOW) -> dict[str, Any]:
    return {**made, "status": registry.status(made, now)}


def states(made: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] + " " + one["reason"] for one in made["status"]["conditions"]}


def test_preference() -> None:
    wanted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert sorted(sorted(wanted), key=preference) == wanted


def test_a_row_for_each_served_version() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.n", "priority": 1}
    made = crd(
        version(OBJECT, "v1alpha1", served=False, storage=False),
        version(OBJECT, "v1beta1", storage=False),
        version(OBJECT, subresources={"status": {}, "scale": scale}, additionalPrinterColumns=[column]),
        names={"plural": "pools", "kind": "Pool", "shortNames": ["po"], "categories": ["all"]},
        scope="Cluster",
    )
    row, older = resources_of(made)
    assert (row.version, older.version) == ("v1", "v1beta1")
    assert (row.plural, row.kind, row.singular, row.listing) == ("pools", "Pool", "pool", "PoolList")
    assert (row.namespaced, row.short_names, row.categories, row.custom) == (False, ("po",), ("all",), True)
    assert row.key == older.key == "pools.example.com"
    assert row.scale_paths == (".spec.n", ".status.n", ".status.s")
    assert set(row.subresources) == {"status", "scale"}
    assert row.subresources["scale"].group == "autoscaling"
    assert [(one.name, one.priority) for one in row.columns] == [("Size", 1)]
    assert older.columns == (cells.AGE,)
    assert not older.subresources


def test_names_are_accepted_and_versions_served() -> None:
    catalog = Catalog()
    registry = Registry(catalog)
    made = accepted(registry, crd(version(OBJECT)))
    assert states(made) == {"NamesAccepted": "True NoConflicts", "Established": "True InitialNamesAccepted"}
    assert made["status"]["acceptedNames"] == made["spec"]["names"]
    registry.established(made)
    assert catalog.find("example.com", "v1", "pools") is not None
    again = accepted(registry, made, "2027-01-01T00:00:00Z")
    assert again["status"] == made["status"]


def test_another_version_and_the_end() -> None:
    catalog = Catalog()
    registry = Registry(catalog)
    registry.established(accepted(registry, crd(version(OBJECT))))
    made = accepted(registry, crd(version(OBJECT, "v2"), version(OBJECT, served=False, storage=False)))
    registry.established(made)
    assert [row.version for row in catalog] == ["v2"]
    registry.removed(made)
    assert list(catalog) == []
    registry.removed(made)


def test_since_when_a_schema_is_served() -> None:
    made = crd(version(OBJECT), version(OBJECT, "v1beta1", storage=False))
    made["metadata"]["resourceVersion"] = "10"
    assert [row.since for row in resources_of(made)] == [10, 10]
