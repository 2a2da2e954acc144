"""What should be for a CacheBackend, along the lives that one can have."""

from typing import Any

import pytest

from crds import cachebackend, core
from eventstore import events, subjects
from handlers.cachebackend import names, providers
from handlers.cachebackend.system import KINDS, CacheBackends
from handlers.outcome import Apply, Delete, Key, Outcome, Patch, Status
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World
from tests.support.worlds import Teller

KEY = Key(cachebackend.CACHE_BACKENDS, "ml", "kv")
SYSTEM = CacheBackends()
OWNER = [{"kind": "CacheBackend", "name": "kv", "uid": "uid-kv", "controller": True}]


def teller() -> Teller:
    return Teller(*KINDS)


def backend(*, annotations: dict[str, str] | None = None, generation: int = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "kv", "namespace": "ml", "generation": generation, "annotations": annotations or {}}
    given = {"runtime": "VLLM", "engineSelector": {"matchLabels": {"serve": "qwen"}}, **spec}
    return {"metadata": metadata, "spec": given}


MANAGED = {"remoteStorage": {"provider": "LMCacheServer", "ownership": "Managed"}}


def deployment(*, available: int = 1, owner: Any = OWNER, name: str = "kv", replicas: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ml", "generation": 1, "ownerReferences": owner},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "lmcache-server"}]}},
        },
        "status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": available,
            "availableReplicas": available,
        },
    }  # fmt: skip


def service(*, owner: Any = OWNER, cluster_ip: str = "10.0.0.1") -> dict[str, Any]:
    ports = [{"name": "lmcache", "port": 65432, "targetPort": "lmcache"}]
    labels = {
        "app.kubernetes.io/name": "cachebackend",
        "app.kubernetes.io/instance": "kv",
        "app.kubernetes.io/managed-by": "inference-cache-controller",
    }
    metadata = {"name": "kv", "namespace": "ml", "ownerReferences": owner}
    return {"metadata": metadata, "spec": {"clusterIP": cluster_ip, "ports": ports, "selector": labels}}


def engine(name: str, *, wired: bool = True, owner: Any = (), **status: Any) -> dict[str, Any]:
    marks = {names.INJECTED_BY: "ml/kv", names.INJECTED_BY_UID: "uid-kv"} if wired else {}
    metadata = {"name": name, "namespace": "ml", "labels": {"serve": "qwen"}, "annotations": marks}
    return {"metadata": {**metadata, "ownerReferences": list(owner)}, "status": {"phase": "Running", **status}}


def look(told: Teller) -> Outcome:
    return SYSTEM.desired(Reader(told.world), KEY)


def settle(told: Teller) -> tuple[dict[str, Any], list[str]]:
    """Carry out until nothing is left to do: the status that is shown then, and the Events on the way."""
    reasons: list[str] = []
    for _ in range(5):
        outcome = look(told)
        new = told.carry_out(KEY, outcome)
        reasons += new
        if not new and not any(isinstance(one, Status) for one in outcome.intents):
            return Reader(told.world).status(KEY, {}), reasons
    raise AssertionError("it never settles")


