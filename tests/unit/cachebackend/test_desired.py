"""What should be for a CacheBackend, along the lives that one can have."""

import pytest

from crds import cachebackend, core
from eventstore import events, subjects
from handlers.cachebackend import names
from handlers.outcome import Apply, Delete, Key, Outcome, Status
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World
from tests.support.backends import (
    KEY,
    MANAGED,
    SYSTEM,
    backend,
    condition,
    deployment,
    engine,
    look,
    service,
    settle,
    teller,
)
from tests.support.worlds import Teller


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
    "OK, nearly": ("Unknown", "KernelCheckError"),
    "OK": ("True", "KernelsHealthy"),
    "FAIL: libcudart.so.13": ("False", "KernelLoadFailed"),
    "": ("Unknown", "KernelCheckError"),
}


@pytest.mark.parametrize("message", KERNELS)
@pytest.mark.parametrize("admitted", ["report-only", "strict"])
@pytest.mark.parametrize("now", ["report-only", "strict"])
def test_kernels_are_told_and_gate_where_the_pod_was_admitted_strict(message: str, admitted: str, now: str) -> None:
    """What the annotation says now counts for Pods to come. A strict check that fails is started over and over."""
    told = teller()
    told.seen(KEY.kind, backend(annotations={names.REQUIRE_KV_EVENTS: "false", names.KERNEL_CHECK: now}))
    strict = admitted == "strict" and message.startswith("FAIL")
    ended = {"terminated": {"message": message, "exitCode": int(strict)}}
    check = {"name": names.KERNEL_CHECK_CONTAINER, "state": ended}
    if strict:
        check |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    told.seen(core.PODS, engine("e0", initContainerStatuses=[check]))
    status, _ = settle(told)
    assert condition(status, "EngineKernelsHealthy") == KERNELS[message]
    assert condition(status, "Ready") == (("False", "EngineKernelDegraded") if strict else ("True", "HostOnlyActive"))
    assert condition(status, "Progressing") == ("False", "EngineKernelDegraded" if strict else "Synced")
    assert condition(status, "Degraded") == ("False", "NotDegraded")


def test_what_is_told_once_stays_told_while_a_strict_check_takes_ready_away() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    ended = {"terminated": {"message": "FAIL: no c_ops", "exitCode": 1}}
    check = [{"name": names.KERNEL_CHECK_CONTAINER, "state": ended}]
    told.seen(core.PODS, engine("e0", initContainerStatuses=check))
    settle(told)
    told.seen(core.PODS, engine("e1"))
    assert settle(told)[1] == []


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
