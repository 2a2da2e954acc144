"""What a status shows in each mode, what it leaves out, and what a change of mode does to its latches."""

from typing import Any

import pytest

from crds import core
from handlers.cachebackend import names, readiness
from handlers.cachebackend.narrate import of_readiness
from tests.support.backends import (
    KEY,
    MANAGED,
    backend,
    change,
    condition,
    deployment,
    engine,
    owned_by,
    service,
    settle,
    teller,
)
from tests.support.worlds import Teller

EXTERNAL = {
    "remoteStorage": {"provider": "LMCacheServer", "ownership": "External", "endpoint": " lm://c.example:8200 "}
}
STATES = {"Ready", "Degraded", "Progressing"}
ENGINE_SIDE = {"EngineKernelsHealthy", "EngineCompatibility"}

#: mode -> (spec, conditions that it shows when engines crash, checks fail and the remote tier answers nothing)
MODES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "Managed": (MANAGED, STATES | ENGINE_SIDE | {"T2Degraded"}),
    "HostOnly": ({}, STATES | ENGINE_SIDE),
    "EventsOnly": ({"integration": {"mode": "EventsOnly"}}, STATES),
    "External": (EXTERNAL, {"Ready", "Progressing"}),
    "HiCache": ({"runtime": "SGLang", "type": "SGLangHiCache", "hiCache": {"ratio": "2"}}, set()),
    "StatefulSet": ({**MANAGED, "deploymentKind": "StatefulSet"}, set()),
    "a pair without an adapter": ({"type": "SGLangHiCache"}, set()),
    "a tier that the pair does not speak": ({"remoteStorage": {"provider": "Redis", "ownership": "Managed"}}, set()),
    "an external tier that the pair does not speak": (
        {"remoteStorage": {"provider": "Redis", "ownership": "External", "endpoint": "r:1"}}, set(),
    ),
    "EventsOnly without an adapter": (
        {"type": "SGLangHiCache", "runtime": "VLLM", "integration": {"mode": "EventsOnly"}}, set(),
    ),
}  # fmt: skip


