"""Discovery documents against what client-go expects of them."""

import pytest

from devkube import discovery
from devkube.builtin.catalog import builtin_resources
from devkube.errors import StatusError
from devkube.kinds import Catalog

CATALOG = Catalog(builtin_resources())


def test_groups_have_a_preferred_version_and_the_core_is_not_among_them() -> None:
    groups = discovery.group_list(CATALOG)["groups"]
    assert "" not in [one["name"] for one in groups]
    apps = next(one for one in groups if one["name"] == "apps")
    assert apps == {
        "name": "apps",
        "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
    }
    assert discovery.group(CATALOG, "apps") == {"kind": "APIGroup", "apiVersion": "v1", **apps}


def test_resources_with_their_subresources() -> None:
    rows = {row["name"]: row for row in discovery.resource_list(CATALOG, "apps", "v1")["resources"]}
    deployments = rows["deployments"]
    assert (deployments["singularName"], deployments["namespaced"]) == ("deployment", True)
    assert deployments["shortNames"] == ["deploy"]
    assert deployments["categories"] == ["all"]
    assert {"create", "watch", "deletecollection"} <= set(deployments["verbs"])
    # kubectl scale finds the kind of the subresource by these two.
    assert (rows["deployments/scale"]["group"], rows["deployments/scale"]["version"]) == ("autoscaling", "v1")
    assert "group" not in rows["deployments/status"]
    assert "shortNames" not in rows["controllerrevisions"]


def test_the_core_is_named_by_its_version_alone() -> None:
    assert discovery.resource_list(CATALOG, "", "v1")["groupVersion"] == "v1"


@pytest.mark.parametrize(("group", "version"), [("apps", "v2"), ("nothing.example.org", "v1")])
def test_what_is_not_served_is_not_found(group: str, version: str) -> None:
    with pytest.raises(StatusError) as caught:
        discovery.resource_list(CATALOG, group, version)
    assert caught.value.code == 404


def test_groups_that_do_not_exist_are_not_found() -> None:
    for name in ("nothing.example.org", ""):
        with pytest.raises(StatusError):
            discovery.group(CATALOG, name)


def test_the_aggregated_list_says_the_same_as_the_classic_documents() -> None:
    core = discovery.aggregated(CATALOG, core=True)
    rest = discovery.aggregated(CATALOG, core=False)
    assert [item["metadata"] for item in core["items"]] == [{}]
    told = set()
    for item in (*core["items"], *rest["items"]):
        for version in item["versions"]:
            for row in version["resources"]:
                told.add((item["metadata"].get("name", ""), version["version"], row["resource"]))
                told |= {
                    (item["metadata"].get("name", ""), version["version"], f"{row['resource']}/{sub['subresource']}")
                    for sub in row.get("subresources", ())
                }
    classic = {
        (group, version, row["name"])
        for group, versions in CATALOG.groups().items()
        for version in versions
        for row in discovery.resource_list(CATALOG, group, version)["resources"]
    }
    assert told == classic
