"""Engine Pods created through an API come back wired, and are accepted as they are; every decision is in the log."""

import asyncio
import json
from typing import Any

import pytest

from tests.support import kubehook
from tests.support.kubectl import Kubectl
from tests.support.webhookhouse import (
    BACKENDS,
    CONFIGURATIONS,
    PODS,
    SECRET,
    SPACE,
    WebhookHouse,
    backend,
    client,
    engine,
)

UID, BY = "inferencecache.io/injected-by-uid", "inferencecache.io/injected-by"


def external(provider: str, endpoint: str) -> dict[str, Any]:
    return {"provider": provider, "ownership": "External", "endpoint": endpoint}


#: Every pair of runtime and cache, and every way to reach a remote tier.
SHAPES: dict[str, dict[str, Any]] = {
    "host": {},
    "lm": {"remoteStorage": external("LMCacheServer", "lm://cache.example.com:65432")},
    "mooncake": {
        "remoteStorage": external("Mooncake", "cache.example.com:50051"),
        "integration": {"engineHostNetwork": True},
    },
    "events": {"integration": {"mode": "EventsOnly"}},
    "overrides": {
        "integration": {
            "engineOverrides": {"args": ["--key", "hunter2"], "env": [{"name": "EXTRA", "value": "hunter2"}]}
        }
    },
    "sglang": {"runtime": "SGLang"},
    "redis": {"runtime": "SGLang", "remoteStorage": external("Redis", "cache.example.com:6379")},
    "hicache": {"runtime": "SGLang", "type": "SGLangHiCache", "hiCache": {"ratio": "2"}},
}


async def test_every_pair_is_wired_and_accepted(house: WebhookHouse) -> None:
    """By a strict API server, with the rights of deploy/kubernetes, twice: the second Pod is like the first."""
    await house.ready()
    for name, spec in SHAPES.items():
        await house.api.request("POST", BACKENDS, backend(name, **spec))
    for name in SHAPES:
        given = engine(name, args=["serve", "m", "--api-key", "hunter2"], env=[{"name": "T", "value": "hunter2"}])
        for _ in range(2):
            pod = await house.api.request("POST", PODS, given)
            marks = pod["metadata"]["annotations"]
            assert marks[BY] == f"{SPACE}/{name}"
            assert pod["metadata"]["name"].startswith(f"{name}-")
            names = [one["name"] for one in pod["spec"]["containers"]]
            assert names == ["engine", "kvevent-subscriber"]
    wired = [one for one in await house.decided(len(SHAPES) * 3) if one.webhook == "mpod.inferencecache.io"]
    assert {(one.verdict, one.check) for one in wired} == {("patched", "injected")}
    assert [one.generate_name for one in wired] == [f"{name}-" for name in SHAPES for _ in range(2)]
    assert b"hunter2" not in b"".join(one.body for one in await house.stored())
    told = await house.until(lambda: _events(house, 2 * len(SHAPES)), "each Pod has its Event")
    assert set(told) == {"InjectedByCacheBackend"}
    assert house.refused == []


async def _events(house: WebhookHouse, count: int) -> list[str] | None:
    found = (await house.api.request("GET", f"/api/v1/namespaces/{SPACE}/events"))["items"]
    told = [one["reason"] for one in found if one["involvedObject"]["kind"] == "Pod"]
    return told if len(told) >= count else None


async def test_managed_storage_is_wired_once_its_endpoint_is_known(house: WebhookHouse) -> None:
    await house.ready()
    storage = {"provider": "LMCacheServer", "ownership": "Managed"}
    await house.api.request("POST", BACKENDS, backend("kv", remoteStorage=storage))

    async def wired() -> Any:
        pod = await house.api.request("POST", PODS, engine("kv"))
        return pod if BY in pod["metadata"].get("annotations", {}) else None

    pod = await house.until(wired, "a Pod that is wired")
    urls = [one["value"] for one in pod["spec"]["containers"][0]["env"] if one["name"] == "LMCACHE_REMOTE_URL"]
    assert urls == ["lm://kv.ml.svc.cluster.local:65432"]
    assert house.refused == []


