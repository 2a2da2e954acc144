"""The library kubernetes_asyncio: typed and dynamic clients, watches, its leader election. Nothing of it is ours."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devkube.server import DevKube
from tests.support.kubectl import require
from tests.support.kubeobjects import crd, custom, version

WHEEL = "kubernetes-asyncio"


@pytest.fixture
async def client(api: DevKube) -> AsyncIterator[Any]:
    """An ApiClient from the kubeconfig that devkube wrote."""
    require(WHEEL)
    from kubernetes_asyncio import config
    from kubernetes_asyncio.client import ApiClient, Configuration

    configuration = Configuration()
    await config.load_kube_config(config_file=str(api.kubeconfig), client_configuration=configuration)
    async with ApiClient(configuration) as found:
        yield found


def a_pod(name: str) -> Any:
    from kubernetes_asyncio import client as k

    spec = k.V1PodSpec(containers=[k.V1Container(name="main", image="registry.example/app:1")])
    return k.V1Pod(metadata=k.V1ObjectMeta(name=name, labels={"app": name}), spec=spec)


async def test_typed_objects_go_there_and_back(client: Any) -> None:
    """Models decode what devkube answers: dates, ints, nested lists."""
    from kubernetes_asyncio import client as k

    core = k.CoreV1Api(client)
    made = await core.create_namespaced_pod("default", a_pod("a"))
    assert made.metadata.creation_timestamp.tzinfo is not None
    assert made.spec.containers[0].image_pull_policy == "IfNotPresent"
    listed = await core.list_namespaced_pod("default", label_selector="app=a", limit=1)
    assert [one.metadata.name for one in listed.items] == ["a"]
    made.metadata.labels["tier"] = "front"
    changed = await core.replace_namespaced_pod("a", "default", made)
    assert changed.metadata.labels == {"app": "a", "tier": "front"}
    with pytest.raises(k.ApiException) as caught:
        await core.replace_namespaced_pod("a", "default", made)
    assert caught.value.status == 409
    await core.delete_namespaced_pod("a", "default", grace_period_seconds=0)
    with pytest.raises(k.ApiException) as caught:
        await core.read_namespaced_pod("a", "default")
    assert caught.value.status == 404


async def test_patches_by_content_type(client: Any) -> None:
    """Strategic by default for a dict, JSON patch for a list, apply when told."""
    from kubernetes_asyncio import client as k

    core, apps = k.CoreV1Api(client), k.AppsV1Api(client)
    await core.create_namespaced_config_map(
        "default", k.V1ConfigMap(metadata=k.V1ObjectMeta(name="a"), data={"x": "1"})
    )
    await core.patch_namespaced_config_map("a", "default", {"data": {"y": "2"}})
    now = await core.patch_namespaced_config_map("a", "default", [{"op": "remove", "path": "/data/x"}])
    assert now.data == {"y": "2"}
    labels = {"app": "d"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        },
    }
    applied = await apps.patch_namespaced_deployment(
        "d", "default", body, field_manager="tester", force=True, _content_type="application/apply-patch+yaml"
    )
    assert applied.metadata.managed_fields[0].operation == "Apply"
    scaled = await apps.patch_namespaced_deployment_scale("d", "default", {"spec": {"replicas": 4}})
    assert scaled.spec.replicas == 4


async def test_its_watch_sees_and_resumes(client: Any) -> None:
    """watch.Watch: events as models, ended by timeout_seconds; the next begins where it stopped."""
    from kubernetes_asyncio import client as k
    from kubernetes_asyncio import watch

    core = k.CoreV1Api(client)
    await core.create_namespaced_pod("default", a_pod("a"))
    seen = []
    async with watch.Watch() as stream:
        async for event in stream.stream(core.list_namespaced_pod, "default", timeout_seconds=5):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 1:
                await core.create_namespaced_pod("default", a_pod("b"))
            elif len(seen) == 2:
                await core.delete_namespaced_pod("b", "default", grace_period_seconds=0)
            if event["type"] == "DELETED":
                break
        version_ = stream.resource_version
    assert seen[0] == ("ADDED", "a")
    assert ("ADDED", "b") in seen
    assert seen[-1] == ("DELETED", "b")
    await core.create_namespaced_pod("default", a_pod("c"))
    async with watch.Watch() as stream:
        async for event in stream.stream(
            core.list_namespaced_pod, "default", resource_version=version_, timeout_seconds=5
        ):
            assert (event["type"], event["object"].metadata.name) == ("ADDED", "c")
            break


async def test_a_watch_s_410_is_an_exception(client: Any, api: DevKube) -> None:
    """After compaction its ApiException has status 410, which callers relist on."""
    from kubernetes_asyncio import client as k
    from kubernetes_asyncio import watch

    core = k.CoreV1Api(client)
    old = (await core.list_namespaced_pod("default")).metadata.resource_version
    await core.create_namespaced_pod("default", a_pod("a"))
    api.expire_history()
    with pytest.raises(k.ApiException) as caught:
        async with watch.Watch() as stream:
            async for _ in stream.stream(core.list_namespaced_pod, "default", resource_version=old, timeout_seconds=5):
                pass
    assert caught.value.status == 410


async def test_custom_objects_and_the_dynamic_client(client: Any) -> None:
    """CustomObjectsApi by names, the dynamic client by discovery."""
    from kubernetes_asyncio import client as k
    from kubernetes_asyncio.dynamic import DynamicClient

    await k.ApiextensionsV1Api(client).create_custom_resource_definition(crd("lib.example.com", version()))
    objects = k.CustomObjectsApi(client)
    where = ("lib.example.com", "v1", "default", "widgets")
    await objects.create_namespaced_custom_object(*where, custom("lib.example.com", "a", {"size": 1}))
    now = await objects.patch_namespaced_custom_object(
        *where, "a", {"spec": {"size": 2}}, _content_type="application/merge-patch+json"
    )
    assert now["spec"] == {"size": 2}
    async with DynamicClient(client) as dynamic:
        widgets = await dynamic.resources.get(api_version="lib.example.com/v1", kind="Widget")
        found = await widgets.get(name="a", namespace="default")
        assert found.spec.size == 2
        await widgets.delete(name="a", namespace="default")
    assert (await objects.list_namespaced_custom_object(*where))["items"] == []


async def test_tokens_and_reviews(client: Any, api: DevKube) -> None:
    """A ServiceAccount's token opens what its role grants, as in-cluster clients use it."""
    from kubernetes_asyncio import client as k

    core = k.CoreV1Api(client)
    await core.create_namespaced_service_account("default", k.V1ServiceAccount(metadata=k.V1ObjectMeta(name="robot")))
    request = k.AuthenticationV1TokenRequest(spec=k.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    given = (await core.create_namespaced_service_account_token("robot", "default", request)).status.token
    configuration = k.Configuration(host=api.url)
    configuration.ssl_ca_cert = str(api.ca_file)
    configuration.api_key = {"BearerToken": f"Bearer {given}"}
    async with k.ApiClient(configuration) as robot:
        with pytest.raises(k.ApiException) as caught:
            await k.CoreV1Api(robot).list_namespaced_pod("default")
        assert caught.value.status == 403
        attributes = k.V1ResourceAttributes(namespace="default", verb="list", resource="pods")
        spec = k.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        review = k.V1SelfSubjectAccessReview(spec=spec)
        answer = await k.AuthorizationV1Api(robot).create_self_subject_access_review(review)
        assert answer.status.allowed is False


async def test_many_at_once(client: Any) -> None:
    """A hundred creations in flight, none lost."""
    from kubernetes_asyncio import client as k

    core = k.CoreV1Api(client)
    await asyncio.gather(*(core.create_namespaced_pod("default", a_pod(f"p{n}")) for n in range(100)))
    assert len((await core.list_namespaced_pod("default")).items) == 100
