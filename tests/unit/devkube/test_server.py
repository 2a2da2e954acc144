"""The whole server in process: what it begins with, and the handles a test has on it."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devkube.errors import StatusError
from devkube.options import Settings
from devkube.server import DevKube, reachable

pytestmark = pytest.mark.slow("a real server with certificates of its own")


async def test_what_a_cluster_begins_with(tmp_path: Path) -> None:
    extra = tmp_path / "sub" / "config"
    async with DevKube(Settings(kubeconfig=extra)) as api:
        found = await api.request("GET", "/api/v1/namespaces")
        names = [one["metadata"]["name"] for one in found["items"]]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
        role = await api.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
        assert role["rules"]
        content = json.loads(extra.read_text())
        assert content["clusters"][0]["cluster"]["server"] == api.url
        assert api.kubeconfig.read_text() == extra.read_text()
        assert api.admin_token in api.kubeconfig.read_text()
        directory = api.kubeconfig.parent
    assert not directory.exists()


async def test_a_named_directory_is_kept(tmp_path: Path) -> None:
    async with DevKube(Settings(directory=tmp_path)) as api:
        assert api.ca_file == tmp_path / "ca.crt"
    assert (tmp_path / "kubeconfig").exists()


async def test_over_tls_with_faults(tmp_path: Path) -> None:
    async with DevKube(Settings(admin_token="secret")) as api:
        context = ssl.create_default_context(cafile=str(api.ca_file))
        connector = aiohttp.TCPConnector(ssl=context)
        headers = {"Authorization": "Bearer secret"}
        async with aiohttp.ClientSession(api.url, connector=connector, headers=headers) as client:

            async def status(**more: Any) -> int:
                async with client.get("/api/v1/pods", **more) as answer:
                    return answer.status

            api.faults.fail(503, verb="list", count=1)
            assert [await status(), await status()] == [503, 200]
            assert await status(headers={"Authorization": "Bearer x"}) == 401
            api.faults.cut(resource="pods")
            with pytest.raises(aiohttp.ClientError):
                await client.post("/api/v1/namespaces/default/pods", json={})
            async with client.get("/api/v1/pods", params={"watch": "1"}) as watch:
                assert api.faults.cut_connections() >= 1
                with pytest.raises(aiohttp.ClientError):
                    await watch.content.read()


async def test_in_process_requests_and_watches() -> None:
    async with DevKube() as api:
        path = "/api/v1/namespaces/default/configmaps"
        version = (await api.request("GET", path))["metadata"]["resourceVersion"]
        made = await api.request("POST", path, {"metadata": {"name": "a"}}, query={"fieldManager": "me"})
        assert made["metadata"]["name"] == "a"
        watch = api.watch(f"{path}?labelSelector=!none", query={"resourceVersion": version})
        assert (await anext(watch))[0] == "ADDED"
        await watch.aclose()  # type: ignore[attr-defined]
        with pytest.raises(StatusError):
            await api.request("GET", f"{path}/none")
        with pytest.raises(ValueError, match=r"use DevKube\.watch"):
            await api.request("GET", f"{path}?watch=1")
        api.expire_history()
        kind, status = await anext(api.watch(path, query={"resourceVersion": version}))
        assert (kind, status["code"]) == ("ERROR", 410)


async def test_an_address_in_use_is_told() -> None:
    async with DevKube() as api:
        port = int(api.url.rpartition(":")[2])
        second = DevKube(Settings(port=port))
        with pytest.raises(OSError, match="choose another --port"):
            await second.start()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("listen", "host"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("", "127.0.0.1")]
)
def test_where_clients_go(listen: str, host: str) -> None:
    assert reachable(listen) == host


async def test_a_definition_that_ends_takes_its_objects_along_and_no_new_ones() -> None:
    group = "/apis/example.com/v1/namespaces/default/widgets"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    held = {**widget, "metadata": {"name": "held", "finalizers": ["example.com/x"]}}
    async with DevKube() as api:
        await api.request("POST", definitions, crd)
        await api.request("POST", group, held)
        await api.request("DELETE", f"{definitions}/widgets.example.com")
        with pytest.raises(StatusError, match="while custom resource definition is terminating"):
            await api.request("POST", group, widget)
        watch = api.watch(definitions)
        patch = {"metadata": {"finalizers": None}}
        await api.request("PATCH", f"{group}/held", patch, content_type="application/merge-patch+json")
        async with asyncio.timeout(2):
            while (await anext(watch))[0] != "DELETED":
                pass
        await watch.aclose()  # type: ignore[attr-defined]
        with pytest.raises(StatusError, match="could not find the requested resource"):
            await api.request("GET", group)
        await api.request("POST", definitions, crd)
        await api.request("POST", group, widget)