async def test_a_backend_and_its_engines_in_one_go(house: WebhookHouse) -> None:
    """The log is a moment behind the API: what it does not know is asked for."""
    await house.ready()
    for number in range(5):
        await house.api.request("POST", BACKENDS, backend(f"kv{number}"))
        pod = await house.api.request("POST", PODS, engine(f"kv{number}"))
        assert pod["metadata"]["annotations"][BY] == f"{SPACE}/kv{number}"
    assert house.refused == []


async def test_a_second_call_may_be_answered_by_another_replica(house: WebhookHouse) -> None:
    """Another webhook changes the Pod after us, so we are called again: nothing is injected twice, on any replica."""
    await house.ready()
    await house.webhook("two")
    await house.serve("one")
    await house.api.request("POST", BACKENDS, backend("kv"))
    async with kubehook.serving() as hook:
        sidecar = {"op": "add", "path": "/spec/containers/-", "value": {"name": "mesh", "image": "mesh:1"}}

        async def adding(review: dict[str, Any]) -> dict[str, Any]:
            await house.serve("two")
            return kubehook.patched(sidecar)(review)  # type: ignore[return-value]

        hook.answer["/z-mesh"] = adding
        entry = hook.entry("/z-mesh", resources=["pods"], reinvocationPolicy="Never")
        configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        body = {**configuration, "metadata": {"name": "z-mesh"}, "webhooks": [entry]}
        await house.api.request("POST", CONFIGURATIONS, body)
        pod = await house.api.request("POST", PODS, engine("kv", name="vllm"))
    assert [one["name"] for one in pod["spec"]["containers"]] == ["vllm", "kvevent-subscriber", "mesh"]
    names = [one["name"] for one in pod["spec"]["containers"][0]["env"]]
    assert len(names) == len(set(names))

    async def both() -> list[str] | None:
        verdicts = [one.verdict for one in await house.decided() if one.kind == "pods"]
        return verdicts if len(verdicts) > 1 else None

    assert await house.until(both, "two decisions about the Pod") == ["patched", "allowed"]


async def test_refusals_as_kubectl_prints_them(house: WebhookHouse, tmp_path: Any) -> None:
    await house.ready()
    kubectl = Kubectl(house.api.kubeconfig, tmp_path, namespace=SPACE)
    bad = backend("kv", replicas=0, autoscaling={"maxReplicas": 1})
    told = (await kubectl("apply", "-f", "-", stdin=json.dumps(bad))).failed()
    assert told.splitlines() == [
        'The CacheBackend "kv" is invalid: ',
        "* spec.autoscaling: Forbidden: there is no workload to scale without spec.remoteStorage",
        "* spec.autoscaling.minReplicas: Required value: must be set when spec.replicas is 0; "
        "or remove spec.autoscaling to scale to zero",
    ]
    mooncake = backend("kv", remoteStorage=external("Mooncake", "cache.example.com:50051"))
    done = await kubectl("apply", "-f", "-", stdin=json.dumps(mooncake))
    assert done.ok().startswith("cachebackend.inferencecache.io/kv created")
    assert "Warning: Mooncake moves no KV until spec.integration.engineHostNetwork is true" in done.err
    policy = {"apiVersion": "inferencecache.io/v1alpha1", "kind": "CachePolicy", "spec": {}}
    for name, code in (("beta", 0), ("alpha", 1)):
        done = await kubectl("apply", "-f", "-", stdin=json.dumps({**policy, "metadata": {"name": name}}))
        assert done.code == code, done.err
    assert "metadata.name: Forbidden: CachePolicy beta is the policy of this namespace already" in done.err
    tenant = {"apiVersion": "inferencecache.io/v1alpha1", "kind": "CacheTenant", "metadata": {"name": "t"}}
    probe = {**tenant, "spec": {"tenantID": "inferencecache.io/probe"}}
    told = (await kubectl("apply", "-f", "-", stdin=json.dumps(probe))).failed()
    assert 'spec.tenantID: Invalid value: "inferencecache.io/probe": is reserved for functional probes' in told
    assert (await kubectl("apply", "-f", "-", stdin=json.dumps({**tenant, "spec": {"tenantID": "x"}}))).ok()
    assert house.refused == []