def troubled() -> Teller:
    """Engines that crash, whose kernels do not load, whose remote tier answered nothing."""
    told = teller()
    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    check = [{"name": names.KERNEL_CHECK_CONTAINER, "state": {"terminated": {"message": "FAIL: x"}}}]
    crash = [{"name": "vllm", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    told.seen(core.PODS, engine("e0", initContainerStatuses=check, containerStatuses=crash))
    told.replica("ml", "e0", "first-event", blocks=3, statistics={"t2_query_tokens": 9.0, "t2_hit_tokens": 0.0})
    return told


def kinds(status: dict[str, Any]) -> set[str]:
    return {one["type"] for one in status.get("conditions", [])}


@pytest.mark.parametrize("mode", MODES)
def test_the_conditions_of_a_mode_are_exactly_these(mode: str) -> None:
    spec, wanted = MODES[mode]
    told = troubled()
    told.seen(KEY.kind, backend(**spec))
    assert kinds(settle(told)[0]) == wanted


@pytest.mark.parametrize("before", MODES)
@pytest.mark.parametrize("after", ["Managed", "EventsOnly", "External", "HiCache"])
def test_no_condition_of_an_earlier_mode_stays(before: str, after: str) -> None:
    told = troubled()
    told.seen(KEY.kind, backend(**MODES[before][0]))
    settle(told)
    change(told, 2, **MODES[after][0])
    status, _ = settle(told)
    assert kinds(status) == MODES[after][1]
    assert status["observedGeneration"] == 2
    assert ("endpoint" in status) == (after in ("Managed", "External"))
    assert ("firstAvailableAt" in status) == (after != "HiCache") or after == "External"


def test_an_external_tier_shows_its_endpoint_trimmed_and_sets_no_latch() -> None:
    told = troubled()
    told.seen(KEY.kind, backend(**EXTERNAL))
    status, reasons = settle(told)
    assert status["endpoint"] == "lm://c.example:8200"
    assert condition(status, "Ready") == ("True", "ExternalEndpointAccepted")
    assert condition(status, "Progressing") == ("False", "ExternalEndpointAccepted")
    assert status["indexParticipation"]["prefixCount"] == 3
    assert "firstKVEventObservedAt" not in status
    assert reasons == []


def test_what_was_ever_seen_stays_seen_through_a_mode_without_a_gate() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    told.seen(core.PODS, engine("e0"))
    told.replica("ml", "e0", "first-event", blocks=3)
    first = settle(told)[0]["firstKVEventObservedAt"]
    told.gone(core.PODS, "ml", "e0")
    for generation, spec in enumerate((EXTERNAL, MODES["HiCache"][0], {}), start=2):
        change(told, generation, **spec)
        status, reasons = settle(told)
        assert status["firstKVEventObservedAt"] == first
        assert "KVEventsObserved" not in reasons
    assert condition(status, "Ready") == ("True", "KVEventsObserved")


def test_a_drained_backend_forgets_all_but_that_it_took_part() -> None:
    told = troubled()
    told.seen(KEY.kind, backend(**MANAGED))
    assert settle(told)[0]["indexParticipation"] == {
        "prefixCount": 3, "lastEventAt": settle(told)[0]["firstKVEventObservedAt"], "t2HitRate": "0",
    }  # fmt: skip
    told.gone(core.PODS, "ml", "e0")
    status, _ = settle(told)
    assert status["indexParticipation"] == {"prefixCount": 0}
    assert condition(status, "T2Degraded") is None
    assert condition(status, "Ready") == ("True", "KVEventsObserved")


def test_a_flip_to_events_only_waits_anew_and_an_unmanaged_time_ends_the_wait() -> None:
    told = teller()
    told.seen(core.SERVICES, service())
    told.seen(core.DEPLOYMENTS, deployment())
    told.seen(KEY.kind, backend(**MANAGED))
    settle(told)
    told.passed(400)
    assert condition(settle(told)[0], "Ready") == ("False", "NoKVEventsObserved")
    change(told, 2, integration={"mode": "EventsOnly"})
    status, reasons = settle(told)
    assert condition(status, "Ready") == ("False", "AwaitingFirstKVEvent")
    assert reasons[-1] == "AwaitingFirstKVEvent"
    began = status["firstAvailableAt"]
    told.passed(299)
    assert settle(told)[0]["firstAvailableAt"] == began  # the flip counts once
    told.passed(10)
    assert condition(settle(told)[0], "Degraded") == ("True", "NoKVEventsObserved")
    change(told, 3, **MODES["StatefulSet"][0])
    assert "firstAvailableAt" not in settle(told)[0]
    change(told, 4)
    assert condition(settle(told)[0], "Ready") == ("False", "AwaitingFirstKVEvent")


@pytest.mark.parametrize(
    ("crashing", "told_of"),
    [("vllm", True), ("istio-proxy", False), (names.SUBSCRIBER, False)],
)
def test_only_the_engine_s_own_container_crash_loops(crashing: str, told_of: bool) -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    statuses = [
        {"name": name, "state": {"waiting": {"reason": "CrashLoopBackOff"}} if name == crashing else {}}
        for name in ("vllm", "istio-proxy", names.SUBSCRIBER)
    ]
    told.seen(core.PODS, engine("e0", containerStatuses=statuses))
    assert (condition(settle(told)[0], "EngineCompatibility") is not None) == told_of


def test_the_only_container_beside_the_subscriber_is_the_engine() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    statuses = [
        {"name": "mine", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}, {"name": names.SUBSCRIBER, "state": {}},
    ]  # fmt: skip
    told.seen(core.PODS, engine("e0", containerStatuses=statuses))
    assert condition(settle(told)[0], "EngineCompatibility") == ("False", "InjectedEngineCrashLooping")


def test_kernels_of_pods_that_the_selector_does_not_match_do_not_count() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    check = [{"name": names.KERNEL_CHECK_CONTAINER, "state": {"terminated": {"message": "FAIL: x", "exitCode": 1}}}]
    other = engine("e0", initContainerStatuses=check)
    other["metadata"]["labels"] = {"serve": "other"}
    told.seen(core.PODS, other)
    told.seen(core.PODS, engine("e1", wired=False, initContainerStatuses=check))
    assert condition(settle(told)[0], "EngineKernelsHealthy") is None


def test_a_foreign_deployment_of_the_name_is_named() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.DEPLOYMENTS, deployment(owner=owned_by("X", "other")))
    status, _ = settle(told)
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert "somebody else" in ready["message"]


def test_a_tier_behind_somebody_else_s_service_is_not_ready() -> None:
    told = teller()
    told.seen(KEY.kind, backend(**MANAGED))
    told.seen(core.DEPLOYMENTS, deployment())
    told.seen(core.SERVICES, service(owner=[]))
    status, _ = settle(told)
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "RolloutInProgress")
    assert ready["message"] == "a Service of this name belongs to somebody else; it is left alone"


