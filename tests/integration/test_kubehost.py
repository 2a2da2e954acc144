"""The laptop's devkube, killed with -9 and started again in the same directory: what is there again, what is not.

Excluded: devkube itself (tests/contract/kubernetes).
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crds import definitions, render
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key, Object
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from tests.support import kubectl as support
from warmlog import kubectl, labobjects
from warmlog.children import LabError

BACKENDS = "cachebackends.inferencecache.io"
CONFIG = Key("configmaps", "default", "note")


@asynccontextmanager
async def running(directory: Path, port: int, *, end: int = signal.SIGKILL) -> AsyncIterator[tuple[Client, int]]:
    """The client of an administrator, and the port."""
    words = ["-m", "warmlog.kubehost", f"--directory={directory}", f"--port={port}", "--simulate", "--pull-seconds=0"]
    child = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    try:
        async with asyncio.timeout(20):
            url = json.loads(await child.stdout.readline())["url"]
        async with await Client.open(kubeconfig=str(directory / "kubeconfig")) as client:
            yield client, int(url.rpartition(":")[2])
    finally:
        child.send_signal(end)
        await child.wait()


def config(**data: str) -> Object:
    metadata = {"name": CONFIG.name, "namespace": CONFIG.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def made(client: Client) -> None:
    """A CRD with an object of it, a Deployment that runs, a ConfigMap changed once, a Secret deleted."""
    objects = Objects(client)
    crd = next(render.definition(one) for one in definitions.DEFINITIONS if one.name == BACKENDS)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.request("POST", path, body=crd)
    meta = {"namespace": "default"}
    backend = {"apiVersion": "inferencecache.io/v1alpha1", "kind": "CacheBackend", "metadata": {**meta, "name": "chat"}}
    await objects.create(Key(BACKENDS, "default", "chat"), {**backend, "spec": {"runtime": "VLLM"}})
    await objects.create(CONFIG, config(a="1"))
    await objects.apply(CONFIG, config(a="2"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": "gone"}}
    written = await objects.create(Key("secrets", "default", "gone"), secret)
    await objects.delete(Key("secrets", "default", "gone"), uid=written.uid)
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**meta, "name": "x"}, "spec": spec}
    await objects.create(Key("deployments.apps", "default", "x"), deployment)
    await available(objects)


async def available(objects: Objects) -> None:
    async with asyncio.timeout(20):
        while True:
            found = await objects.get(Key("deployments.apps", "default", "x"))
            if found and found.get("status", {}).get("availableReplicas") == 1:
                return
            await asyncio.sleep(0.05)


async def kept(client: Client) -> dict[str, Any]:
    objects = Objects(client)
    kinds = (BACKENDS, "namespaces", "configmaps", "secrets", "pods", "nodes")
    found = {kind: await objects.list(kind) for kind in kinds}
    return {
        f"{kind}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one["metadata"]["uid"]
        for kind, some in found.items()
        for one in some
    }


async def test_objects_are_there_again_under_their_uids_and_versions(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as (client, port):
        await made(client)
        before, note = await kept(client), await Objects(client).get(CONFIG)
        certificate = (tmp_path / "ca.crt").read_bytes()
        async with asyncio.timeout(20):  # what follows a crash must not depend on what was just about to be written
            while await kept(client) != before:
                before = await kept(client)
    async with running(tmp_path, port) as (client, again):
        assert again == port
        assert await kept(client) == before
        assert await Objects(client).get(CONFIG) == note
        assert (tmp_path / "ca.crt").read_bytes() == certificate
        written = await Objects(client).apply(CONFIG, config(a="3"))
        assert note is not None
        assert int(written.resource_version) > int(note["metadata"]["resourceVersion"])
        await available(Objects(client))


async def test_a_client_of_the_first_life_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as (client, port):
        await made(client)
        old = (await Objects(client).get(CONFIG) or {})["metadata"]["resourceVersion"]
        survivor = await Client.open(kubeconfig=str(tmp_path / "kubeconfig"))
    async with survivor:
        with pytest.raises(ClusterError):
            await survivor.request("GET", "/api/v1/namespaces")
        async with running(tmp_path, port):
            assert (await survivor.request("GET", "/api/v1/namespaces")).status == 200
            query = {"watch": "true", "resourceVersion": old}
            async with survivor.stream("/api/v1/configmaps", query=query, silence=5, total=10) as response:
                said = json.loads(await response.content.readline())
            assert (said["type"], said["object"]["code"]) == ("ERROR", 410)


async def test_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    async with running(tmp_path, 0, end=signal.SIGTERM) as (client, _):
        await Objects(client).create(CONFIG, config(a="1"))
    journal = tmp_path / "objects.jsonl"
    assert journal.stat().st_mode & 0o077 == 0
    with journal.open("ab") as file:
        file.write(b'["configmaps",99999,false,{"metadata":{"name":"no')
        os.fsync(file.fileno())
    async with running(tmp_path, 0) as (client, _):
        found = await Objects(client).get(CONFIG)
        assert found is not None
        assert found["data"] == {"a": "1"}


async def test_the_stand_in_for_kubectl_applies_and_prints_what_kubectl_does(tmp_path: Path) -> None:
    support.require(support.WHEEL)
    command = kubectl.find()
    assert command is not None
    async with running(tmp_path, 0) as (client, _):
        ours, real = kubectl.Api(client), kubectl.Kubectl(command, tmp_path / "kubeconfig", tmp_path)
        crd = next(render.definition(one) for one in definitions.DEFINITIONS if one.name == BACKENDS)
        await ours.apply(crd, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
        told = await real.apply(labobjects.backend())
        assert told == ["cachebackend.inferencecache.io/chat serverside-applied"]
        assert await ours.apply(labobjects.backend()) == ["cachebackend.inferencecache.io/chat applied"]
        tables = [(await one.table(BACKENDS, "team-a")).splitlines() for one in (ours, real)]
        ageless = [[line.rstrip().rpartition(" ")[0].rstrip() for line in table] for table in tables]
        assert ageless[0] == ageless[1]
        assert ageless[0][1].split() == ["chat", "LMCache"]
        with pytest.raises(LabError, match=r"spec\.runtime"):
            await ours.apply({**labobjects.backend(), "spec": {"runtime": "TGI"}})
        with pytest.raises(LabError, match=r"spec\.runtime"):
            await real.apply({**labobjects.backend(), "spec": {"runtime": "TGI"}})
