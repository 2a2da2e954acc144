"""Pods that join a KV cache pool, through an API server with the configurations and rights of deploy/kubernetes."""

import asyncio
import json
import sys
from typing import Any

from handlers.kvcachepool import names
from tests.support import kvpools
from tests.support.kvpools import changed
from tests.support.webhookhouse import PODS, SPACE, WebhookHouse, client

ROOT = "/apis/worker.gpustack.ai/v1"
BINDINGS = f"{ROOT}/namespaces/{SPACE}/kvcachepoolbindings"
CONDITION = {**kvpools.TRUE, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
SECRET = {"name": "HF_TOKEN", "value": "hunter2"}


async def store(house: WebhookHouse, *, bind: bool = True) -> None:
    """A backend, a pool whose status says that it can be joined, a Binding."""
    await house.api.request("POST", f"{ROOT}/kvcachebackends", kvpools.backend())
    pool = kvpools.pool(condition=CONDITION)
    made = await house.api.request("POST", f"{ROOT}/kvcachepools", pool)
    await house.api.request("PUT", f"{ROOT}/kvcachepools/main/status", {**made, "status": pool["status"]})
    if bind:
        await house.api.request("POST", BINDINGS, kvpools.binding(namespace=SPACE))


def pod(name: str, engine: str = "vLLM", annotations: Any = None, **container: Any) -> Any:
    given = kvpools.pod(engine, annotations, **{"env": [SECRET], **container})
    return changed(given, metadata__name=name, metadata__namespace=SPACE)


async def test_a_pod_joins_and_keeps_what_it_was_given(house: WebhookHouse) -> None:
    await house.ready()
    await store(house)
    async with client(house) as kube:
        made = await kube.create(PODS, pod("a"))
        marks = made["metadata"]["annotations"]
        assert json.loads(marks[names.INJECTED])["engine"] == "vllm"
        assert json.loads(marks[names.CLIENT_CONFIG])["tenant_id"] == "team-chat"
        container = made["spec"]["containers"][0]
        assert container["args"][-2:] == ["--kv-cache-dtype", "bfloat16"]
        assert container["env"][0] == SECRET
        sglang = await kube.create(PODS, pod("b", "SGLang"))
        assert sglang["spec"]["containers"][0]["args"][-1] == names.HIERARCHICAL
        answer = await kube.post(PODS, pod("c", args=["serve", "m", "--kv-offloading-size", "8"]))
        answer.ok(201)
        assert any(names.OFFLOADING in line for line in answer.warnings)
        await frozen(house, kube, made)
    assert "the same" in await explained(house, f"pod/{SPACE}/a")
    told = [one for one in await house.decided(6) if one.webhook.startswith(("mutate.gpustack", "validate.gpustack"))]
    assert {one.check for one in told} >= {"injected", "valid", "frozen"}
    assert b"hunter2" not in b"".join(one.body for one in await house.stored())
    assert house.refused == []


async def explained(house: WebhookHouse, what: str) -> str:
    """The decision, made again over the log at its position."""
    words = (sys.executable, "-m", "warmlog", "explain", what, f"--nats={house.nats.url}")
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode()


async def frozen(house: WebhookHouse, kube: Any, made: Any) -> None:
    path = f"{PODS}/{made['metadata']['name']}"
    edited = changed(made)
    edited["metadata"]["annotations"][names.CLIENT_CONFIG] = "{}"
    refused = (await kube.put(path, edited)).refused(422)
    assert "template" in refused["message"]
    (await kube.put(path, changed(made, metadata__finalizers=["example.com/hold"]))).ok(200)


async def test_a_pod_that_cannot_join_is_told_why(house: WebhookHouse) -> None:
    await house.ready()
    await store(house, bind=False)
    async with client(house) as kube:
        refused = (await kube.post(PODS, pod("a"))).refused(422)
        assert f"there is no KVCachePoolBinding chat in namespace {SPACE}" in refused["message"]
        await kube.create(BINDINGS, kvpools.binding(namespace=SPACE))
        await kube.create(PODS, pod("a"))  # at once: what the log does not know yet is read live
        refused = (await kube.post(PODS, pod("b", command=["sh", "-c"]))).refused(422)
        assert "no declaration exempts this" in refused["message"]
        refused = (await kube.post(BINDINGS, kvpools.binding("other", SPACE))).refused(422)
        assert f"held by KVCachePoolBinding {SPACE}/chat" in refused["message"]
        refused = (await kube.post(f"{ROOT}/kvcachepools", kvpools.pool("second", "absent"))).refused(422)
        assert "there is no KVCacheBackend absent" in refused["message"]
    assert house.refused == []


async def test_it_fails_closed_and_the_freeze_fails_open(house: WebhookHouse) -> None:
    """A Pod without the label is nobody's business."""
    await house.ready()
    await store(house)
    async with client(house) as kube:
        made = await kube.create(PODS, pod("a"))
        await house.webhooks["one"][0].kill()
        refused = (await kube.post(PODS, pod("b"))).refused(500)
        assert "mutate.gpustack-worker-kvcache.core.v1.pod" in refused["message"]
        (await kube.post(PODS, changed(pod("c"), metadata__labels={}))).ok(201)
        (await kube.put(f"{PODS}/a", changed(made, metadata__finalizers=[]))).ok(200)