async def test_what_was_stored_before_a_rule_existed(house: WebhookHouse) -> None:
    """It may stay and be changed elsewhere; Pods that it selects are admitted."""
    bad = backend("kv", replicas=0, autoscaling={"maxReplicas": 1}, integration={"role": "ReadOnly"}, runtime="SGLang")
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/warmlog"
        await house.api.request("DELETE", path)
    await house.api.request("POST", BACKENDS, bad)
    await house.configure()
    await house.ready()
    live = await house.api.request("GET", f"{BACKENDS}/kv")
    live["spec"]["observation"]["modelID"] = "other"
    await house.api.request("PUT", f"{BACKENDS}/kv", live)
    assert (await house.api.request("POST", PODS, engine("kv")))["metadata"]["name"]


async def test_certificates_change_while_reviews_flow(house: WebhookHouse) -> None:
    """One that is about to end is replaced, the bundle that somebody emptied is put right, and no Pod notices."""
    from datetime import UTC, datetime, timedelta

    from warmlog import certificates

    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    names = ["warmlog-webhook.inference-cache-system.svc", "warmlog-webhook.inference-cache-system.svc.cluster.local"]
    first = await house.api.request("GET", SECRET)
    stop, wired, unwired = asyncio.Event(), 0, 0

    async def flow() -> None:
        nonlocal wired, unwired
        while not stop.is_set():
            pod = await house.api.request("POST", PODS, engine("kv"))
            good = BY in pod["metadata"].get("annotations", {})
            wired, unwired = wired + good, unwired + (not good)
            await asyncio.sleep(0.02)

    ends = certificates.make(names, now=datetime.now(UTC) - timedelta(days=80), life=timedelta(days=90))
    flowing = asyncio.create_task(flow())
    try:
        data = {key: value for key, value in first["data"].items() if key == "ca.crt"}
        encoded = {"tls.crt": _encoded(ends.certificate), "tls.key": _encoded(ends.key)}
        # As a leader of long ago left it: trusted beside the first one, in use, and ten days from its end.
        bundle = _encoded(ends.authority + _decoded(data["ca.crt"]))
        await _trust(house, bundle)
        await house.api.request("PUT", SECRET, {**first, "data": {"ca.crt": bundle, **encoded}})

        async def renewed() -> bool:
            live = await house.api.request("GET", SECRET)
            return live["data"]["tls.crt"] not in (first["data"]["tls.crt"], encoded["tls.crt"])

        await house.until(renewed, "the certificate is renewed")
        log = house.webhooks["one"][0]
        await house.until(lambda: _said(log, "certificate-loaded", 3), "the webhook has it")
        before = wired
        await house.until(lambda: _true(wired > before + 10), "Pods are wired with it")
        assert unwired == 0
    finally:
        stop.set()
        await flowing
    live = await house.api.request("GET", SECRET)
    await _trust(house, "")

    async def trusted() -> bool:
        found = await house.api.request("GET", f"{CONFIGURATIONS}/warmlog")
        return all(one["clientConfig"].get("caBundle") == live["data"]["ca.crt"] for one in found["webhooks"])

    await house.until(trusted, "the bundle is put right")
    assert BY in (await house.api.request("POST", PODS, engine("kv")))["metadata"]["annotations"]
    assert house.refused == []


async def _said(log: Any, words: str, times: int) -> bool:
    return log.said().count(words) >= times  # type: ignore[no-any-return]


async def _true(value: bool) -> bool:
    return value


async def _trust(house: WebhookHouse, bundle: str) -> None:
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/warmlog"
        live = await house.api.request("GET", path)
        for hook in live["webhooks"]:
            hook["clientConfig"]["caBundle"] = bundle
        await house.api.request("PUT", path, live)


def _encoded(text: str) -> str:
    import base64

    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    import base64

    return base64.b64decode(text).decode()


@pytest.mark.parametrize("role", ["controller", "webhook"])
async def test_a_right_that_is_forgotten_is_noticed(house: WebhookHouse, role: str) -> None:
    """The test of the tests above: without one rule there is a refusal in the list."""
    account = {"controller": "inference-cache-controller", "webhook": "warmlog-webhook"}[role]
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{account}"
    live = await house.api.request("GET", path)
    live["rules"] = [one for one in live["rules"] if "cachebackends" not in one["resources"]]
    await house.api.request("PUT", path, live)
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    async with client(house) as kube:
        await kube.post(PODS, engine("other"))  # the log knows of nothing that selects it: the API is asked

        async def noticed() -> bool:
            return any("cachebackends" in one for one in house.refused)

        await house.until(noticed, "a refusal")
