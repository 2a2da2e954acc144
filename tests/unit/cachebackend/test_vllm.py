"""vLLM with LMCache, form by form: arguments, environment, host network, kernel check, overrides."""

from typing import Any

import pytest

from handlers.cachebackend import names
from handlers.outcome import Object
from tests.support.wiring import CONNECTOR, EVENTS, HICACHE, SGLANG, VLLM, after, engine, managed

# vLLM -----------------------------------------------------------------------------------------------------------------

#: arguments before -> after
ARGUMENTS: dict[str, tuple[list[str], list[str]]] = {
    "none": ([], ["--kv-transfer-config", CONNECTOR]),
    "others": (["--port", "9"], ["--port", "9", "--kv-transfer-config", CONNECTOR]),
    "two words": (["--kv-transfer-config", "{}", "--port", "9"], ["--kv-transfer-config", CONNECTOR, "--port", "9"]),
    "one word": (["--kv-transfer-config={}", "--port", "9"], ["--kv-transfer-config", CONNECTOR, "--port", "9"]),
    "without a value": (["--kv-transfer-config"], ["--kv-transfer-config", CONNECTOR]),
    "without a value, before a flag": (
        ["--kv-transfer-config", "--port", "9"], ["--kv-transfer-config", CONNECTOR, "--port", "9"],
    ),
    "twice": (
        ["--kv-transfer-config", "{}", "--kv-transfer-config=x"], ["--kv-transfer-config", CONNECTOR],
    ),
    "the same": (["--kv-transfer-config", CONNECTOR], ["--kv-transfer-config", CONNECTOR]),
}  # fmt: skip


@pytest.mark.parametrize("form", ARGUMENTS)
def test_the_connector_takes_its_flag_s_place(form: str) -> None:
    before, wanted = ARGUMENTS[form]
    assert engine(after(VLLM, {"args": before})[0])["args"] == wanted


ORDER = [
    "LMCACHE_REMOTE_URL", "LMCACHE_REMOTE_SERDE", "LMCACHE_CHUNK_SIZE", "LMCACHE_LOCAL_CPU",
    "LMCACHE_MAX_LOCAL_CPU_SIZE", "VLLM_USE_V1", "INFERENCECACHE_FAIL_OPEN", "PYTHONHASHSEED",
]  # fmt: skip


