"""One Pod on its node, and the status that tells of it."""

from typing import Any

import pytest

from devkube.simulation.client import condition, set_condition, stamp
from devkube.simulation.lives import Image, Life
from devkube.simulation.podstatus import render

NOW = 1_800_000_000.0


def pod(*containers: Any, annotations: Any = None, init: Any = (), restart: str = "Always", **spec: Any) -> Any:
    def whole(one: Any) -> Any:
        return {"image": "i:1", "imagePullPolicy": "IfNotPresent", **one}

    spec |= {"restartPolicy": restart, "containers": [whole(one) for one in containers or ({"name": "main"},)]}
    if init:
        spec["initContainers"] = [whole(one) for one in init]
    meta = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}, "generation": 1}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}}


class Told:
    """A life and its Pod, brought up to some second."""

    def __init__(self, obj: Any) -> None:
        self.pod, self.life = obj, Life("u", NOW, "10.244.0.2")

    def at(self, seconds: float) -> Any:
        self.happened = self.life.advance(self.pod, Image(seconds=1.0), NOW + seconds)
        self.pod = {**self.pod, "status": render(self.pod, self.life, "172.18.0.1", NOW + seconds)}
        return self.pod["status"]

    def delete(self, seconds: float, grace: int) -> None:
        self.pod["metadata"]["deletionTimestamp"] = stamp(NOW + seconds + grace)
        self.pod["metadata"]["deletionGracePeriodSeconds"] = grace

    def condition(self, kind: str) -> tuple[str, str]:
        found = condition(self.pod, kind)
        return found["status"], found.get("reason", "")


def states(status: Any, key: str = "containerStatuses") -> list[str]:
    found = []
    for one in status[key]:
        ((kind, value),) = one["state"].items()
        found.append(value.get("reason") or kind)
    return found


def test_a_plain_pod() -> None:
    told = Told(pod())
    status = told.at(0)
    assert (status["phase"], states(status)) == ("Pending", ["ContainerCreating"])
    assert told.condition("Ready") == ("False", "ContainersNotReady")
    status = told.at(1)
    assert (status["phase"], states(status), status["qosClass"]) == ("Running", ["running"], "BestEffort")
    assert told.condition("Ready") == ("True", "")
    assert (status["podIP"], status["hostIP"], status["startTime"]) == ("10.244.0.2", "172.18.0.1", stamp(NOW))
    assert condition(told.pod, "Initialized")["lastTransitionTime"] == stamp(NOW)
    assert condition(told.pod, "Ready")["lastTransitionTime"] == stamp(NOW + 1)


def test_one_init_container_after_the_other() -> None:
    told = Told(pod(init=[{"name": "a"}, {"name": "b"}], annotations={"devkube.io/run-seconds.a": "3"}))
    assert states(told.at(2), "initContainerStatuses") == ["running", "PodInitializing"]
    assert told.condition("Initialized") == ("False", "ContainersNotInitialized")
    assert states(told.at(4.2), "initContainerStatuses") == ["Completed", "PodInitializing"]
    status = told.at(10)
    assert states(status, "initContainerStatuses") == ["Completed", "Completed"]
    assert (status["phase"], states(status)) == ("Running", ["running"])
    # a: pull 1, run 3; b: pull 1, run 0.5; then main pulls 1: nobody had to look in between.
    assert status["containerStatuses"][0]["state"]["running"]["startedAt"] == stamp(NOW + 6.5)


@pytest.mark.parametrize(("restart", "phase"), [("Never", "Failed"), ("Always", "Pending")])
def test_an_init_container_that_fails(restart: str, phase: str) -> None:
    status = Told(pod(init=[{"name": "a"}], annotations={"devkube.io/exit-code.a": "4"}, restart=restart)).at(30)
    assert status["phase"] == phase
    (one,) = status["initContainerStatuses"]
    end = one["state"].get("terminated") or one["lastState"]["terminated"]
    assert end["exitCode"] == 4
    assert states(status) == ["PodInitializing"]


def test_a_sidecar_holds_up_what_follows_until_it_started_and_ends_with_the_rest() -> None:
    side = {"name": "side", "restartPolicy": "Always"}
    annotations = {
        "devkube.io/pull-seconds.side": "6",
        "devkube.io/ready-seconds.side": "14",
        "devkube.io/exit-code.main": "0",
        "devkube.io/run-seconds.main": "30",
    }
    told = Told(pod(init=[side], annotations=annotations, restart="Never"))
    assert states(told.at(5)) == ["PodInitializing"]
    assert (states(told.at(8)), told.condition("Initialized")) == (["running"], ("True", ""))
    assert told.condition("Ready") == ("False", "ContainersNotReady")
    told.at(25)
    assert told.condition("Ready") == ("True", "")
    status = told.at(40)
    assert (status["phase"], states(status, "initContainerStatuses")) == ("Succeeded", ["Completed"])
    assert told.condition("Ready") == ("False", "PodCompleted")
    assert [one.reason for one in told.happened] == ["Killing"]
    assert told.life.due is None


def test_a_sidecar_that_crashes_later_stops_nothing() -> None:
    side = {"name": "side", "restartPolicy": "Always"}
    told = Told(pod(init=[side]))
    told.at(5)
    told.pod["metadata"]["annotations"] = {"devkube.io/exit-code.side": "1", "devkube.io/run-seconds.side": "1"}
    status = told.at(30)
    assert (status["phase"], states(status), states(status, "initContainerStatuses")) == (
        "Running",
        ["running"],
        ["CrashLoopBackOff"],
    )
    assert told.condition("Initialized") == ("True", "")
    assert told.condition("Ready") == ("False", "ContainersNotReady")


def test_one_of_two_containers_fails() -> None:
    annotations = {"devkube.io/exit-code": "0", "devkube.io/exit-code.b": "2"}
    told = Told(pod({"name": "a"}, {"name": "b"}, annotations=annotations, restart="Never"))
    status = told.at(5)
    assert (status["phase"], states(status)) == ("Failed", ["Completed", "Error"])
    assert told.condition("ContainersReady") == ("False", "PodFailed")


def test_grace_that_is_made_shorter() -> None:
    told = Told(pod(annotations={"devkube.io/stop-seconds": "100"}))
    told.at(1)
    told.delete(10, 60)
    told.at(10)
    assert (told.life.due, told.life.killed) == (NOW + 70, False)
    told.delete(10, 5)
    told.at(16)
    assert told.life.killed
    assert told.pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_what_others_wrote_is_kept_and_times_move_with_the_status_only() -> None:
    conditions = [{"type": "mine", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    set_condition(conditions, {"type": "Ready", "status": "True", "reason": ""}, "t1")
    set_condition(conditions, {"type": "Ready", "status": "True", "reason": "x"}, "t2")
    assert conditions[1] == {"type": "Ready", "status": "True", "reason": "x", "lastTransitionTime": "t1"}
    set_condition(conditions, {"type": "Ready", "status": "False"}, "t3")
    assert conditions[1] == {"type": "Ready", "status": "False", "lastTransitionTime": "t3"}
    told = Told(pod())
    told.pod["status"]["conditions"] = conditions
    assert conditions[0] in told.at(5)["conditions"]
