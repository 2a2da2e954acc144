"""What we inject and render is accepted by API servers that check everything, and applying it twice changes nothing."""

import copy
from typing import Any

import pytest

from crds import schema
from crds.cachebackend import CacheBackend
from devkube.patches import json_patch
from handlers.cachebackend import inject, names, providers
from tests.support.kubernetes import Client, Space

Object = dict[str, Any]
OPTIONS = inject.Options(subscriber_image="sub:1", server="ic:9090")
MANAGED = {"ownership": "Managed"}


def backend(space: Space, annotations: dict[str, str] | None = None, endpoint: str = "", **spec: Any) -> CacheBackend:
    document = {
        "metadata": {
            "name": "kv", "namespace": space.name, "uid": "7b0e3f2c-0000-4000-8000-000000000001",
            "annotations": annotations or {},
        },
        "spec": {"runtime": "VLLM", "engineSelector": {"matchLabels": {"serve": "qwen"}}, **spec},
        "status": {"endpoint": endpoint},
    }  # fmt: skip
    return schema.read(document, CacheBackend)


STRICT = {"annotations": {names.KERNEL_CHECK: "strict"}}
MODEL = {"observation": {"modelID": "org/model"}}
OVERRIDES = {
    "args": ["--max-model-len", "4096"], "suppressEnv": ["LMCACHE_REMOTE_SERDE"],
    "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
}  # fmt: skip
PAIRS: dict[str, dict[str, Any]] = {
    "vllm host memory": {**STRICT, **MODEL},
    "vllm lm": {"endpoint": "kv.x.svc:65432", "remoteStorage": {"provider": "LMCacheServer", **MANAGED}, **MODEL},
    "vllm mooncake": {
        **STRICT, "endpoint": "kv.x.svc:50051", "remoteStorage": {"provider": "Mooncake", **MANAGED}, **MODEL,
        "integration": {"engineHostNetwork": True},
    },
    "vllm overrides": {**STRICT, "integration": {"engineOverrides": OVERRIDES}},
    "events": {**MODEL, "integration": {"mode": "EventsOnly"}},
    "sglang": {"runtime": "SGLang", **MODEL, "lmCache": {"hostMemory": {"capacity": "2500Mi"}}},
    "sglang redis": {
        "runtime": "SGLang", "endpoint": "kv.x.svc:6379", "remoteStorage": {"provider": "Redis", **MANAGED}, **MODEL,
    },
    "hicache": {"runtime": "SGLang", "type": "SGLangHiCache", "hiCache": {"sizeGB": 8, "ioBackend": "direct"}, **MODEL},
}  # fmt: skip

SHM: Object = {"name": "shm", "emptyDir": {"medium": "Memory"}}
#: Pods as their authors write them; each is accepted before anything is injected.
PODS: dict[str, tuple[Object, Object]] = {
    "plain": ({}, {}),
    "gpu": ({"resources": {"limits": {"nvidia.com/gpu": "1"}}, "ports": [{"containerPort": 8000}]}, {}),
    "own shared memory": (
        {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm", "subPath": "s"}]}, {"volumes": [SHM]},
    ),
    "read-only shared memory": (
        {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm", "readOnly": True}]}, {"volumes": [SHM]},
    ),
    "another host port": ({"ports": [{"containerPort": 8000, "hostPort": 9000}]}, {}),
    "one port twice": (
        {"ports": [{"containerPort": 8000}, {"containerPort": 8000, "name": "again"}]}, {},
    ),
    "user namespace": ({}, {"hostUsers": False}),
    "a subscriber as a native sidecar": (
        {}, {"initContainers": [{"name": names.SUBSCRIBER, "image": "mine:1", "restartPolicy": "Always"}]},
    ),
    "names that are ours": (
        {}, {"initContainers": [{"name": names.MP_WORKER, "image": "mine:1"}],
             "volumes": [{"name": "lmcache-config", "emptyDir": {}}]},
    ),
    "no privileges": (
        {"securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
            "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"},
        }}, {},
    ),
}  # fmt: skip


def engine(name: str, container: Object, spec: Object) -> Object:
    containers = [{"name": "engine", "image": "engine:1", "args": ["--model", "m"], **copy.deepcopy(container)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"serve": "qwen"}},
        "spec": {"containers": containers, **copy.deepcopy(spec)},
    }