def test_the_environment_has_its_order_and_what_was_there_stays_where_it_was() -> None:
    lm = VLLM | managed("LMCacheServer")
    assert [one["name"] for one in engine(after(lm)[0])["env"]] == ORDER
    mine = [{"name": "A", "value": "1"}, {"name": "PYTHONHASHSEED", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]
    env = engine(after(lm, {"env": mine})[0])["env"]
    assert [one["name"] for one in env] == ["A", "PYTHONHASHSEED", *ORDER[:-1]]
    assert env[1] == {"name": "PYTHONHASHSEED", "value": "0"}
    assert [one["name"] for one in engine(after(VLLM)[0])["env"]] == ORDER[1:]


#: (spec, endpoint) -> LMCACHE_REMOTE_URL
URLS: dict[str, tuple[Object, str, str]] = {
    "managed lm": (managed("LMCacheServer"), " kv.ml.svc:65432 ", "lm://kv.ml.svc:65432"),
    "managed mooncake": (managed("Mooncake"), "kv.ml.svc:50051", "mooncakestore://kv.ml.svc:50051"),
    "external with a scheme": (
        {"remoteStorage": {"provider": "LMCacheServer", "ownership": "External", "endpoint": "LM://KV.Corp:1"}},
        "never:1", "lm://KV.Corp:1",
    ),
    "external IPv6": (
        {"remoteStorage": {"provider": "Mooncake", "ownership": "External", "endpoint": "[2001:db8::1]:1"}},
        "", "mooncakestore://[2001:db8::1]:1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", URLS)
def test_the_remote_url_has_the_scheme_of_its_provider(case: str) -> None:
    spec, endpoint, wanted = URLS[case]
    env = engine(after(VLLM | spec, endpoint=endpoint)[0])["env"]
    assert env[0] == {"name": "LMCACHE_REMOTE_URL", "value": wanted}


@pytest.mark.parametrize(
    ("capacity", "storage", "local", "size"),
    [
        (None, False, "True", "20"), (None, True, "False", "20"), ("1Mi", True, "True", "1"),
        ("3Gi", False, "True", "3"), ("3500Mi", True, "True", "4"), ("0", True, "True", "20"),
        ("big", False, "True", "20"), (5368709120, False, "True", "5"),
    ],
)  # fmt: skip
def test_host_memory_is_whole_gibibytes(capacity: Any, storage: bool, local: str, size: str) -> None:
    spec = VLLM | (managed("LMCacheServer") if storage else {})
    spec |= {} if capacity is None else {"lmCache": {"hostMemory": {"capacity": capacity}}}
    env = {one["name"]: one["value"] for one in engine(after(spec)[0])["env"]}
    assert (env["LMCACHE_LOCAL_CPU"], env["LMCACHE_MAX_LOCAL_CPU_SIZE"]) == (local, size)


MOONCAKE = VLLM | managed("Mooncake", integration={"engineHostNetwork": True})


def test_host_networking_comes_with_the_wiring_alone() -> None:
    now, _ = after(MOONCAKE, {"ports": [{"containerPort": 8000, "hostPort": 8000}]})
    assert (now["spec"]["hostNetwork"], now["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    for spec, endpoint in ((MOONCAKE, " "), (VLLM | managed("Mooncake"), "kv:1")):
        assert "hostNetwork" not in after(spec, endpoint=endpoint)[0]["spec"]


@pytest.mark.parametrize(
    ("containers", "pod"),
    [
        ([{"ports": [{"containerPort": 1, "hostPort": 2}]}], {}),
        ([{"name": "vllm", "ports": [{"containerPort": 1}]}, {"name": "b", "ports": [{"containerPort": 1}]}], {}),
        ([{}], {"hostUsers": False}),
    ],
)
def test_a_pod_that_the_host_network_would_make_invalid_is_left_as_it_came(containers: Any, pod: Object) -> None:
    _, decision = after(MOONCAKE, *containers, **pod)
    assert (decision.check, decision.patch) == ("host-network", ())
    assert decision.warnings


GPU: Object = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
#: (annotation, engine) -> strictness of the check, None where there is none
KERNEL: dict[str, tuple[str, Object, str | None]] = {
    "unset, GPU": ("", GPU, "0"), "unset, no GPU": ("", {}, None),
    "unset, GPU asked for": ("", {"resources": {"requests": {"nvidia.com/gpu": "2"}}}, "0"),
    "unset, no GPU at all": ("", {"resources": {"limits": {"nvidia.com/gpu": "0"}}}, None),
    "auto, GPU": ("auto", GPU, "0"), "auto, no GPU": ("auto", {}, None),
    "report-only, no GPU": ("report-only", {}, "0"), "strict, no GPU": ("strict", {}, "1"),
    "strict, GPU": ("strict", GPU, "1"), "off, GPU": ("off", GPU, None),
    "a typo of old": ("strcit", GPU, "0"), "no image": ("strict", {"image": ""}, None),
    "its own value": ("strict", {"env": [{"name": "KERNEL_CHECK_STRICT", "value": "0"}]}, "1"),
}  # fmt: skip


@pytest.mark.parametrize("case", KERNEL)
@pytest.mark.parametrize("older", [False, True])
def test_the_kernel_check_follows_its_annotation(case: str, older: bool) -> None:
    """An older check is replaced, or taken out where none belongs."""
    annotation, container, strict = KERNEL[case]
    before = {"initContainers": [{"name": names.KERNEL_CHECK_CONTAINER, "image": "old"}]} if older else {}
    now, decision = after(VLLM, container, kernel=annotation, **before)
    assert decision.check == "injected"
    found = now["spec"].get("initContainers", [])
    assert len(found) == (0 if strict is None else 1)
    for check in found:
        values = [one["value"] for one in check["env"] if one["name"] == "KERNEL_CHECK_STRICT"]
        assert (check["image"], values) == ("engine:1", [strict])
        assert check["resources"] == {"requests": {"cpu": "50m", "memory": "256Mi"}}


@pytest.mark.parametrize("spec", [SGLANG, HICACHE, EVENTS])
def test_no_other_pair_has_a_kernel_check(spec: Object) -> None:
    now, _ = after(spec, GPU, kernel="strict")
    assert names.KERNEL_CHECK_CONTAINER not in [one["name"] for one in now["spec"].get("initContainers", [])]


# Overrides ------------------------------------------------------------------------------------------------------------


def overridden(before: Object, **given: Any) -> Object:
    return engine(after(VLLM | managed("LMCacheServer", integration={"engineOverrides": given}), before)[0])


#: (arguments before, override) -> arguments after the connector's
EXTRA: dict[str, tuple[list[str], Object, list[str]]] = {
    "a new flag": ([], {"args": ["--new", "1"]}, ["--new", "1"]),
    "a new flag in one word": ([], {"args": ["--new=1"]}, ["--new=1"]),
    "a switch before a flag": ([], {"args": ["--on", "--new", "1"]}, ["--on", "--new", "1"]),
    "a positional": ([], {"args": ["extra"]}, ["extra"]),
    "the author's flag": (["--port", "9"], {"args": ["--port", "10"], "suppressArgs": ["--port"]}, []),
    "the author's flag in one word": (["--port=9"], {"args": ["--port", "10", "--new"]}, ["--new"]),
}  # fmt: skip


@pytest.mark.parametrize("case", EXTRA)
def test_override_arguments(case: str) -> None:
    before, given, extra = EXTRA[case]
    assert overridden({"args": before}, **given)["args"] == [*before, "--kv-transfer-config", CONNECTOR, *extra]


def test_override_environment() -> None:
    mine = [{"name": "MINE", "value": "1"}, {"name": "VLLM_USE_V1", "value": "1"}]
    found = overridden(
        {"env": mine},
        env=[
            {"name": "MINE", "value": "2"}, {"name": "NEW", "value": "3"}, {"name": "LMCACHE_CHUNK_SIZE", "value": "8"},
            {"name": "LMCACHE_REMOTE_SERDE", "value": "back"},
        ],
        suppressEnv=["LMCACHE_LOCAL_CPU", "LMCACHE_REMOTE_SERDE", "MINE"],
    )["env"]  # fmt: skip
    env = {one["name"]: one["value"] for one in found}
    assert (env["MINE"], env["NEW"], env["LMCACHE_CHUNK_SIZE"]) == ("1", "3", "8")
    assert "LMCACHE_LOCAL_CPU" not in env
    assert env["LMCACHE_REMOTE_SERDE"] == "back"  # an override of what was suppressed brings it back
