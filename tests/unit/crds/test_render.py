"""The checked-in CRDs are what the Structs say, and an API server accepts them."""

from typing import Any

import pytest
import yaml

from crds import render, schema
from crds.cachebackend import CacheBackendSpec

DOCUMENTS = render.documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_file_is_what_the_structs_say(name: str) -> None:
    """`python -m crds.render` rewrites it."""
    assert (render.HERE / name).read_text() == render.page(DOCUMENTS[name])


def test_no_file_is_left_over() -> None:
    assert {path.name for path in render.HERE.glob("*.yaml")} == set(DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_schema_is_structural(name: str) -> None:
    for version in DOCUMENTS[name]["spec"]["versions"]:
        walk(version["schema"]["openAPIV3Schema"], name)


def walk(node: dict[str, Any], at: str) -> None:
    assert "type" in node or node.get("x-kubernetes-int-or-string"), at
    for key, child in node.get("properties", {}).items():
        walk(child, f"{at}.{key}")
    if isinstance(node.get("additionalProperties"), dict):
        walk(node["additionalProperties"], f"{at}.*")
    if "items" in node:
        walk(node["items"], f"{at}[]")


def test_the_contract_s_columns_and_short_name() -> None:
    found = yaml.safe_load((render.HERE / "inferencecache.io_cachebackends.yaml").read_text())
    assert found["spec"]["names"]["shortNames"] == ["cb"]
    columns = [one["name"] for one in found["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert columns == ["Type", "Ready", "Matched", "Endpoint", "Prefixes", "LastEvent", "Age"]


def test_literal_defaults_are_the_schema_s() -> None:
    given = {"runtime": "VLLM", "integration": {}, "observation": {}}
    assert schema.defaulted(given, CacheBackendSpec) == {
        "runtime": "VLLM",
        "type": "LMCache",
        "deploymentKind": "Deployment",
        "replicas": 1,
        "allowCrossNamespace": False,
        "integration": {"mode": "Offload", "role": "ReadWrite", "failOpen": True},
        "observation": {"firstEventTimeout": "5m"},
    }
