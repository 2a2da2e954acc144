"""One Pod that three systems concern gets all three, whatever the order.

An API server calls mutating webhooks in some order, and once more those that were called before another one changed the
Pod, where their configuration allows it (reinvocationPolicy IfNeeded). With the names in deploy/kubernetes KV cache
injection comes first; in another order it must be told which container is the engine, for then there are others. Where
two systems want the engine's one KV connector, that is told.
"""

import copy
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from crds import core
from handlers.admission import patches
from handlers.admission.decision import Decision, Question
from handlers.cachebackend.inject import Options
from handlers.kernelcache import names
from handlers.kvcachepool import names as pooling
from handlers.outcome import Key
from handlers.world.reader import Reader
from tests.support import kernelcaches as kc
from tests.support import kvpools
from warmlog import documents as manifests
from warmlog import offline, patching, systems

Object = dict[str, Any]
SPACE = "team"


def hooks() -> list[systems.Hook]:
    """New ones for each Pod: they remember what they decided, by versions that differ in a cluster."""
    found = systems.hooks(Options(subscriber_image="sub:1"))
    return [one for one in found if one.kind == core.PODS and one.mutating]


ORDERS = list(itertools.permutations(range(len(hooks()))))
DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"
#: Hook -> whether it may be called again.
AGAIN = {
    hook["name"]: hook.get("reinvocationPolicy", "Never") == "IfNeeded"
    for file in DEPLOY.glob("webhooks*.yaml")
    for one in yaml.safe_load_all(file.read_text())
    for hook in one["webhooks"]
}


def pod() -> Object:
    """An InferenceService's, opted into the pool, selected by a CacheBackend."""
    made = kvpools.pod(name="kserve-container", image=kc.IMAGE, readinessProbe=kc.PROBE)
    metadata = made["metadata"]
    metadata["labels"] = {**metadata["labels"], **kc.LABELS, "serve": "qwen"}
    metadata["annotations"] |= {**kc.ANNOTATIONS, pooling.CONTAINER: "kserve-container"}
    return made


def backend(**spec: Any) -> Object:
    return {
        "apiVersion": "inferencecache.io/v1alpha1",
        "kind": "CacheBackend",
        "metadata": {"name": "kv", "namespace": SPACE},
        "spec": {
            "runtime": "VLLM",
            "engineSelector": {"matchLabels": {"serve": "qwen"}},
            "observation": {"modelID": "m"},
            **spec,
        },
    }


class Called(NamedTuple):
    pod: Object
    refused: str
    checks: dict[str, str]
    warnings: list[str]


def state(*documents: Object) -> Reader:
    config = {"enabled": True, "registry": {"endpoint": "reg.lan"}}
    text = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.CONFIG_MAP, "namespace": "kserve"},
        "data": {names.CONFIG_KEY: json.dumps(config)},
    }
    found = []
    for one in (text, *kvpools.STORE, *documents):
        kind = manifests.kind_of(one["apiVersion"], one["kind"])
        metadata = one["metadata"]
        key = Key(kind, metadata.get("namespace", ""), metadata["name"])
        found.append(manifests.Document("test", kind, key, copy.deepcopy(one)))
    return Reader(offline.world_of(found))


def call(given: Object, order: tuple[int, ...], world: Reader) -> Called:
    asked_of = hooks()
    made, checks, changed, warnings = given, {}, {}, dict[str, Any]()
    for turn, number in enumerate((*order, *order)):
        hook = asked_of[number]
        if turn >= len(order) and not AGAIN[hook.admitter.name]:
            continue
        if turn >= len(order) and not any(one for at, one in changed.items() if at > turn - len(order)):
            continue  # nobody changed it after this one was called
        decision, after = asked(hook.admitter, made, world, uid=str(turn))
        if decision is None:
            continue
        checks[hook.admitter.name] = decision.check
        warnings[hook.admitter.name] = decision.warnings
        if decision.verdict == "refused":
            return Called(made, decision.reason, checks, [])
        changed[turn] = after != made
        made = after
    return Called(made, "", checks, [line for lines in warnings.values() for line in lines])


