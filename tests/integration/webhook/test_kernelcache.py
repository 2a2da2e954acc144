"""Kernel Cache through an API server: a Pod of a known identity gets the cache, another one does not and the log says
why; a broken configuration, a fresh webhook and a controller that is not there keep no Pod from starting."""

import copy
import json
from typing import Any

from tests.support import kernelcaches as kc
from tests.support.webhookhouse import PODS, SPACE, WebhookHouse

Object = dict[str, Any]
WEBHOOK = "mkernelcache.serving.kserve.io"
ROOT = "/apis/serving.kserve.io/v1alpha1"
CONFIG = "/api/v1/namespaces/kserve/configmaps"


def serving(**container: Any) -> Object:
    made = kc.pod(**container)
    made["metadata"] = {"generateName": "chat-", "labels": kc.LABELS, "annotations": kc.ANNOTATIONS}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def ours(pod: Object) -> Object:
    """A Pod or a cache of the namespace of these tests."""
    made = copy.deepcopy(pod)
    made["metadata"]["namespace"] = SPACE
    return made


async def configured(house: WebhookHouse, text: str, *, verb: str = "POST") -> None:
    name = "inferenceservice-config"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"kernelcache": text}}
    await house.api.request(verb, CONFIG if verb == "POST" else f"{CONFIG}/{name}", body)


async def prepared(house: WebhookHouse, of: Object) -> Object:
    """A cache that this Pod made, ready on node n1."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kserve"}}
    await house.api.request("POST", "/api/v1/namespaces", namespace)
    cache = ours(kc.cache("c1", ours(of)))
    header = {"apiVersion": "serving.kserve.io/v1alpha1"}
    await house.api.request(
        "POST", f"{ROOT}/namespaces/{SPACE}/kernelcaches", {**header, "kind": "KernelCache", **cache}
    )
    bare = {**header, "kind": "KernelCacheNode", "metadata": {"name": "n1"}}
    made = await house.api.request("POST", f"{ROOT}/kernelcachenodes", bare)
    made["status"] = kc.node("n1", cache)["status"]
    await house.api.request("PUT", f"{ROOT}/kernelcachenodes/n1/status", made)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "h1"}}}
    await house.api.request("POST", "/api/v1/nodes", node)
    return cache


async def admitted(house: WebhookHouse, pod: Object) -> Object:
    made: Object = await house.api.request("POST", PODS, pod)
    return made


def mounted(pod: Object) -> bool:
    return any("image" in one for one in pod["spec"].get("volumes", []))


async def test_the_known_get_their_cache_and_the_log_says_why_others_do_not(house: WebhookHouse) -> None:
    known = serving(args=["--model=/mnt/models", "--max-model-len=4096", "--api-key=hunter2"])
    await prepared(house, known)
    await configured(house, json.dumps({"enabled": True, "defaultSidecarInjection": False}))
    await house.ready()
    pod = await admitted(house, known)
    assert mounted(pod)
    assert pod["spec"]["initContainers"][0]["name"] == "kernel-cache-linker"
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchExpressions"][0]["values"] == ["h1"]
    other = await admitted(house, serving(args=["--model=/mnt/models", "--max-model-len=8192"]))
    assert not mounted(other)
    found = [one for one in await house.decided(2) if one.webhook == WEBHOOK]
    assert [(one.check, one.reason) for one in found] == [
        ("mounted", "kernel cache c1 by its workload footprint, ready on 1 nodes"),
        ("no-cache", "no kernel cache fits: c1: footprints: option.maxModelLen is 8192 here and 4096 there"),
    ]
    assert b"hunter2" not in b"".join(one.body for one in await house.stored())
    assert house.refused == []


async def test_a_configuration_that_breaks_keeps_the_last_good_one(house: WebhookHouse) -> None:
    known = serving()
    await prepared(house, known)
    await configured(house, json.dumps({"enabled": True}))
    await house.ready()

    async def decided_from_the_world() -> bool:
        assert mounted(await admitted(house, known))
        return any(one.webhook == WEBHOOK and not one.live for one in await house.decided())

    await house.until(decided_from_the_world, "the webhook follows the log: only there the last good one is kept")
    await configured(house, "{not json", verb="PUT")

    async def told() -> bool:
        events = (await house.api.request("GET", "/api/v1/namespaces/kserve/events"))["items"]
        return any(one["reason"] == "KernelCacheConfigInvalid" for one in events)

    await house.until(told, "the broken configuration is told")
    assert mounted(await admitted(house, known))
    last = [one for one in await house.decided(2) if one.webhook == WEBHOOK][-1]
    assert "cannot be used" in last.warnings[0]


async def test_a_webhook_whose_world_grows_old_reads_each_kind_where_it_lives(house: WebhookHouse) -> None:
    known = serving()
    await prepared(house, known)
    await configured(house, json.dumps({"enabled": True}))
    await house.ready()
    await house.controllers["one"].kill()  # nobody hears the API any more

    async def read_live() -> list[Any]:
        assert mounted(await admitted(house, known))
        return [one for one in await house.decided() if one.webhook == WEBHOOK and one.live]

    (decided, *_) = await house.until(read_live, "a decision over live reads")
    assert decided.check == "mounted"
    assert set(decided.live) >= {
        "configmaps/kserve/inferenceservice-config",
        "nodes//n1",
        "kernelcachenodes.serving.kserve.io//n1",
        f"kernelcaches.serving.kserve.io/{SPACE}/c1",
    }
    assert house.refused == []
