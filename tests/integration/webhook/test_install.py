"""Installed as the README says, with kubectl: CRDs, then deploy/kubernetes; afterwards every sample, strictly, past the
webhooks as they were installed. Excluded: images (no kubelet here)."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import definitions
from tests.support import houseapi
from tests.support.kubectl import Kubectl
from tests.support.webhookhouse import PATIENCE, SPACE, SYSTEM, WebhookHouse, client

Object = dict[str, Any]
ROOT = Path(__file__).parents[3]
SAMPLES = sorted((ROOT / "deploy" / "samples").glob("*.yaml"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ONLY_ONE = "is the policy of this namespace already"  # the log may not know yet that the one before is gone


@pytest.fixture
async def installed(bare_house: WebhookHouse, tmp_path: Path) -> tuple[WebhookHouse, Kubectl]:
    kubectl = Kubectl(bare_house.api.kubeconfig, tmp_path)
    for words in (("-f", str(ROOT / "crds")), ("-k", str(ROOT / "deploy" / "kubernetes"))):
        done = await kubectl("apply", "--server-side", "--validate=strict", *words)
        assert "Warning" not in done.err, done.err
        done.ok()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    await bare_house.api.request("POST", "/api/v1/namespaces", body)
    return bare_house, kubectl


async def test_definitions_are_served_and_say_nothing_against_their_schemas(
    installed: tuple[WebhookHouse, Kubectl],
) -> None:
    house, _ = installed

    async def settled() -> list[Object] | None:
        found: list[Object] = (await house.api.request("GET", DEFINITIONS))["items"]
        ready = [one for one in found if _conditions(one).get("Established") == "True"]
        return ready if len(ready) == len(definitions.DEFINITIONS) else None

    for one in await house.until(settled, "all are established"):
        conditions = _conditions(one)
        assert conditions["NamesAccepted"] == "True", one["metadata"]["name"]
        assert "NonStructuralSchema" not in conditions, one["metadata"]["name"]


def _conditions(one: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in one.get("status", {}).get("conditions", [])}


async def test_installing_twice_changes_nothing(installed: tuple[WebhookHouse, Kubectl]) -> None:
    _, kubectl = installed
    told = await kubectl("diff", "--server-side", "-f", str(ROOT / "crds"))
    assert (told.code, told.out) == (0, ""), told.err or told.out
    told = await kubectl("diff", "--server-side", "-k", str(ROOT / "deploy" / "kubernetes"))
    assert (told.code, told.out) == (0, ""), told.err or told.out


async def test_our_workloads_are_admitted_to_a_restricted_namespace(installed: tuple[WebhookHouse, Kubectl]) -> None:
    """Each Deployment's Pod as it is made of the template; a server without controllers is asked with a dry run."""
    house, _ = installed
    async with client(house) as kube:
        found = (await kube.read(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"))["items"]
        assert len(found) == 3
        for one in found:
            template = one["spec"]["template"]
            metadata = {"name": one["metadata"]["name"], "labels": template["metadata"]["labels"]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            answer = await kube.post(f"/api/v1/namespaces/{SYSTEM}/pods", pod, dryRun="All", fieldValidation="Strict")
            answer.ok(201)
            assert answer.warnings == []


async def test_every_sample_is_applied_strictly_past_the_webhooks(installed: tuple[WebhookHouse, Kubectl]) -> None:
    """One after the other, each taken away again; a second time nothing is changed."""
    house, kubectl = installed
    await house.connect()
    await house.ready()
    for path in SAMPLES:
        applied = await _applied(kubectl, path)
        assert "Warning" not in applied.err, f"{path.name}: {applied.err}"
        kinds = [one["kind"] for one in yaml.safe_load_all(path.read_text()) if one["kind"] != "Namespace"]
        for kind in kinds:
            assert kind.lower() in applied.out
        before = await _specs(kubectl, path)
        await _applied(kubectl, path)
        assert await _specs(kubectl, path) == before
        (await kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(path))).ok()
    reviewed = {one.webhook for one in await house.decided(len(SAMPLES))}
    assert {"mcachebackend.inferencecache.io", "vcachepolicy.inferencecache.io"} <= reviewed
    assert house.refused == []


async def _specs(kubectl: Kubectl, path: Path) -> list[tuple[str, int, Object]]:
    """What people wrote, as it is stored; statuses go on meanwhile."""
    found = json.loads((await kubectl("get", "-o", "json", "-f", str(path))).ok())
    return [
        (one["metadata"]["uid"], one["metadata"].get("generation", 0), one.get("spec", {}))
        for one in found.get("items", [found])
        if one["kind"] != "Namespace"
    ]


async def _applied(kubectl: Kubectl, path: Path) -> Any:
    deadline = time.monotonic() + PATIENCE
    while True:
        done = await kubectl("apply", "--server-side", "--validate=strict", "-f", str(path))
        if done.code == 0:
            return done
        assert ONLY_ONE in done.err, f"{path.name}: {done.err}"
        assert time.monotonic() < deadline, done.err
        await asyncio.sleep(0.2)


async def test_a_real_cluster_makes_pods_of_our_workloads(installed: tuple[WebhookHouse, Kubectl]) -> None:
    house, _ = installed
    if isinstance(house.api, houseapi.Dev):
        pytest.skip("devkube makes no Pods of Deployments here")

    async def made() -> bool:
        pods = (await house.api.request("GET", f"/api/v1/namespaces/{SYSTEM}/pods"))["items"]
        return len(pods) == 5

    await house.until(made, "two controllers, two webhooks, a server")