def asked(admitter: Any, given: Object, world: Reader, *, uid: str) -> tuple[Decision | None, Object]:
    seen = admitter.see(given)
    question = Question(uid=uid, operation="CREATE", kind=core.PODS, namespace=SPACE, view=seen.object)
    if not admitter.concerned(question, world):
        return None, given
    decision = admitter.decide(question, world)
    return decision, patching.apply(given, patches.effective(seen.fill(list(decision.patch)), given))


def normal(given: Object) -> Object:
    """Without what order may change: places in lists of names, and a session's id."""
    made: Object = yaml.safe_load(yaml.safe_dump(given))
    for one in (*made["spec"]["containers"], *made["spec"].get("initContainers", [])):
        for field in ("env", "volumeMounts"):
            one.get(field, []).sort(key=lambda item: (item["name"], item.get("mountPath", "")))
        for variable in one.get("env", []):
            if variable["name"] == names.CAPTURE_CONFIG:
                variable["value"] = ""
    for field in ("containers", "volumes"):
        made["spec"].get(field, []).sort(key=lambda one: one["name"])
    return made


def fitting(*documents: Object) -> tuple[Object, Object]:
    """A cache that the Pod made after the two other systems had changed it, and a node that has it."""
    other = [number for number, one in enumerate(hooks()) if not one.admitter.name.startswith("mkernelcache")]
    final = call(pod(), tuple(other), state(*documents)).pod
    final = {**final, "metadata": {**final["metadata"], "namespace": SPACE}}
    header = {"apiVersion": "serving.kserve.io/v1alpha1"}
    cache = kc.cache("c1", final)
    return {**header, "kind": "KernelCache", **cache}, {**header, "kind": "KernelCacheNode", **kc.node("n1", cache)}


@pytest.mark.parametrize("order", ORDERS)
def test_all_three_whatever_the_order(order: tuple[int, ...]) -> None:
    both = backend(integration={"mode": "EventsOnly"})
    world = state(both, *fitting(both))
    found = call(pod(), order, world)
    assert found.refused == ""
    assert found.checks["mkernelcache.serving.kserve.io"] == "mounted"
    spec = found.pod["spec"]
    assert [one["name"] for one in spec["containers"]] == ["kserve-container", "kvevent-subscriber"]
    assert spec["initContainers"][0]["name"] == names.LINKER
    assert any(word.startswith("--kv-transfer-config") for word in spec["containers"][0]["args"])
    assert normal(found.pod) == normal(call(pod(), ORDERS[0], world).pod)


@pytest.mark.parametrize("order", ORDERS)
def test_all_three_and_a_capture(order: tuple[int, ...]) -> None:
    world = state(backend(integration={"mode": "EventsOnly"}))
    found = call(pod(), order, world)
    assert found.refused == ""
    assert found.checks["mkernelcache.serving.kserve.io"] == "capture"
    assert {one["name"] for one in found.pod["spec"]["containers"]} == {
        "kserve-container", "kvevent-subscriber", names.SIDECAR
    }  # fmt: skip
    assert normal(found.pod) == normal(call(pod(), ORDERS[0], world).pod)


@pytest.mark.parametrize("order", ORDERS)
def test_of_two_connectors_the_pod_s_own_wish_counts_and_the_other_is_told(order: tuple[int, ...]) -> None:
    world = state(backend())
    found = call(pod(), order, world)
    assert found.refused == ""
    assert found.checks["mutate.gpustack-worker-kvcache.core.v1.pod"] == "injected"
    assert found.checks["mpod.inferencecache.io"] == "kv-cache-injection"
    args = found.pod["spec"]["containers"][0]["args"]
    (connector,) = [args[at + 1] for at, word in enumerate(args) if word == "--kv-transfer-config"]
    assert "Mooncake" in connector
    assert normal(found.pod) == normal(call(pod(), ORDERS[0], world).pod)
    (warning,) = [line for line in found.warnings if "CacheBackend" in line]
    for part in (f"not wired to CacheBackend {SPACE}/kv", "kvcache.gpustack.ai/inject", "EventsOnly"):
        assert part in warning
