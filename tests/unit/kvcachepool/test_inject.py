"""What holds for every Pod that asks to join a pool, whatever it looks like."""

import copy
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.patches import json_patch
from handlers.admission import patches
from handlers.admission.decision import Decision
from handlers.kvcachepool import inject, masking, names, record
from handlers.kvcachepool.inject import Settings
from tests.support.kvpools import DISABLED, STORE, backend, binding, pod, pool, world

WORLDS = {
    "tenanted": world(*STORE),
    "no ledger": world(binding(), pool(condition=DISABLED), backend(tenancy=False)),
    "ascend": world(binding(), pool(), backend("store", "CANN", "RDMA")),
    "mixed": world(binding(), pool(), backend("store", "TCP", "RDMA")),
    "absent": world(),
}
LAUNCHES = st.sampled_from(
    [
        (["vllm"], ["serve", "m"]),
        (["/opt/venv/bin/vllm", "serve"], ["m"]),
        (["tini", "--"], ["vllm", "serve", "m"]),
        (["env", "API_KEY=hunter2", "-u", "A", "vllm"], ["serve", "m"]),
        (["timeout", "30", "vllm"], None),
        (["python3", "-m", "sglang.launch_server"], ["--model-path", "m"]),
        (["python3"], ["-m", "sglang.launch_server"]),
        (["sh", "-c"], ["vllm serve m"]),
        (["sh", "/app/run.sh"], None),
        (["/app/start it"], ["x"]),
        (["gosu", "app", "vllm"], None),
        (["env", "-S", "vllm serve"], None),
        (None, ["serve"]),
        ([], []),
    ]
)
WORDS = st.sampled_from(
    ["--kv-transfer-config", "--kv_transfer_config={}", "--kv-tr", "--kv-cache-dtype", "--kv_cache_dtype=fp8",
     "--kv.ü=1", "--hicache-storage-backend=file", "--hicache-storage-backend-extra", "--enable-hierarchical-cache",
     "--enable-hier", "--kv-offloading-size", "--kv-cache-dtype-skip-layers", "--max-model-len", "4096", "--api-key",
     "hunter2", "-x", "", "--seed=⟦1⟧", "--kv-transfer-config x", "a b", "--hicache-ratio=2"]
)  # fmt: skip
ENV = st.fixed_dictionaries(
    {"name": st.sampled_from(["A", "MOONCAKE_MASTER", "MOONCAKE_TENANT_ID", "MOONCAKE_CONFIG_PATH", "MC_TE_METRIC",
                              "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH", "MOONCAKE_DEVICE", "MOONCAKE_PROTOCOL"])},
    optional={"value": st.sampled_from(["hunter2", "", "tcp", "m:50051"]), "valueFrom": st.just({"secretKeyRef": {}})},
)  # fmt: skip
MOUNTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["v", names.VOLUME]),
        "mountPath": st.sampled_from(["/x", names.DIRECTORY, f"{names.DIRECTORY}/", f"{names.DIRECTORY}2"]),
    }
)


@st.composite
def pods(draw: st.DrawFn) -> Any:
    """Mostly such as can be injected, each with a fault or two."""
    command, args = draw(LAUNCHES)
    engine = "SGLang" if "sglang" in str(command) + str(args) and draw(st.integers(0, 9)) else "vLLM"
    made = pod(engine)
    target = made["spec"]["containers"][0]
    more = draw(st.lists(WORDS, max_size=4)) if draw(st.booleans()) else []
    for field, words in (("command", command), ("args", [*(args or []), *more] or args)):
        target.pop(field, None)
        if words is not None:
            target[field] = words
    optional = {
        "env": st.lists(ENV, max_size=5),
        "volumeMounts": st.lists(MOUNTS, max_size=2),
        "envFrom": st.just([{"configMapRef": {"name": "c"}}]),
        "resources": st.sampled_from([{"limits": {"memory": "8Gi"}}, {"requests": {"memory": "64Mi"}}, {}]),
        "image": st.sampled_from(["vllm/vllm-openai:v0.20.0", "x://u:hunter2@r/i:1"]),
        "livenessProbe": st.just({"exec": {"command": ["curl", "hunter2"]}}),
    }
    target.update(draw(st.fixed_dictionaries({}, optional=optional)))
    if draw(st.integers(0, 4)) == 0:
        made["spec"]["volumes"] = [{"name": draw(st.sampled_from(["v", names.VOLUME])), "emptyDir": {}}]
    if draw(st.integers(0, 3)) == 0:
        made["spec"]["containers"].append({"name": "proxy", "image": "p:1", "args": ["hunter2"]})
        if draw(st.booleans()):
            made["metadata"]["annotations"][names.CONTAINER] = draw(st.sampled_from(["server", "proxy", "other"]))
    annotations = {
        names.FORWARDED: st.sampled_from(["true", "yes"]),
        names.ROLE: st.sampled_from(["Prefill", "Decode", "Server"]),
        names.MANUFACTURER: st.sampled_from(["ascend", "nvidia"]),
        names.DOMAIN: st.just("x"),
        "mine": st.just("hunter2"),
    }
    for key, value in annotations.items():
        if draw(st.integers(0, 7)) == 0:
            made["metadata"]["annotations"][key] = draw(value)
    return made


SETTINGS = st.sampled_from([Settings(), Settings(dtype_owned=False)])
PLACES = st.sampled_from(sorted(WORLDS))


def on_pod(before: Any, place: str, settings: Settings) -> tuple[Decision, Any]:
    decision = inject.decide(before, "team", WORLDS[place], settings)
    return decision, json_patch(before, list(decision.patch))


