"""Nothing keeps an engine from starting: whatever is wrong, its Pod is admitted as it came, without marks, and its
author reads why."""

from typing import Any

import pytest

from devkube import documents
from tests.support.webhookhouse import (
    BACKENDS,
    PODS,
    SPACE,
    WebhookHouse,
    backend,
    client,
    engine,
)

MARKS = {"inferencecache.io/injected-by": f"{SPACE}/kv", "inferencecache.io/injected-by-uid": "forged"}
SGLANG: dict[str, Any] = {"runtime": "SGLang"}
HICACHE: dict[str, Any] = {**SGLANG, "type": "SGLangHiCache", "hiCache": {"ratio": "2"}}
SHM = {"volumeMounts": [{"name": "v", "mountPath": "/dev/shm", "readOnly": True}]}


def managed(provider: str) -> dict[str, Any]:
    return {"remoteStorage": {"provider": provider, "ownership": "Managed"}}


#: what is wrong -> (spec of the backend, engine's container, more of the Pod's spec, part of the warning)
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "no-endpoint": (managed("LMCacheServer") | {"deploymentKind": "StatefulSet"}, {}, {}, "endpoint is not known yet"),
    "which-engine": ({}, {}, {"containers": [{"name": n, "image": "i:1"} for n in "ab"]}, "Name it vllm"),
    "shm": (SGLANG, SHM, {"volumes": [{"name": "v", "emptyDir": {}}]}, "mounted read-only"),
    "reserved": (SGLANG, {}, {"initContainers": [{"name": "lmcache-mp-worker", "image": "i:1"}]}, "rename it"),
    "conflict": (HICACHE, {"args": ["--hicache-ratio", "3"]}, {}, "--hicache-ratio 3, the CacheBackend says 2"),
    "own-subscriber": (
        {"integration": {"mode": "EventsOnly"}}, {},
        {"initContainers": [{"name": "kvevent-subscriber", "image": "i:1", "restartPolicy": "Always"}]},
        "stands there already",
    ),
}  # fmt: skip
#: Stored before the rule that refuses it existed.
STORED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "bad-endpoint": (
        {"remoteStorage": {"provider": "LMCacheServer", "ownership": "External", "endpoint": "http://c:1"}}, {}, {},
        "cannot be used",
    ),
    "bad-tier": (managed("Redis"), {}, {}, "cannot use Redis"),
    "bad-pair": ({"type": "SGLangHiCache"}, {}, {}, "no adapter for VLLM with SGLangHiCache"),
    "bad-capacity": ({**HICACHE, "hiCache": {"ratio": "2", "sizeGB": 3}}, {}, {}, "exactly one of sizeGB and ratio"),
}  # fmt: skip


def pod(name: str, container: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    made = engine(name, **container)
    made["metadata"]["annotations"] = {"mine": "1", **MARKS}
    made["spec"] |= spec
    return made


async def test_each_failure_admits_the_pod_as_it_came(house: WebhookHouse) -> None:
    for kind in ("mutating", "validating"):
        await house.api.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/warmlog")
    for name, (spec, *_) in STORED.items():
        await house.api.request("POST", BACKENDS, backend(name, **spec))
    await house.configure()
    await house.ready()
    for name, (spec, *_) in WRONG.items():
        await house.api.request("POST", BACKENDS, backend(name, **spec))
    async with client(house) as kube:
        for name, (_, container, spec, words) in {**STORED, **WRONG}.items():
            given = pod(name, container, spec)
            answer = await kube.post(PODS, given)
            made = answer.ok(201)
            assert made["metadata"]["annotations"] == {"mine": "1"}, name
            assert [one["name"] for one in made["spec"]["containers"]] == [
                one["name"] for one in given["spec"]["containers"]
            ], name
            assert "env" not in made["spec"]["containers"][0], name
            (warning,) = answer.warnings
            assert warning.startswith(f"not wired to CacheBackend {SPACE}/{name}: "), warning
            assert words in warning, warning
    assert house.refused == []


async def test_forged_marks_go_though_nothing_can_be_read(house: WebhookHouse) -> None:
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    await house.controllers["one"].kill()
    await house.reads.down()
    async with client(house) as kube:

        async def warned() -> Any:
            answer = await kube.post(PODS, pod("kv", {}, {}))
            return answer if answer.warnings and "could not decide" in answer.warnings[0] else None

        answer = await house.until(warned, "a warning")
        assert answer.ok(201)["metadata"]["annotations"] == {"mine": "1"}


async def test_a_cluster_without_native_sidecars(house: WebhookHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    if house.api.name != "devkube":
        pytest.skip("only devkube can be of another version")
    monkeypatch.setitem(documents.VERSION, "minor", "28+")
    await house.ready()
    for name, spec in (("sglang", SGLANG), ("vllm", {}), ("hicache", HICACHE)):
        await house.api.request("POST", BACKENDS, backend(name, **spec))
    async with client(house) as kube:
        answer = await kube.post(PODS, engine("sglang"))
        assert "initContainers" not in answer.ok(201)["spec"]
        (warning,) = answer.warnings
        assert "Kubernetes 1.29 or newer" in warning
        for name in ("vllm", "hicache"):
            made = (await kube.post(PODS, engine(name))).ok(201)
            assert made["metadata"]["annotations"]["inferencecache.io/injected-by"] == f"{SPACE}/{name}"