def condition(status: dict[str, Any], kind: str) -> tuple[str, str] | None:
    found = [one for one in status.get("conditions", []) if one["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else None


def test_nothing_is_said_before_the_kinds_are_listed() -> None:
    told = Teller(cachebackend.CACHE_BACKENDS)
    told.seen(cachebackend.CACHE_BACKENDS, backend(**MANAGED))
    with pytest.raises(Unlisted):
        look(told)


def test_a_managed_backend_from_nothing_to_ready() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    applied = {one.key.kind for one in look(told).intents if isinstance(one, Apply)}
    assert applied == {core.DEPLOYMENTS, core.SERVICES}
    status, reasons = settle(told)
    assert condition(status, "Ready") == ("False", "RolloutInProgress")
    assert "endpoint" not in status
    assert reasons == ["EngineSelectorUnmatched"]

    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    told.seen(core.PODS, engine("e0"))
    status, reasons = settle(told)
    assert condition(status, "Ready") == ("False", "AwaitingFirstKVEvent")
    assert status["endpoint"] == "kv.ml.svc.cluster.local:65432"
    assert status["matchedEnginePods"] == 1
    assert "engineSelectorMessage" not in status
    assert reasons == ["AwaitingFirstKVEvent"]
    assert look(told).again_ns > told.world.now_ns

    told.replica("ml", "e0", "first-event", blocks=12)
    status, reasons = settle(told)
    assert condition(status, "Ready") == ("True", "KVEventsObserved")
    assert condition(status, "Progressing") == ("False", "Synced")
    assert status["indexParticipation"]["prefixCount"] == 12
    assert status["firstKVEventObservedAt"] == status["indexParticipation"]["lastEventAt"]
    assert reasons == ["KVEventsObserved"]
    assert look(told).again_ns == 0


def test_the_first_event_is_waited_for_and_no_flap_restarts_the_wait() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED, observation={"firstEventTimeout": "1m"}))
    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    settle(told)
    told.seen(core.DEPLOYMENTS, deployment(available=0), after=30)
    assert condition(settle(told)[0], "Degraded") == ("True", "ReplicasUnavailable")
    told.seen(core.DEPLOYMENTS, deployment(), after=30)
    status, reasons = settle(told)
    assert condition(status, "Ready") == ("False", "NoKVEventsObserved")
    assert reasons == ["NoKVEventsObserved"]


def test_a_foreign_object_of_the_name_is_left_alone_and_gives_no_endpoint() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.SERVICES, service(owner=[]))
    told.seen(core.DEPLOYMENTS, deployment(owner=[{"kind": "X", "uid": "other", "controller": True}]))
    assert not any(isinstance(one, Apply | Delete) for one in look(told).intents)
    assert "endpoint" not in settle(told)[0]


def test_a_change_to_events_only_sheds_the_workload_and_starts_a_new_wait() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    settle(told)
    told.passed(400)
    assert condition(settle(told)[0], "Degraded") == ("True", "NoKVEventsObserved")
    told.seen(KEY.kind, {**backend(generation=2, integration={"mode": "EventsOnly"})})
    deleted = {one.key.kind for one in look(told).intents if isinstance(one, Delete)}
    assert deleted == {core.SERVICES, core.DEPLOYMENTS}


def test_a_service_that_must_become_headless_is_made_anew() -> None:
    told = teller()
    told.seen(KEY.kind, backend(remoteStorage={"provider": "Mooncake", "ownership": "Managed"}))
    told.seen(core.SERVICES, service())
    assert [one.key.kind for one in look(told).intents if isinstance(one, Delete)] == [core.SERVICES]
    told.gone(core.SERVICES, "ml", "kv")
    (made,) = [one for one in look(told).intents if isinstance(one, Apply) and one.key.kind == core.SERVICES]
    assert made.body["spec"]["clusterIP"] == "None"


def test_a_service_that_somebody_changed_is_put_right() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    right = service()
    told.seen(core.SERVICES, right)
    assert [one.drifted for one in look(told).intents if isinstance(one, Apply) and one.key.kind == core.SERVICES] == [
        False
    ]
    wrong = {**right, "spec": {**right["spec"], "selector": {"other": "thing"}}}
    told.seen(core.SERVICES, wrong)
    assert [one.drifted for one in look(told).intents if isinstance(one, Apply) and one.key.kind == core.SERVICES] == [
        True
    ]


def test_an_autoscaler_s_choice_is_kept_above_its_floor() -> None:
    document = backend(**MANAGED, autoscaling={"minReplicas": 2, "maxReplicas": 9})
    for live, wanted in ((5, 5), (1, 2)):
        told = teller()
        told.seen(KEY.kind, document)
        told.seen(core.DEPLOYMENTS, deployment(replicas=live))
        bodies = {one.key.kind: one.body for one in look(told).intents if isinstance(one, Apply)}
        assert bodies[core.DEPLOYMENTS]["spec"]["replicas"] == wanted
        assert bodies[core.AUTOSCALERS]["spec"]["minReplicas"] == 2


def test_only_a_change_of_counts_may_wait() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    settle(told)
    told.seen(core.PODS, engine("e0"))
    settle(told)
    told.seen(core.PODS, engine("e1"))
    (status,) = [one for one in look(told).intents if isinstance(one, Status)]
    assert status.lazy
    assert status.status["matchedEnginePods"] == 2


