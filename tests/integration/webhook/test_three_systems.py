"""One Pod that all three systems concern, through an API server that calls our configurations in its own order: it is
wired by each of them, accepted, and every decision is in the log. Other orders: tests/unit/admission."""

import json
from typing import Any

from handlers.kvcachepool import names as pooling
from tests.integration.webhook.test_kernelcache import configured, prepared
from tests.integration.webhook.test_kvcache import store
from tests.support import kernelcaches as kc
from tests.support import kvpools
from tests.support.webhookhouse import BACKENDS, PODS, SPACE, WebhookHouse, backend, client

Object = dict[str, Any]
INJECTED = {"mutate.gpustack-worker-kvcache.core.v1.pod", "mpod.inferencecache.io", "mkernelcache.serving.kserve.io"}


def pod(name: str) -> Object:
    """An InferenceService's, opted into the pool, selected by a CacheBackend that only listens."""
    made = kvpools.pod(name="kserve-container", image=kc.IMAGE, readinessProbe=kc.PROBE)
    metadata = made["metadata"]
    metadata |= {"name": name, "namespace": SPACE, "labels": {**metadata["labels"], **kc.LABELS, "serve": "kv"}}
    metadata["annotations"] |= {**kc.ANNOTATIONS, pooling.CONTAINER: "kserve-container"}
    return made


async def test_a_pod_gets_all_three(house: WebhookHouse) -> None:
    await house.ready()
    await store(house)
    await house.api.request("POST", BACKENDS, backend("kv", integration={"mode": "EventsOnly"}))
    async with client(house) as kube:
        # A kernel cache is of the arguments that an engine runs with: those that the others gave it.
        await prepared(house, await kube.create(PODS, pod("first")))
        await configured(house, json.dumps({"enabled": True, "registry": {"endpoint": "reg.lan"}}))

        async def wired() -> Object | None:
            """The configuration of Kernel Cache is known a moment after it was written."""
            made = await kube.create(PODS, pod(f"a{len(await kube.names(PODS))}"))
            return made if any("image" in one for one in made["spec"].get("volumes", [])) else None

        made = await house.until(wired, "a Pod with its kernel cache")
    marks = made["metadata"]["annotations"]
    assert json.loads(marks[pooling.INJECTED])["engine"] == "vllm"
    assert marks["inferencecache.io/injected-by"] == f"{SPACE}/kv"
    assert [one["name"] for one in made["spec"]["containers"]] == ["kserve-container", "kvevent-subscriber"]
    assert "kernel-cache-linker" in [one["name"] for one in made["spec"]["initContainers"]]
    variables = [one["name"] for one in made["spec"]["containers"][0]["env"]]
    assert len(variables) == len(set(variables))

    async def told() -> set[str] | None:
        found = [one for one in await house.decided() if one.kind == "pods" and one.verdict == "patched"]
        webhooks = {one.webhook for one in found}
        return webhooks if webhooks >= INJECTED else None

    assert await house.until(told, "each decision in the log") == INJECTED
    assert house.refused == []