def test_more_replicas_are_waited_for_from_the_moment_they_are_asked_for() -> None:
    told = teller()
    told.seen(core.DEPLOYMENTS, deployment())
    told.seen(KEY.kind, backend(**MANAGED, replicas=3))
    assert condition(settle(told)[0], "Ready") == ("False", "RolloutInProgress")


def test_the_selector_is_echoed_in_order() -> None:
    told = teller()
    told.seen(KEY.kind, backend(engineSelector={"matchLabels": {"b": "2", "a": "1"}}))
    assert settle(told)[0]["engineSelectorMessage"].startswith("spec.engineSelector.matchLabels={a:1,b:2}")


def test_a_selector_that_claims_nothing_has_no_count() -> None:
    told = teller()
    told.seen(KEY.kind, backend())
    assert settle(told)[0]["matchedEnginePods"] == 0
    for generation, selector in enumerate(({"matchLabels": {}}, {}), start=2):
        change(told, generation, engineSelector=selector)
        status, _ = settle(told)
        assert "matchedEnginePods" not in status
        assert "engineSelectorMessage" not in status


#: Whose replica it is: the mark, else the first by name that selects the Pod.
OWNERS = {
    "marked": ({names.INJECTED_BY: "ml/zz"}, {"serve": "qwen"}, "zz"),
    "marked without a selector that matches": ({names.INJECTED_BY: "ml/zz"}, {}, "zz"),
    "marked by one that is gone": ({names.INJECTED_BY: "ml/gone"}, {"serve": "qwen"}, ""),
    "marked from another namespace": ({names.INJECTED_BY: "other/zz"}, {"serve": "qwen"}, "kv"),
    "not marked": ({}, {"serve": "qwen"}, "kv"),
    "nobody's": ({}, {"serve": "else"}, ""),
}


@pytest.mark.parametrize("case", OWNERS)
def test_a_replica_is_attributed_to_one_backend(case: str) -> None:
    marks, labels, owner = OWNERS[case]
    told = teller()
    for name in ("kv", "zz"):
        document = backend()
        document["metadata"] |= {"name": name}
        told.seen(KEY.kind, document)
    pod = engine("e0", wired=False)
    pod["metadata"] |= {"labels": labels, "annotations": marks}
    told.seen(core.PODS, pod)
    told.replica("ml", "e0", "first-event", blocks=5)
    for name in ("kv", "zz"):
        status, _ = settle(told, KEY._replace(name=name))
        assert status.get("indexParticipation", {}).get("prefixCount", 0) == (5 if name == owner else 0)


def test_silence_that_becomes_unavailability_is_not_told_as_a_new_degradation() -> None:
    gone = readiness.assess(
        readiness.Observed(mode="Managed", now=9, rollout=readiness.Rollout(1, 1, 0, 1, 1), first_available=1)
    )
    assert [one.reason for one in of_readiness("NoKVEventsObserved", None, gone)] == []
    assert [one.reason for one in of_readiness("BackendReady", None, gone)] == ["BackendDegraded"]