def test_a_selector_on_an_engine_that_is_scaled_to_zero_is_no_worry() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    idle = deployment(name="engine", owner=[], replicas=0)
    idle["spec"]["template"]["metadata"]["labels"] = {"serve": "qwen"}
    told.seen(core.DEPLOYMENTS, idle)
    status, reasons = settle(told)
    assert status["matchedEnginePods"] == 0
    assert "engineSelectorMessage" not in status
    assert reasons == ["AwaitingFirstKVEvent"]


def test_every_time_nothing_matches_any_more_is_told_once() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    assert "EngineSelectorUnmatched" in settle(told)[1]
    for _ in range(2):
        told.seen(core.PODS, engine("e0"))
        assert settle(told)[1] == []
        told.gone(core.PODS, "ml", "e0")
        assert settle(told)[1] == ["EngineSelectorUnmatched"]


def test_fail_closed_is_loud_and_comes_back() -> None:
    told = teller()
    told.seen(KEY.kind, backend(integration={"failOpen": False}))
    status, reasons = settle(told)
    assert status["failOpen"] is False
    assert "FailClosedEnabled" in reasons
    told.seen(KEY.kind, {**backend(generation=2), "status": status})
    assert settle(told)[1] == ["FailOpenRestored"]


KERNELS = {
    "OK": ("True", "KernelsHealthy"),
    "FAIL: libcudart.so.13": ("False", "KernelLoadFailed"),
    "": ("Unknown", "KernelCheckError"),
}


@pytest.mark.parametrize("message", KERNELS)
@pytest.mark.parametrize("mode", ["report-only", "strict"])
def test_kernels_are_told_and_gate_only_when_strict(message: str, mode: str) -> None:
    told = teller()
    off = {names.REQUIRE_KV_EVENTS: "false", names.KERNEL_CHECK: mode}
    told.seen(KEY.kind, backend(annotations=off))
    state = {"terminated": {"message": message, "exitCode": 0}}
    told.seen(core.PODS, engine("e0", initContainerStatuses=[{"name": names.KERNEL_CHECK_CONTAINER, "state": state}]))
    status, _ = settle(told)
    assert condition(status, "EngineKernelsHealthy") == KERNELS[message]
    gated = mode == "strict" and message.startswith("FAIL")
    assert condition(status, "Ready") == (("False", "EngineKernelDegraded") if gated else ("True", "HostOnlyActive"))