async def defaulted(kube: Client, space: Space, pod: Object) -> Object:
    """What webhooks are shown: the Pod with its defaults, before it is stored. The author's Pod is accepted."""
    shown: Object = (await kube.post(space.pods, pod, dryRun="All", fieldValidation="Strict")).ok(201)
    metadata = {
        key: shown["metadata"][key]
        for key in ("name", "namespace", "labels", "annotations")
        if key in shown["metadata"]
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": shown["spec"]}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("shape", PODS)
async def test_an_injected_pod_is_accepted_and_stays_as_injected(
    kube: Client, space: Space, pair: str, shape: str
) -> None:
    shown = await defaulted(kube, space, engine("e", *PODS[shape]))
    decision = inject.decide(shown, [backend(space, **PAIRS[pair])], OPTIONS)
    made = await kube.create(space.pods, json_patch(shown, list(decision.patch)), fieldValidation="Strict")
    stored = {key: made[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    again = inject.decide(stored, [backend(space, **PAIRS[pair])], OPTIONS)
    assert (again.check, again.patch) == (decision.check, ())


@pytest.mark.parametrize("pair", ["vllm lm", "events", "sglang", "sglang redis", "hicache"])
async def test_a_restricted_namespace_takes_what_is_injected_beside_a_restricted_engine(
    kube: Client, space: Space, pair: str
) -> None:
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    (await kube.merge(f"/api/v1/namespaces/{space.name}", labels)).ok()
    shown = await defaulted(kube, space, engine("e", *PODS["no privileges"]))
    decision = inject.decide(shown, [backend(space, **PAIRS[pair])], OPTIONS)
    assert decision.check == "injected"
    await kube.create(space.pods, json_patch(shown, list(decision.patch)), fieldValidation="Strict")


DECLINED = {
    ("vllm mooncake", "another host port"): "host-network",
    ("vllm mooncake", "one port twice"): "host-network",
    ("vllm mooncake", "user namespace"): "host-network",
    ("sglang", "read-only shared memory"): "shm-read-only",
    ("sglang", "names that are ours"): "reserved-name",
    ("events", "a subscriber as a native sidecar"): "no-subscriber",
}


@pytest.mark.parametrize(("pair", "shape"), DECLINED)
async def test_a_pod_that_would_be_refused_is_left_as_it_came_and_its_author_told(
    kube: Client, space: Space, pair: str, shape: str
) -> None:
    shown = await defaulted(kube, space, engine("e", *PODS[shape]))
    decision = inject.decide(shown, [backend(space, **PAIRS[pair])], OPTIONS)
    assert (decision.check, decision.patch) == (DECLINED[pair, shape], ())
    assert decision.warnings


# What is rendered -----------------------------------------------------------------------------------------------------

RENDERED: dict[str, dict[str, Any]] = {
    "LMCacheServer": {"remoteStorage": {"provider": "LMCacheServer", **MANAGED}},
    "LMCacheServer scaled": {
        "remoteStorage": {
            "provider": "LMCacheServer", **MANAGED, "lmCacheServer": {"resources": {"limits": {"cpu": "100m"}}},
        },
        "autoscaling": {"minReplicas": 1, "maxReplicas": 3},
    },
    "LMCacheServer placed": {
        "remoteStorage": {"provider": "LMCacheServer", **MANAGED, "lmCacheServer": {"command": ["serve", "--all"]}},
        "template": {
            "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "securityContext": {"fsGroup": 1000}, "terminationGracePeriodSeconds": 5, "serviceAccountName": "cache",
            "imagePullSecrets": [{"name": "registry"}], "schedulerName": "other", "priorityClassName": "",
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
        },
    },
    "Mooncake": {"remoteStorage": {"provider": "Mooncake", **MANAGED}},
    "Redis": {"runtime": "SGLang", "remoteStorage": {"provider": "Redis", **MANAGED}},
}  # fmt: skip


def paths(space: Space) -> tuple[str, str, str]:
    scalers = space.of("autoscaling/v2", "horizontalpodautoscalers")
    return f"{space.deployments}/kv", f"{space.of('v1', 'services')}/kv", f"{scalers}/kv"


async def applied(kube: Client, space: Space, **spec: Any) -> dict[str, Object]:
    """What we want, applied as our effects apply it; the answers by path. Nobody owns it: an owner that is not there
    would have it collected."""
    made = providers.render(backend(space, **spec))
    found = {}
    for path, body in zip(paths(space), made, strict=True):
        if body is not None:
            del body["metadata"]["ownerReferences"]
            found[path] = (await kube.apply(path, body, "warmlog", force="true", fieldValidation="Strict")).ok()
    return found


@pytest.mark.parametrize("name", RENDERED)
async def test_what_is_rendered_is_accepted_and_applying_it_twice_changes_nothing(
    kube: Client, space: Space, name: str
) -> None:
    first = await applied(kube, space, **RENDERED[name])
    second = await applied(kube, space, **RENDERED[name])
    for path, one in first.items():
        assert second[path]["spec"] == one["spec"]
        assert second[path]["metadata"].get("generation") == one["metadata"].get("generation")


@pytest.mark.parametrize("other", ["LMCacheServer placed", "LMCacheServer scaled"])
async def test_a_deployment_becomes_another_provider_s(kube: Client, space: Space, other: str) -> None:
    """The Service is deleted in between, as its clusterIP cannot change."""
    deployment, service, _ = paths(space)
    await applied(kube, space, **RENDERED["Mooncake"])
    (await kube.delete(service)).ok()
    flipped = await applied(kube, space, **RENDERED[other])
    (await kube.delete(deployment)).ok()
    fresh = await applied(kube, space, **RENDERED[other])
    assert flipped[deployment]["spec"] == fresh[deployment]["spec"]


async def test_rolling_cannot_be_applied_away(kube: Client, space: Space) -> None:
    """Why a Deployment is deleted that must become one of Mooncake's."""
    await applied(kube, space, **RENDERED["LMCacheServer"])
    (await kube.delete(paths(space)[1])).ok()
    body = providers.render(backend(space, **RENDERED["Mooncake"])).deployment
    del body["metadata"]["ownerReferences"]
    refused = await kube.apply(paths(space)[0], body, "warmlog", force="true")
    refused.refused(422, "Invalid", "spec.strategy.rollingUpdate")
