"""What an API server makes of Kernel Cache's CRDs: what it refuses, what stays as it is, what kubectl shows of it.
devkube always, a real one where there is one; one server for all tests, emptied after each."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from crds import render
from devkube.errors import StatusError
from tests.support import houseapi
from tests.support import kernelcaches as kc
from tests.support.houseapi import Api
from tests.support.kubectl import Kubectl

Object = dict[str, Any]
ROOT = "/apis/serving.kserve.io/v1alpha1"
CACHES, CAPTURES = (f"{ROOT}/namespaces/default/{one}" for one in ("kernelcaches", "kernelcachecaptures"))
GROUPS, NODES = (f"{ROOT}/{one}" for one in ("kernelcachenodegroups", "kernelcachenodes"))


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=houseapi.names())
async def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    made = houseapi.made(request.param, tmp_path_factory.mktemp(request.param))
    try:
        await made.start()
        for crd in render.documents().values():
            await made.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        await _served(made)
        yield made
    finally:
        await made.stop()


async def _served(api: Api) -> None:
    """A real server needs a moment to serve what it was told of."""
    async with asyncio.timeout(20):
        for path in (CACHES, CAPTURES, GROUPS, NODES):
            while True:
                try:
                    await api.request("GET", path)
                    break
                except StatusError:
                    await asyncio.sleep(0.1)


@pytest_asyncio.fixture(loop_scope="module")
async def api(server: Api) -> AsyncIterator[Api]:
    yield server
    for path in (CACHES, CAPTURES, GROUPS, NODES):
        await server.request("DELETE", path)


def document(kind: str, spec: Object | None, name: str = "one") -> Object:
    made: Object = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
    return made if spec is None else {**made, "spec": spec}


def cache(**artifact: Any) -> Object:
    spec = copy.deepcopy(kc.cache("one", kc.pod())["spec"])
    del spec["mountType"]
    spec["artifact"] |= artifact
    return document("KernelCache", spec)


def capture(**spec: Any) -> Object:
    return document("KernelCacheCapture", {"sourceRef": {"kind": "InferenceService", "name": "chat"}, **spec})


async def refused(api: Api, verb: str, path: str, body: Object) -> str:
    with pytest.raises(StatusError) as error:
        await api.request(verb, path, body)
    return str(error.value)


MANY = [{"containerPath": f"/k{n}"} for n in range(65)]
REFUSED = {
    "a tag": (CACHES, cache(imageReference="reg.lan/kc/chat:r1"), "spec.artifact.imageReference"),
    "two digests": (CACHES, cache(imageReference=f"{kc.REFERENCE}@{kc.DIGEST}"), "spec.artifact.imageReference"),
    "no path": (CACHES, cache(cachePaths=[]), "spec.artifact.cachePaths"),
    "65 paths": (CACHES, cache(cachePaths=MANY), "spec.artifact.cachePaths"),
    "a path of the root": (CACHES, cache(cachePaths=[{"containerPath": "/"}]), "containerPath"),
    "a path that leads out": (CACHES, cache(cachePaths=[{"containerPath": "/a/../b"}]), "containerPath"),
    "a path with a variable": (CACHES, cache(cachePaths=[{"containerPath": "/a/$B"}]), "containerPath"),
    "an absolute part": (CACHES, cache(cachePaths=[{"ociPath": "/io.vllm.cache"}]), "ociPath"),
    "a part that leads out": (CACHES, cache(cachePaths=[{"ociPath": "a/.."}]), "ociPath"),
    "an odd footprint": (CACHES, cache(identity={"footprints": {"workloadFootprint": "x"}}), "workloadFootprint"),
    "another mount": (CACHES, document("KernelCache", {**cache()["spec"], "mountType": "pvc"}), "spec.mountType"),
    "another source": (CAPTURES, capture(sourceRef={"kind": "Deployment", "name": "x"}), "spec.sourceRef.kind"),
    "no source": (CAPTURES, capture(sourceRef={"kind": "InferenceService", "name": ""}), "spec.sourceRef.name"),
    "an empty target": (CAPTURES, capture(targetImage=""), "spec.targetImage"),
    "an empty selector": (GROUPS, document("KernelCacheNodeGroup", {"nodeSelector": {}}), "spec.nodeSelector"),
    "no selector": (GROUPS, document("KernelCacheNodeGroup", {}), "spec.nodeSelector"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(api: Api, name: str) -> None:
    path, body, field = REFUSED[name]
    assert field in await refused(api, "POST", path, body)


async def test_defaults_and_what_may_change(api: Api) -> None:
    made = await api.request("POST", CACHES, cache(cachePaths=[{"containerPath": "/kc"}]))
    assert made["spec"]["mountType"] == "oci"
    assert made["spec"]["artifact"]["cachePaths"][0]["ociPath"] == "io.vllm.cache"
    changed = copy.deepcopy(made)
    changed["spec"]["artifact"]["imageReference"] = kc.REFERENCE.replace("aaaa", "cccc")
    assert "artifact is immutable" in await refused(api, "PUT", f"{CACHES}/one", changed)
    changed = copy.deepcopy(made)
    changed["spec"]["artifact"]["cachePaths"].append({"containerPath": "/other"})
    assert "artifact is immutable" in await refused(api, "PUT", f"{CACHES}/one", changed)
    made["spec"]["nodeGroupRef"] = {"name": "h100"}
    assert (await api.request("PUT", f"{CACHES}/one", made))["spec"]["nodeGroupRef"] == {"name": "h100"}


async def test_a_capture_keeps_its_source(api: Api) -> None:
    made = await api.request("POST", CAPTURES, capture())
    made["spec"]["sourceRef"]["name"] = "other"
    assert "sourceRef is immutable" in await refused(api, "PUT", f"{CAPTURES}/one", made)


async def test_statuses_are_kept(api: Api) -> None:
    """What agents and controllers will write."""
    held = kc.node(
        "one", kc.cache("one", kc.pod()), accelerators=[{"product": "H100", "arch": "sm_90"}], cpuArch="amd64"
    )
    made = await api.request("POST", NODES, document("KernelCacheNode", None))
    made["status"] = held["status"]
    found = await api.request("PUT", f"{NODES}/one/status", made)
    assert found["status"] == held["status"]
    made = await api.request("POST", CAPTURES, capture())
    status = {
        "phase": "Capturing",
        "activeSession": {"id": "s", "podName": "p"},
        "runtimeResult": {"state": "Capturing"},
    }
    made["status"] = status
    made = await api.request("PUT", f"{CAPTURES}/one/status", made)
    assert made["status"] == status
    made["status"] = {"phase": "Dreaming"}
    assert "status.phase" in await refused(api, "PUT", f"{CAPTURES}/one/status", made)


async def test_what_kubectl_shows(api: Api, tmp_path: Path) -> None:
    """The short names and columns of the contract, and the fields that its documents print."""
    tool = Kubectl(api.kubeconfig, tmp_path)

    async def kubectl(*words: str) -> str:
        return (await tool(*words)).ok()

    made = await api.request("POST", CACHES, cache())
    made["status"] = {"state": "Ready", "usage": {"totalPodsUsing": 3}}
    await api.request("PUT", f"{CACHES}/one/status", made)
    node = await api.request("POST", NODES, document("KernelCacheNode", None))
    node["status"] = kc.node("one", kc.cache("one", kc.pod()), counts={"cachesReady": 1})["status"]
    await api.request("PUT", f"{NODES}/one/status", node)
    await api.request("POST", CAPTURES, capture())
    await api.request("POST", GROUPS, document("KernelCacheNodeGroup", {"nodeSelector": {"gpu": "h100"}}))
    header, row = (await kubectl("get", "kc")).splitlines()
    assert header.split() == ["NAME", "STATE", "MOUNTTYPE", "PODS-USING", "AGE"]
    assert row.split()[:4] == ["one", "Ready", "oci", "3"]
    header, row = (await kubectl("get", "kcn")).splitlines()
    assert header.split() == ["NAME", "READY", "PREPARING", "ERROR", "PODS-USING", "AGE"]
    assert row.split()[:2] == ["one", "1"]
    assert (await kubectl("get", "kcc")).split()[:4] == ["NAME", "PHASE", "IMAGE", "AGE"]
    assert (await kubectl("get", "kcng")).split()[0] == "NAME"
    path = 'jsonpath={.spec.artifact.identity}{"\\n"}'
    identity = json.loads(await kubectl("get", "kernelcache", "one", "-n", "default", "-o", path))
    assert identity == made["spec"]["artifact"]["identity"]
    shown = json.loads(await kubectl("get", "kernelcachenode", "one", "-o", 'jsonpath={.status.cacheStatus}{"\\n"}'))
    assert shown == node["status"]["cacheStatus"]
