"""Each admission rule of a CacheBackend: what it refuses, by type and field, and the nearest thing that it accepts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import schema
from crds.cachebackend import CacheBackend, CacheBackendSpec
from handlers.cachebackend import names, validate

VLLM = {"runtime": "VLLM"}
SGLANG = {"runtime": "SGLang"}
HICACHE = {"runtime": "SGLang", "type": "SGLangHiCache", "engineSelector": {"matchLabels": {"a": "b"}}}
RATIO = {**HICACHE, "hiCache": {"ratio": "2"}}


def backend(spec: dict[str, Any], **annotations: str) -> CacheBackend:
    metadata = {"name": "kv", "namespace": "ml", "annotations": annotations}
    return schema.read({"metadata": metadata, "spec": spec}, CacheBackend)


def managed(provider: str = "LMCacheServer", **more: Any) -> dict[str, Any]:
    return {"remoteStorage": {"provider": provider, "ownership": "Managed", **more}}


def external(provider: str = "LMCacheServer", endpoint: str = "kv.example:1", **more: Any) -> dict[str, Any]:
    return {"remoteStorage": {"provider": provider, "ownership": "External", "endpoint": endpoint, **more}}


def wired(**more: Any) -> dict[str, Any]:
    return {"integration": more}


def limits(**given: Any) -> dict[str, Any]:
    return VLLM | managed(lmCacheServer={"resources": given})


R = "spec.remoteStorage.lmCacheServer.resources"
O = "spec.integration.engineOverrides"  # noqa: E741

#: rule -> (what it refuses, type, field, what it accepts)
RULES: dict[str, tuple[dict[str, Any], str, str, dict[str, Any]]] = {
    "autoscaling needs a workload": (
        VLLM | {"autoscaling": {"maxReplicas": 2}}, "Forbidden", "spec.autoscaling",
        VLLM | managed() | {"autoscaling": {"maxReplicas": 2}},
    ),
    "lmCache belongs to LMCache": (RATIO | {"lmCache": {}}, "Forbidden", "spec.lmCache", VLLM | {"lmCache": {}}),
    "hiCache belongs to SGLangHiCache": (VLLM | {"hiCache": {"ratio": "2"}}, "Forbidden", "spec.hiCache", RATIO),
    "capacity is positive": (
        VLLM | {"lmCache": {"hostMemory": {"capacity": "0"}}}, "Invalid", "spec.lmCache.hostMemory.capacity",
        VLLM | {"lmCache": {"hostMemory": {"capacity": "1Mi"}}},
    ),
    "capacity is a quantity": (
        VLLM | {"lmCache": {"hostMemory": {"capacity": "big"}}}, "Invalid", "spec.lmCache.hostMemory.capacity",
        VLLM | {"lmCache": {"hostMemory": {"capacity": 4294967296}}},
    ),
    "provider is said": (
        VLLM | {"remoteStorage": {"ownership": "Managed"}}, "Required", "spec.remoteStorage.provider",
        VLLM | managed(),
    ),
    "ownership is said": (
        VLLM | {"remoteStorage": {"provider": "LMCacheServer"}}, "Required", "spec.remoteStorage.ownership",
        VLLM | managed(),
    ),
    "a managed endpoint is not given": (
        VLLM | managed(endpoint="a:1"), "Forbidden", "spec.remoteStorage.endpoint", VLLM | managed(endpoint="  "),
    ),
    "an external endpoint is given": (
        VLLM | external(endpoint=" "), "Required", "spec.remoteStorage.endpoint", VLLM | external(),
    ),
    "an endpoint has its shape": (
        VLLM | external(endpoint="http://a:1"), "Invalid", "spec.remoteStorage.endpoint",
        VLLM | external(endpoint="lm://a:1"),
    ),
    "a block belongs to its provider": (
        VLLM | managed(redis={}), "Forbidden", "spec.remoteStorage.redis", VLLM | managed(lmCacheServer={}),
    ),
    "an external tier has no block": (
        VLLM | external(lmCacheServer={}), "Forbidden", "spec.remoteStorage.lmCacheServer", VLLM | external(),
    ),
    "another namespace needs an opt-in": (
        VLLM | external(endpoint="lm.other.svc:1"), "Forbidden", "spec.remoteStorage.endpoint",
        VLLM | external(endpoint="lm.other.svc:1") | {"allowCrossNamespace": True},
    ),
    "a command is not empty": (
        VLLM | managed(lmCacheServer={"command": []}), "Invalid", "spec.remoteStorage.lmCacheServer.command",
        VLLM | managed(lmCacheServer={"command": ["x"]}),
    ),
    "a command has no blank": (
        VLLM | managed(lmCacheServer={"command": ["x", " "]}), "Invalid",
        "spec.remoteStorage.lmCacheServer.command[1]", VLLM | managed(lmCacheServer={"command": ["x", "y"]}),
    ),
    "zero replicas under an autoscaler say their floor": (
        VLLM | managed() | {"replicas": 0, "autoscaling": {"maxReplicas": 2}}, "Required",
        "spec.autoscaling.minReplicas",
        VLLM | managed() | {"replicas": 0, "autoscaling": {"minReplicas": 1, "maxReplicas": 2}},
    ),
    "one Mooncake master": (
        VLLM | managed("Mooncake") | {"replicas": 2}, "Invalid", "spec.replicas",
        VLLM | managed("Mooncake") | {"replicas": 1},
    ),
    "Mooncake does not scale": (
        VLLM | managed("Mooncake") | {"autoscaling": {"minReplicas": 1, "maxReplicas": 2}}, "Invalid",
        "spec.autoscaling", VLLM | managed("Mooncake"),
    ),
    "one Redis behind SGLang": (
        SGLANG | managed("Redis") | {"replicas": 2}, "Invalid", "spec.replicas", SGLANG | managed("Redis"),
    ),
    "host network is Mooncake's": (
        VLLM | managed() | wired(engineHostNetwork=True), "Invalid", "spec.integration.engineHostNetwork",
        VLLM | managed("Mooncake") | wired(engineHostNetwork=True),
    ),
    "limits cover requests": (
        limits(requests={"memory": "3Gi"}, limits={"memory": "2Gi"}), "Invalid", f"{R}.limits[memory]",
        limits(requests={"memory": "2Gi"}, limits={"memory": "3Gi"}),
    ),
    "devices are not overcommitted": (
        limits(requests={"a.io/x": "1"}, limits={"a.io/x": "2"}), "Invalid", f"{R}.limits[a.io/x]",
        limits(requests={"a.io/x": "2"}, limits={"a.io/x": "2"}),
    ),
    "devices need a limit": (
        limits(requests={"a.io/x": "1"}), "Invalid", f"{R}.requests[a.io/x]", limits(limits={"a.io/x": "1"}),
    ),
    "no claims": (limits(claims=[{"name": "c"}]), "Forbidden", f"{R}.claims", limits(claims=[])),
    "no negative amount": (
        limits(limits={"cpu": "-1"}), "Invalid", f"{R}.limits[cpu]", limits(limits={"cpu": "0"}),
    ),
    "an amount is a quantity": (
        limits(limits={"cpu": "one"}), "Invalid", f"{R}.limits[cpu]", limits(limits={"cpu": "1"}),
    ),
    "whole devices": (
        limits(limits={"a.io/x": "500m"}), "Invalid", f"{R}.limits[a.io/x]", limits(limits={"a.io/x": "1000m"}),
    ),
    "whole pages": (
        limits(requests={"hugepages-2Mi": "2Mi"}, limits={"hugepages-2Mi": "3Mi"}), "Invalid",
        f"{R}.limits[hugepages-2Mi]", limits(requests={"hugepages-2Mi": "4Mi"}, limits={"hugepages-2Mi": "4Mi"}),
    ),
    "a page size": (
        limits(limits={"hugepages-0": "0"}), "Invalid", f"{R}.limits[hugepages-0]",
        limits(limits={"hugepages-1Gi": "1Gi"}),
    ),
    "a vendor's name": (limits(limits={"gpu": "1"}), "Invalid", f"{R}.limits[gpu]", limits(limits={"a.io/gpu": "1"})),
    "kubernetes.io is reserved": (
        limits(limits={"kubernetes.io/x": "1"}), "Invalid", f"{R}.limits[kubernetes.io/x]",
        limits(limits={"notkubernetes.io/x": "1"}),
    ),
    "requests.kubernetes.io is reserved": (
        limits(limits={"requests.kubernetes.io/x": "1"}), "Invalid", f"{R}.limits[requests.kubernetes.io/x]",
        limits(limits={"requests.example.io/x": "1"}),
    ),
    "events only with LMCache": (
        RATIO | wired(mode="EventsOnly"), "Forbidden", "spec.integration.mode", VLLM | wired(mode="EventsOnly"),
    ),
    "events only does not scale": (
        VLLM | wired(mode="EventsOnly") | {"autoscaling": {"maxReplicas": 1}}, "Forbidden", "spec.autoscaling",
        VLLM | wired(mode="EventsOnly"),
    ),
    "events only has no tier": (
        VLLM | wired(mode="EventsOnly") | managed(), "Forbidden", "spec.remoteStorage",
        VLLM | wired(mode="Offload") | managed(),
    ),
    "HiCache has a capacity": (HICACHE, "Required", "spec.hiCache", RATIO),
    "HiCache has one capacity": (
        HICACHE | {"hiCache": {"ratio": "2", "sizeGB": 1}}, "Invalid", "spec.hiCache",
        HICACHE | {"hiCache": {"sizeGB": 1}},
    ),
    "HiCache size": (
        HICACHE | {"hiCache": {"sizeGB": 0}}, "Invalid", "spec.hiCache.sizeGB", HICACHE | {"hiCache": {"sizeGB": 1}},
    ),
    "HiCache ratio": (
        HICACHE | {"hiCache": {"ratio": "Inf"}}, "Invalid", "spec.hiCache.ratio",
        HICACHE | {"hiCache": {"ratio": "1e1"}},
    ),
    "HiCache runtime": (RATIO | VLLM, "Invalid", "spec.runtime", RATIO),
    "HiCache selector": (
        RATIO | {"engineSelector": {}}, "Required", "spec.engineSelector.matchLabels", RATIO,
    ),
    "HiCache does not scale": (RATIO | {"autoscaling": {"maxReplicas": 1}}, "Forbidden", "spec.autoscaling", RATIO),
    "HiCache mode": (
        RATIO | wired(mode="EventsOnly"), "NotSupported", "spec.integration.mode", RATIO | wired(mode="Offload"),
    ),
    "HiCache role": (
        RATIO | wired(role="ReadOnly"), "NotSupported", "spec.integration.role", RATIO | wired(role="ReadWrite"),
    ),
    "HiCache fails open": (
        RATIO | wired(failOpen=False), "NotSupported", "spec.integration.failOpen", RATIO | wired(failOpen=True),
    ),
    "a pair with an adapter": (VLLM | {"type": "SGLangHiCache"}, "Invalid", "spec.runtime", VLLM),
    "a tier that the pair speaks": (
        VLLM | managed("Redis"), "Invalid", "spec.remoteStorage.provider", SGLANG | managed("Redis"),
    ),
    "HiCache has no tier": (RATIO | managed("Redis"), "Invalid", "spec.remoteStorage.provider", RATIO),
    "SGLang reads and writes": (
        SGLANG | wired(role="ReadOnly"), "Invalid", "spec.integration.role", VLLM | wired(role="ReadOnly"),
    ),
    "a reserved argument": (
        VLLM | wired(engineOverrides={"args": ["-x", "--kv-transfer-config={}"]}), "Forbidden", f"{O}.args[1]",
        SGLANG | wired(engineOverrides={"args": ["-x", "--kv-transfer-config={}"]}),
    ),
    "a reserved argument suppressed": (
        SGLANG | wired(engineOverrides={"suppressArgs": ["--enable-lmcache"]}), "Forbidden", f"{O}.suppressArgs[0]",
        VLLM | wired(engineOverrides={"suppressArgs": ["--enable-lmcache"]}),
    ),
    "a reserved variable": (
        VLLM | wired(engineOverrides={"env": [{"name": "VLLM_USE_V1"}]}), "Forbidden", f"{O}.env[0].name",
        SGLANG | wired(engineOverrides={"env": [{"name": "VLLM_USE_V1"}]}),
    ),
    "a reserved variable suppressed": (
        VLLM | wired(engineOverrides={"suppressEnv": ["PYTHONHASHSEED"]}), "Forbidden", f"{O}.suppressEnv[0]",
        VLLM | wired(engineOverrides={"suppressEnv": ["LMCACHE_CHUNK_SIZE"]}),
    ),
    "a variable has a name": (
        VLLM | wired(engineOverrides={"env": [{"name": ""}]}), "Required", f"{O}.env[0].name",
        VLLM | wired(engineOverrides={"env": [{"name": "A"}]}),
    ),
    "a variable's name": (
        VLLM | wired(engineOverrides={"env": [{"name": "A=B"}]}), "Invalid", f"{O}.env[0].name",
        VLLM | wired(engineOverrides={"env": [{"name": "A.B-c"}]}),
    ),
    "a value or a source": (
        VLLM | wired(engineOverrides={"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]}),
        "Invalid", f"{O}.env[0]",
        VLLM | wired(engineOverrides={"env": [{"name": "A", "value": "", "valueFrom": {"fieldRef": {}}}]}),
    ),
    "a source": (
        VLLM | wired(engineOverrides={"env": [{"name": "A", "valueFrom": {}}]}), "Required", f"{O}.env[0].valueFrom",
        VLLM | wired(engineOverrides={"env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}),
    ),
    "one source": (
        VLLM | wired(engineOverrides={"env": [{"name": "A", "valueFrom": {"fieldRef": {}, "secretKeyRef": {}}}]}),
        "Invalid", f"{O}.env[0].valueFrom",
        VLLM | wired(engineOverrides={"env": [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_refuses_by_type_and_field_and_nothing_near_it(rule: str) -> None:
    bad, type_, field, good = RULES[rule]
    assert (type_, field) in {(one.type, one.field) for one in validate.violations(backend(bad))}
    assert validate.violations(backend(good)) == []


def test_the_kernel_check_has_four_modes() -> None:
    found = validate.violations(backend(VLLM, **{names.KERNEL_CHECK: "loud"}))
    assert [(one.type, one.field) for one in found] == [("Invalid", f"metadata.annotations[{names.KERNEL_CHECK}]")]
    assert validate.violations(backend(VLLM, **{names.KERNEL_CHECK: "strict"})) == []


def test_all_violations_come_together() -> None:
    found = validate.violations(backend(RATIO | wired(mode="EventsOnly", role="ReadOnly", failOpen=False)))
    assert len(found) == 4


def test_another_bad_value_of_a_bad_field_is_a_new_violation() -> None:
    old, new = backend(VLLM | external(endpoint="a")), backend(VLLM | external(endpoint="b"))
    assert validate.introduced(old, old) == []
    assert [one.value for one in validate.introduced(new, old)] == ["b"]


def test_what_is_admitted_and_does_nothing_is_a_short_warning() -> None:
    assert validate.warnings(backend(VLLM | managed("Mooncake") | wired(engineHostNetwork=True))) == []
    (stateful,) = validate.warnings(backend(VLLM | managed() | {"deploymentKind": "StatefulSet"}))
    (mooncake,) = validate.warnings(backend(VLLM | external("Mooncake")))
    assert "StatefulSet" in stateful
    assert "engineHostNetwork" in mooncake
    assert max(len(stateful), len(mooncake)) <= 120


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(
        {one.name for one in schema.fields(CacheBackendSpec)} | {"provider", "resources", "limits", "env", "ratio"}
    )), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_no_document_breaks_the_schema_check(document: Any) -> None:
    problems = schema.violations(document, CacheBackendSpec, "spec")
    if not any(one.type == "TypeInvalid" for one in problems):
        validate.violations(backend(document))


@pytest.mark.parametrize("bad", [[], {"runtime": 1}, {"replicas": True}, {"engineSelector": {"matchLabels": {"a": 1}}}])
def test_a_wrong_json_type_is_named(bad: Any) -> None:
    assert any(one.type == "TypeInvalid" for one in schema.violations(bad, CacheBackendSpec, "spec"))