@given(pods(), PLACES, SETTINGS)
def test_deciding_on_the_view_is_deciding_on_the_pod(before: Any, place: str, settings: Settings) -> None:
    plain, expected = on_pod(before, place, settings)
    made = masking.pod(before)
    seen = inject.decide(made.object, "team", WORLDS[place], settings)
    assert (seen.verdict, seen.check, seen.warnings) == (plain.verdict, plain.check, plain.warnings)
    assert [one.field for one in seen.violations] == [one.field for one in plain.violations]
    patch = patches.effective(made.fill(list(seen.patch)), before)
    assert json_patch(before, patch) == expected
    assert made.fill(made.object) == before


@given(pods(), PLACES, SETTINGS)
def test_only_what_is_listed_changes_and_a_refused_pod_does_not(before: Any, place: str, settings: Settings) -> None:
    kept = msgspec.json.encode(before)
    decision, after = on_pod(before, place, settings)
    assert msgspec.json.encode(before) == kept
    if decision.verdict == "refused":
        assert decision.patch == ()
        assert msgspec.json.encode(after) == kept
        return
    number = inject.target(before, before["metadata"]["annotations"].get(names.CONTAINER, ""))
    assert stripped(after, number) == stripped(before, number)
    assert order(after, before)


def stripped(pod: Any, number: int) -> bytes:
    """Everything outside the paths that an injection may write, to the byte."""
    rest = copy.deepcopy(pod)
    for key in names.WRITTEN:
        rest["metadata"]["annotations"].pop(key, None)
    container = rest["spec"]["containers"][number]
    for field in ("args", "env", "volumeMounts"):
        container.pop(field, None)
    rest["spec"]["volumes"] = [one for one in rest["spec"].get("volumes", []) if "downwardAPI" not in one]
    return msgspec.json.encode(rest, order="sorted")


def order(after: Any, before: Any) -> bool:
    """What the author wrote keeps its order, and what is not ours its value."""
    for old, new in zip(before["spec"]["containers"], after["spec"]["containers"], strict=True):
        args = old.get("args") or []
        assert (new.get("args") or [])[: len(args)] == args
        ours = {one["name"] for one in new.get("env") or []} - {one["name"] for one in old.get("env") or []}
        changed = ("MOONCAKE_MASTER", "MOONCAKE_TENANT_ID", "MOONCAKE_DEVICE", "MOONCAKE_PROTOCOL")
        kept = [one for one in old.get("env") or [] if one["name"] not in changed]
        assert [one for one in new.get("env") or [] if one["name"] not in {*ours, *changed}] == kept
    return True


@given(pods(), PLACES)
def test_no_secret_is_in_the_view(before: Any, place: str) -> None:
    made = masking.pod(before)
    assert "hunter2" not in json.dumps(made.object)
    decision = inject.decide(made.object, "team", WORLDS[place], Settings())
    assert "hunter2" not in msgspec.json.encode(decision).decode()


GROUPS = st.lists(
    st.sampled_from([("--max-model-len", "1"), ("--kv_tr={}",), ("--kv-cache-dtype", "fp8"), ("--seed=1",),
                     ("--trust",), ("--hicache-storage-backend", "file"), ("--enable-hierarchical-cache",),
                     ("--kv-offloading-size", "1")]),
    max_size=5,
)  # fmt: skip


@given(GROUPS, st.randoms(use_true_random=False), st.sampled_from(["vLLM", "SGLang"]))
def test_the_order_of_independent_flags_does_not_matter(
    groups: list[tuple[str, ...]], dice: random.Random, engine: str
) -> None:
    def verdict() -> tuple[Any, ...]:
        made = pod(engine)
        made["spec"]["containers"][0]["args"] += [word for group in groups for word in group]
        decision = inject.decide(made, "team", WORLDS["tenanted"], Settings())
        return decision.verdict, decision.check, decision.warnings

    before = verdict()
    dice.shuffle(groups)
    assert verdict() == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "value", "mountPath", "limits", "memory", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["resources", "image", "livenessProbe", "ports"]), JSON, max_size=3))
def test_strange_fields_of_the_container_do_not_crash_it(extra: dict[str, Any]) -> None:
    assert inject.decide(pod(**extra), "team", WORLDS["tenanted"], Settings()).verdict == "patched"


def test_a_second_injection_is_refused_for_it_would_be_an_input() -> None:
    _, once = on_pod(pod(), "tenanted", Settings())
    assert on_pod(once, "tenanted", Settings())[0].check == "annotation-written"


def test_every_entry_of_our_name_becomes_one() -> None:
    pairs = (("MOONCAKE_DEVICE", "mlx5_0"), ("A", "1"), ("MOONCAKE_DEVICE", "x"))
    env = [{"name": name, "value": value} for name, value in pairs]
    _, after = on_pod(pod("SGLang", env=env), "tenanted", Settings())
    found = after["spec"]["containers"][0]["env"]
    assert found[:2] == [{"name": "MOONCAKE_DEVICE", "value": ""}, {"name": "A", "value": "1"}]
    assert [one["name"] for one in found].count("MOONCAKE_DEVICE") == 1


@pytest.mark.parametrize("program", ["/opt/my engine.sh", 'we"ird', "vllm serve m --api-key hunter2"])
def test_a_program_whose_name_is_none_is_not_recorded(program: str) -> None:
    given_to = pod(annotations={names.FORWARDED: "true"}, command=[program])
    made = masking.pod(given_to)
    decision = inject.decide(made.object, "team", WORLDS["tenanted"], Settings())
    after = json_patch(given_to, made.fill(list(decision.patch)))
    said = record.read(after["metadata"]["annotations"][names.INJECTED])
    assert said is not None
    assert (said.launch_program, said.launch_args_forwarded) == ("", True)


def test_what_is_no_record_is_none() -> None:
    assert record.read("{") is None
    assert record.read('{"binding": 1}') is None
    assert record.read("[" * 10_000) is None
