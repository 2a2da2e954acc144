"""What is admitted with a warning. A warning never depends on what the engine's image really holds."""

from typing import Any

import pytest

from handlers.kvcachepool import inject, names
from handlers.kvcachepool.inject import Settings
from tests.support.kvpools import backend, binding, changed, pod, pool, world

COVERED = {"requests": {"memory": "8Gi"}, "limits": {"memory": "8Gi"}}


def told(
    engine: str = "vLLM", dtype: str = "bfloat16", protocol: str = "TCP", domain: str = "team-chat", args: Any = (),
    annotations: Any = None, **container: Any,
) -> list[str]:  # fmt: skip
    given = pod(engine, annotations, **container)
    given["spec"]["containers"][0]["args"] += args
    bound = changed(binding(dtype=dtype), spec__domain__name=domain)
    objects = (bound, pool(), backend(protocol=protocol))
    decision = inject.decide(given, "team", world(*objects), Settings())
    assert decision.verdict == "patched"
    assert all(len(line) <= 240 for line in decision.warnings)
    return list(decision.warnings)


def about(word: str, lines: list[str]) -> list[str]:
    return [line for line in lines if word in line]


@pytest.mark.parametrize("flag", ["--kv-offloading-size", "--kv_offloading_size=8", "--kv-off=8"])
def test_offloading_replaces_the_connector(flag: str) -> None:
    assert "replace the injected connector" in about(names.OFFLOADING, told(args=[flag]))[0]
    assert about(names.OFFLOADING, told("SGLang", args=[flag])) == []


def test_another_offloading_flag_is_not_that_one() -> None:
    assert about(names.OFFLOADING, told(args=["--kv-offloading-backend", "native"])) == []


IMAGES = {
    ("vLLM", "vllm/vllm-openai:v0.20.2"): "reads the injected configuration from 0.21.0 on",
    ("vLLM", "docker.io/vllm/vllm-openai:v0.20.2@sha256:0"): "will not use the cache",
    ("vLLM", "vllm/vllm-openai:v0.27.1"): 'it will use "default" instead of "team-chat"',
    ("vLLM", "vllm/vllm-openai:v0.28.0"): "",
    ("vLLM", "vllm/vllm-openai:v0.20.2-cu130"): "",
    ("vLLM", "vllm/vllm-openai:latest"): "",
    ("vLLM", "vllm/vllm-openai"): "",
    ("vLLM", "mirror.example/vllm/vllm-openai:v0.20.2"): "",
    ("SGLang", "lmsysorg/sglang:v0.4.9.post6"): "from 0.4.10 on",
    ("SGLang", "lmsysorg/sglang:v0.5.16"): "reads the tenant from 0.5.17 on",
    ("SGLang", "lmsysorg/sglang:v0.5.18"): "",
}


@pytest.mark.parametrize(("engine", "image"), IMAGES)
def test_official_images_that_lack_a_reader(engine: str, image: str) -> None:
    found = about("image", told(engine, image=image, resources=COVERED))
    assert (IMAGES[engine, image] in found[0]) if IMAGES[engine, image] else found == []


def test_the_default_domain_needs_no_reader_of_tenants() -> None:
    assert about("image", told(image="vllm/vllm-openai:v0.27.1", domain="default", resources=COVERED)) == []


def test_ascend_reads_no_tenant_yet() -> None:
    annotations = {names.MANUFACTURER: "ascend"}
    found = told(annotations=annotations, protocol="CANN", image="quay.io/ascend/vllm-ascend:v0.23.0")
    assert "in no release known here" in about("image", found)[0]


def test_a_dtype_that_the_engine_does_not_take() -> None:
    assert "will not start" in about("bf16", told(dtype="bf16"))[0]
    assert about("will not start", told("SGLang", dtype="bf16")) == []
    assert "will not start" in about("fp8", told("SGLang", dtype="fp8"))[0]


def test_env_from_cannot_be_looked_into() -> None:
    assert about("envFrom", told(envFrom=[{"secretRef": {"name": "s"}}]))
    assert about("envFrom", told(envFrom=[])) == []


def test_the_injection_grants_no_device() -> None:
    assert about("grants no device", told(protocol="RDMA"))
    assert about("grants no device", told(protocol="RDMA", resources={"limits": {"rdma/hca": "1"}})) == []
    assert about("grants no device", told()) == []


def memory(request: str | None, limit: str | None) -> dict[str, Any]:
    amounts = {"requests": request, "limits": limit}
    return {"resources": {part: {"memory": value} for part, value in amounts.items() if value is not None}}


MEMORY = {
    (None, None): "requests.memory is not set: 128 MiB missing; no limit",
    ("64Mi", None): "requests.memory lacks 64 MiB; no limit",
    (None, "100Mi"): "requests.memory lacks 28 MiB; limits.memory lacks 28 MiB",
    ("8Gi", "8Gi"): "requests.memory must include it; limits.memory must include it",
    ("8Gi", "8320Mi"): "raise both",
    ("oops", "8Gi"): "limits.memory must include it",
}


@pytest.mark.parametrize(("request_", "limit"), MEMORY)
def test_host_memory_of_the_store(request_: str | None, limit: str | None) -> None:
    (line,) = about("MiB", told(**memory(request_, limit)))
    assert line.endswith(MEMORY[request_, limit]) or "raise both" in line
    assert ("raise both" in line) == (MEMORY[request_, limit] == "raise both")


def test_sglang_has_a_smaller_staging_and_a_pinned_tier() -> None:
    (line,) = about("MiB", told("SGLang", **memory("8Gi", "8Gi")))
    assert "16 MiB" in line
    assert "host tier is pinned" in line