def test_a_wired_engine_that_crash_loops_is_told_once() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    stuck = [{"name": "vllm", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    told.seen(core.PODS, engine("e0", containerStatuses=stuck))
    status, reasons = settle(told)
    assert condition(status, "EngineCompatibility") == ("False", "InjectedEngineCrashLooping")
    assert reasons.count("InjectedEngineCrashLooping") == 1
    told.seen(core.PODS, engine("e0"))
    assert condition(settle(told)[0], "EngineCompatibility") is None


def rolled_world() -> Teller:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    told.seen(core.DEPLOYMENTS, deployment(name="engine", owner=[]))
    owner = [{"kind": "Deployment", "name": "engine", "uid": "uid-engine", "controller": True}]
    told.seen(core.REPLICA_SETS, {"metadata": {"name": "rs", "namespace": "ml", "ownerReferences": owner}})
    told.seen(
        core.PODS, engine("e0", owner=[{"kind": "ReplicaSet", "name": "rs", "uid": "uid-rs", "controller": True}])
    )
    return told


def server(name: str, restarts: int = 0) -> dict[str, Any]:
    labels = providers.selector(cachebackend.CacheBackend(metadata=cachebackend.Metadata(name="kv", namespace="ml")))
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "lmcache-server", "restartCount": restarts}, {"name": "mesh", "restartCount": 40},
        ],
    }  # fmt: skip
    return {"metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}, "status": status}


def patches(told: Teller) -> list[Patch]:
    return [one for one in look(told).intents if isinstance(one, Patch)]


def test_engines_are_rolled_when_their_server_was_replaced() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0"
    assert patches(told) == []
    told.seen(core.PODS, server("s0", restarts=1))
    (patch,) = patches(told)
    assert patch.key == Key(core.DEPLOYMENTS, "ml", "engine")
    trigger = patch.patch["spec"]["template"]["metadata"]["annotations"]
    assert trigger == {names.RESTART_TRIGGER: "uid-s0:1"}
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:1"


def test_no_ready_server_keeps_what_was_known() -> None:
    told = rolled_world()
    told.seen(core.PODS, server("s0"))
    settle(told)
    told.gone(core.PODS, "ml", "s0")
    assert settle(told)[0]["observedServerInstance"] == "uid-s0:0"
    told.seen(core.PODS, server("s1"))
    assert len(patches(told)) == 1


# Which events concern which keys --------------------------------------------------------------------------------------


def test_concerns_names_every_key_that_an_event_may_change() -> None:
    told = teller()
    seen = told.seen(KEY.kind, backend())
    assert list(SYSTEM.concerns(seen, told.world)) == [KEY]
    pod = told.seen(core.PODS, engine("e0"))
    assert list(SYSTEM.concerns(pod, told.world)) == [KEY, Key(core.PODS, "ml", "e0")]
    assert list(SYSTEM.concerns(told.replica("ml", "e0", "first-event"), told.world)) == [KEY]
    assert list(SYSTEM.concerns(told.replica("other", "e0", "first-event"), told.world)) == []
    fired = events.TimerFired(handler="cachebackend", key=str(KEY), due_ns=1, epoch=1)
    assert list(SYSTEM.concerns(told.tell(subjects.timer_subject("cachebackend"), fired), told.world)) == [KEY]
    assert list(SYSTEM.concerns(told.gone(KEY.kind, "ml", "kv"), told.world)) == [KEY]
    assert SYSTEM.desired(Reader(told.world), KEY).intents == ()


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ({names.INJECTED_BY: "ml/kv", names.INJECTED_BY_UID: "uid-kv"}, "InjectedByCacheBackend"),
        ({names.INJECTED_BY: "ml/kv"}, None),
        ({names.INJECTED_BY: "ml/kv", names.INJECTED_BY_UID: "forged"}, None),
        ({names.INJECTED_BY: "other/kv", names.INJECTED_BY_UID: "uid-kv"}, None),
        ({names.SKIP_INJECT: "true", names.INJECT_SKIPPED: "skip-inject-annotation"}, "SkippedByOperator"),
        ({names.SKIP_INJECT: "true"}, None),
        ({names.INJECT_SKIPPED: "skip-inject-annotation"}, None),
    ],
)
def test_a_pod_s_event_needs_marks_that_are_true(marks: dict[str, str], reason: str | None) -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    pod = engine("e0", wired=False)
    pod["metadata"]["annotations"] = marks
    told.seen(core.PODS, pod)
    key = Key(core.PODS, "ml", "e0")
    first = told.carry_out(key, SYSTEM.desired(Reader(told.world), key))
    assert first == ([reason] if reason else [])
    assert told.carry_out(key, SYSTEM.desired(Reader(told.world), key)) == []


def test_a_stored_backend_that_no_longer_decodes_breaks_nothing() -> None:
    told = teller()
    document = backend()
    document["spec"]["replicas"] = "three"
    told.seen(KEY.kind, document)
    assert look(told) == Outcome()
    assert isinstance(told.world, World)


def test_an_observation_from_before_our_write_does_not_undo_it() -> None:
    """The API server changed the object, then our status was written, then a watch told of the first change."""
    told = teller()
    told.seen(KEY.kind, backend())
    status, _ = settle(told)
    older = {**backend(), "metadata": {**backend()["metadata"], "labels": {"team": "a"}}}
    told.versions = 0  # the next observation carries an older resource version
    told.seen(KEY.kind, older)
    assert Reader(told.world).status(KEY, {}) == status
    assert settle(told)[1] == []


def test_a_status_that_came_back_from_the_api_server_is_not_written_again() -> None:
    """It comes back narrowed: fields that are empty are left out."""
    told = teller()
    told.seen(KEY.kind, backend())
    status, _ = settle(told)
    kept = [{k: v for k, v in one.items() if v != ""} for one in status["conditions"]]
    told.versions += 1
    told.seen(KEY.kind, {**backend(), "status": {**status, "conditions": kept}})
    assert not any(isinstance(one, Status) for one in look(told).intents)
