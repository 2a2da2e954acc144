"""OpenAPI documents: what kubectl looks up in them, and that every reference leads somewhere."""

from collections.abc import Iterator
from typing import Any

import pytest

from devkube import openapi
from devkube.builtin.catalog import builtin_resources
from devkube.errors import StatusError
from devkube.kinds import Catalog, Object, Resource, Subresource
from devkube.schema import Schema

NODE = {
    "type": "object",
    "description": "A toy.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "nullable": True, "default": 1},
            },
        }
    },
}


def toys(node: Object = NODE, version: str = "v1") -> Resource:
    class Rules:
        schema = Schema(node, {})

    return Resource(
        "toys.example.org",
        version,
        "toys",
        "Toy",
        "toy",
        namespaced=True,
        rules=Rules(),  # type: ignore[arg-type]
        subresources={"scale": Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1")},
        custom=True,
    )


CATALOG = Catalog([*builtin_resources(), toys()])
TOY = "org.example.toys.v1.Toy"


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for one in node:
            yield from references(one)


@pytest.mark.parametrize("path", ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "apis/toys.example.org/v1"])
def test_every_reference_leads_to_a_schema(path: str) -> None:
    document = openapi.v3(CATALOG, path)
    schemas = document["components"]["schemas"]
    found = set(references(document))
    assert found
    assert {one.removeprefix("#/components/schemas/") for one in found} <= set(schemas)


def test_the_index_names_a_document_for_each_group_and_version() -> None:
    paths = openapi.index(CATALOG)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/toys.example.org/v1"} <= set(paths)
    assert paths["apis/toys.example.org/v1"] == {"serverRelativeURL": "/openapi/v3/apis/toys.example.org/v1"}


def test_a_group_that_is_not_served_has_no_document() -> None:
    with pytest.raises(StatusError):
        openapi.v3(CATALOG, "apis/nothing.example.org/v1")


def test_kinds_are_found_by_group_version_and_kind() -> None:
    schemas = openapi.v3(CATALOG, "apis/apps/v1")["components"]["schemas"]
    found = [
        name
        for name, schema in schemas.items()
        if {"group": "apps", "version": "v1", "kind": "Deployment"} in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert found == ["io.k8s.api.apps.v1.Deployment"]


def test_client_side_apply_finds_patch_types_and_merge_keys() -> None:
    document = openapi.v3(CATALOG, "api/v1")
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
    containers = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    own = openapi.v3(CATALOG, "apis/toys.example.org/v1")["paths"][
        "/apis/toys.example.org/v1/namespaces/{namespace}/toys/{name}"
    ]
    assert "application/strategic-merge-patch+json" not in own["patch"]["requestBody"]["content"]
    assert "application/apply-patch+yaml" in own["patch"]["requestBody"]["content"]


def test_nothing_of_the_validators_dialect_is_left() -> None:
    schemas = openapi.v3(CATALOG, "api/v1")["components"]["schemas"]

    def dialect(node: Any) -> Iterator[Any]:
        if isinstance(node, dict):
            if isinstance(node.get("type"), list) or node.get("additionalProperties") is False:
                yield node
            for value in node.values():
                yield from dialect(value)

    assert list(dialect(schemas)) == []
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert "enum" not in pod["properties"]["kind"]
    # A reference with something beside it is wrapped: OpenAPI 3 would ignore the neighbours.
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]
    assert "description" in pod["properties"]["spec"]
    assert schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"] == "int-or-string"


def test_a_custom_type_is_its_schema_with_type_and_metadata() -> None:
    schemas = openapi.v3(CATALOG, "apis/toys.example.org/v1")["components"]["schemas"]
    toy = schemas[TOY]
    assert toy["required"] == ["spec"]
    assert set(toy["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert toy["properties"]["spec"]["properties"]["size"] == {"type": "integer", "nullable": True, "default": 1}
