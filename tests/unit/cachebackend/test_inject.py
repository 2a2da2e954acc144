"""Wiring of engine Pods: what holds for every pair, whatever the Pod looks like."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import schema
from crds.cachebackend import CacheBackend
from devkube.patches import json_patch
from handlers.admission.decision import Decision
from handlers.cachebackend import inject, names, sidecar

OPTIONS = inject.Options(subscriber_image="sub:1", server="ic:9090")
SELECTOR = {"matchLabels": {"serve": "qwen"}}


def backend(
    name: str = "kv", annotations: dict[str, str] | None = None, endpoint: str = "", **spec: Any
) -> CacheBackend:
    document = {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "annotations": annotations or {}},
        "spec": {"runtime": "VLLM", "engineSelector": SELECTOR, **spec},
        "status": {"endpoint": endpoint},
    }
    return schema.read(document, CacheBackend)


def storage(provider: str) -> dict[str, Any]:
    return {"provider": provider, "ownership": "Managed"}


BACKENDS = {
    "vllm host memory": backend(),
    "vllm lm": backend(endpoint="kv.ml.svc:65432", remoteStorage=storage("LMCacheServer")),
    "vllm mooncake": backend(
        endpoint="kv.ml.svc:50051", remoteStorage=storage("Mooncake"), integration={"engineHostNetwork": True}
    ),
    "vllm events": backend(integration={"mode": "EventsOnly"}, observation={"modelID": "m"}),
    "vllm overrides": backend(
        annotations={names.KERNEL_CHECK: "strict"},
        observation={"modelID": "m"},
        integration={
            "engineOverrides": {
                "args": ["--new", "1", "bare"],
                "suppressEnv": ["LMCACHE_REMOTE_SERDE"],
                "env": [{"name": "LMCACHE_CHUNK_SIZE", "value": "8"}, {"name": "E", "valueFrom": {"fieldRef": {}}}],
            }
        },
    ),
    "sglang": backend(runtime="SGLang"),
    "sglang redis": backend(runtime="SGLang", endpoint="[::1]:6379", remoteStorage=storage("Redis")),
    "hicache": backend(runtime="SGLang", type="SGLangHiCache", hiCache={"ratio": "2", "writePolicy": "write_back"}),
}


def pod(**container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "e", "namespace": "ml", "labels": {"serve": "qwen"}},
        "spec": {"containers": [{"name": "engine", "image": "engine:1", **container}]},
    }


def after(before: dict[str, Any], *backends: CacheBackend, options: inject.Options = OPTIONS) -> tuple[Any, Decision]:
    decision = inject.decide(before, backends, options)
    return json_patch(before, list(decision.patch)), decision


@pytest.mark.parametrize("name", BACKENDS)
def test_a_second_pass_changes_nothing(name: str) -> None:
    """A webhook is called again when another one changed the Pod."""
    once, first = after(pod(args=["--model", "m"]), BACKENDS[name])
    assert first.verdict == "patched"
    twice, second = after(once, BACKENDS[name])
    assert (twice, second.patch) == (once, ())


WORDS = st.sampled_from(
    ["--kv-transfer-config", "--kv-transfer-config={}", "--enable-lmcache", "--hicache-ratio", "2", "--model", "m",
     "--hicache-ratio=2.0", "--enable-hierarchical-cache", "-x", "--", "", "--lmcache-config-file", "/x"]
)  # fmt: skip
MOUNTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["v", "lmcache-config", "lmcache-dshm"]),
        "mountPath": st.sampled_from(["/dev/shm", "/x", "/etc/lmcache/"]),
    },
    optional={"readOnly": st.booleans(), "subPathExpr": st.just("$(X)"), "subPath": st.just("s")},
)  # fmt: skip
VOLUMES = st.fixed_dictionaries(
    {"name": st.sampled_from(["v", "lmcache-config", "other"])},
    optional={"emptyDir": st.just({}), "configMap": st.just({"name": "c"}), "nfs": st.just({"readOnly": True})},
)
CONTAINERS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["vllm", "sglang", "engine", "kvevent-subscriber", "lmcache-mp-worker"]),
        "image": st.just("i"),
    },
    optional={
        "args": st.lists(WORDS, max_size=5),
        "command": st.lists(st.sampled_from(["sh", "-c", "python3", "vllm"]), max_size=3),
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["A", "LMCACHE_REMOTE_URL", "PYTHONHASHSEED"])},
                optional={"value": st.just("7"), "valueFrom": st.just({"secretKeyRef": {}})},
            ),
            max_size=4,
        ),
        "volumeMounts": st.lists(MOUNTS, max_size=2),
        "resources": st.just({"limits": {"nvidia.com/gpu": "1"}}),
        "ports": st.just([{"containerPort": 8000}]),
    },
)  # fmt: skip
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"labels": st.just({"serve": "qwen"}), "name": st.just("e")},
            optional={
                "annotations": st.dictionaries(
                    st.sampled_from([*inject.MARKS, names.SKIP_INJECT, "mine"]), st.sampled_from(["true", "no", "x"])
                )
            },
        ),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(CONTAINERS, max_size=3)},
            optional={
                "volumes": st.lists(VOLUMES, max_size=2),
                "initContainers": st.lists(CONTAINERS, max_size=2),
                "nodeSelector": st.just({"a": "b"}),
            },
        ),
    }
)

#: What the injection may touch; everything else of a Pod is its author's.
POD_FIELDS = {"containers", "initContainers", "volumes", "hostNetwork", "dnsPolicy"}
ENGINE_FIELDS = {"args", "env", "volumeMounts"}


@given(PODS, st.sampled_from(sorted(BACKENDS)))
def test_any_pod_is_admitted_and_only_what_may_be_touched_changes(before: dict[str, Any], name: str) -> None:
    untouched = copy.deepcopy(before)
    now, decision = after(before, BACKENDS[name])
    assert before == untouched
    assert decision.verdict in ("patched", "allowed")
    assert {k: v for k, v in now["spec"].items() if k not in POD_FIELDS} == {
        k: v for k, v in before["spec"].items() if k not in POD_FIELDS
    }
    for old, new in zip(before["spec"]["containers"], now["spec"]["containers"], strict=False):
        assert {k: v for k, v in old.items() if k not in ENGINE_FIELDS} == {
            k: v for k, v in new.items() if k not in ENGINE_FIELDS
        }
    assert now["metadata"].get("annotations", {}).get("mine") == before["metadata"].get("annotations", {}).get("mine")
    if decision.check != "injected":
        assert now["spec"] == before["spec"]
        assert names.INJECTED_BY not in now["metadata"].get("annotations", {})
    assert after(now, BACKENDS[name])[1].patch == ()


def test_why_a_pod_was_not_wired_is_told_to_its_author() -> None:
    _, decision = after(pod(), backend(remoteStorage=storage("LMCacheServer")))
    assert decision.check == "endpoint"
    assert decision.warnings == (
        "not wired to CacheBackend ml/kv: its endpoint is not known yet; Pods that are created later will be wired",
    )
    assert after({**pod(), "metadata": {"labels": {}}}, backend())[1].warnings == ()


def test_two_containers_without_the_engine_s_name_are_not_guessed_at() -> None:
    two = pod()
    two["spec"]["containers"].append({"name": "other", "image": "o"})
    now, decision = after(two, backend())
    assert (now, decision.check) == (two, "engine")
    assert "Name it vllm" in decision.reason


def test_an_old_cluster_gets_no_native_sidecar() -> None:
    old = OPTIONS._replace(native_sidecars=False)
    now, decision = after(pod(), BACKENDS["sglang"], options=old)
    assert (now, decision.check) == (pod(), "cluster-version")
    assert "1.29" in decision.warnings[0]
    assert after(pod(), BACKENDS["vllm lm"], options=old)[1].check == "injected"


def test_opting_out_is_marked_and_takes_older_marks_off() -> None:
    marked = pod()
    marked["metadata"]["annotations"] = {names.SKIP_INJECT: "yes", names.INJECTED_BY: "ml/kv"}
    now, decision = after(marked, backend())
    assert decision.check == "skip-inject"
    assert now["metadata"]["annotations"] == {
        names.SKIP_INJECT: "yes",
        names.INJECT_SKIPPED: "skip-inject-annotation",
    }


EVENTS = {
    "": "publishes no KV events",
    '{"publisher":"zmq","endpoint":"tcp://*:5557"}': "replay_endpoint",
    '{"publisher":"zmq","replay_endpoint":"tcp://*:5558"}': "",
    '{"publisher":"null"}': "",
    "not json": "",
}


@pytest.mark.parametrize("config", EVENTS)
def test_an_engine_that_would_not_be_heard_is_told(config: str) -> None:
    engine = pod(args=["--kv-events-config", config] if config else [])["spec"]["containers"][0]
    assert EVENTS[config] in sidecar.hears_nothing(engine)
    assert bool(EVENTS[config]) == bool(sidecar.hears_nothing(engine))


def test_arguments_behind_a_shell_are_told() -> None:
    _, decision = after(pod(command=["/bin/sh", "-c", "vllm serve m"]), backend(), options=inject.Options())
    assert "shell" in decision.warnings[0]


def test_the_kernel_check_sees_what_the_engine_sees() -> None:
    strict = backend(annotations={names.KERNEL_CHECK: "strict"})
    now, _ = after(pod(env=[{"name": "A", "value": "1"}], workingDir="/w", envFrom=[{"x": 1}]), strict)
    (check,) = now["spec"]["initContainers"]
    assert check["workingDir"] == "/w"
    assert check["envFrom"] == [{"x": 1}]
    assert check["env"][-1] == {"name": "KERNEL_CHECK_STRICT", "value": "1"}
    assert {"name": "A", "value": "1"} in check["env"]


def test_the_connector_s_role_follows_the_integration() -> None:
    for role, kv_role in (("ReadOnly", "kv_consumer"), ("WriteOnly", "kv_producer"), ("ReadWrite", "kv_both")):
        now, _ = after(pod(), backend(integration={"role": role}))
        args = now["spec"]["containers"][0]["args"]
        assert json.loads(args[args.index("--kv-transfer-config") + 1])["kv_role"] == kv_role
