"""One Pod on its node, second by second, what annotations tell of it, and the status that tells of it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.simulation.client import condition, conditions, stamp
from devkube.simulation.life import BRIEF, Container, Life, backoff, faults
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
        self.pod, self.life = obj, Life(obj, set(), 1.0, "10.244.0.2", NOW)

    def at(self, seconds: float) -> Any:
        self.life.advance(self.pod, NOW + seconds)
        self.pod = {**self.pod, "status": render(self.pod, self.life, "172.18.0.1", NOW + seconds)}
        return self.pod["status"]

    def reasons(self, seconds: float) -> list[str]:
        self.life.happened = []
        self.at(seconds)
        return [reason for _, reason, *_ in self.life.happened]

    @property
    def main(self) -> Container:
        return self.life.mains[0]

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
    told.at(0)
    assert states(told.at(2), "initContainerStatuses") == ["running", "PodInitializing"]
    assert told.condition("Initialized") == ("False", "ContainersNotInitialized")
    assert states(told.at(4.2), "initContainerStatuses") == ["Completed", "running"]
    status = told.at(10)
    assert states(status, "initContainerStatuses") == ["Completed", "Completed"]
    assert (status["phase"], states(status)) == ("Running", ["running"])
    # a: pull 1, run 3; b: run 0.5; then main: nobody had to look in between.
    assert status["containerStatuses"][0]["state"]["running"]["startedAt"] == stamp(NOW + 4.5)


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
    assert told.life.due == math.inf


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


def test_what_others_wrote_is_kept_and_times_move_with_the_status_only() -> None:
    mine = {"type": "mine", "status": "True", "lastTransitionTime": "t0"}
    assert condition({"status": {"conditions": [{}, mine]}}, mine["type"]) == mine, "one without a type is none"
    obj: Any = {"status": {"conditions": [mine]}}
    for now, status, since in (("t1", "True", "t1"), ("t2", "True", "t1"), ("t3", "False", "t3")):
        new = {"type": "Ready", "status": status, "reason": now}
        obj["status"]["conditions"] = conditions(obj, now, new)
        assert obj["status"]["conditions"] == [mine, {**new, "lastTransitionTime": since}]


def test_it_is_pulled_and_started_when_the_pull_is_over() -> None:
    told = Told(pod(annotations={"devkube.io/pull-seconds": "2"}))
    assert told.reasons(0) == ["Pulling"]
    assert told.life.due == NOW + 2
    assert told.reasons(1.9) == []
    assert told.reasons(2) == ["Pulled", "Created", "Started"]
    assert told.life.due == math.inf


def test_an_image_that_is_there_is_not_pulled() -> None:
    obj = pod()
    told = Told(obj)
    told.life = Life(obj, {"i:1"}, 1.0, "10.244.0.2", NOW)
    assert told.reasons(0) == ["Pulled", "Created", "Started"]


def test_failed_pulls_wait_longer_and_longer() -> None:
    told = Told(pod(annotations={"devkube.io/pull-error": "denied"}))
    told.at(0)
    assert told.reasons(1) == ["Failed"]
    assert states(told.pod["status"]) == ["ImagePullBackOff"]
    assert "denied" in told.pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert told.reasons(11) == ["Pulling"]
    assert told.reasons(12) == ["Failed"]
    assert told.life.due == NOW + 32  # 20 s after the second
    told.pod["metadata"]["annotations"] = {}
    assert told.reasons(40) == ["Pulling", "Pulled", "Created", "Started"]


def test_an_hour_at_once_is_an_hour_in_small_steps() -> None:
    marks = {"devkube.io/run-seconds": "2", "devkube.io/exit-code": "1"}
    leap, walk = Told(pod(annotations=marks)), Told(pod(annotations=marks))
    leap.at(0)
    leap.at(3700)
    for now in range(3701):
        walk.at(now)
    assert leap.main == walk.main
    assert leap.main.restarts > 10


@given(st.lists(st.floats(0.01, 50), max_size=30), st.floats(0, 5), st.integers(0, 1))
def test_how_often_somebody_looks_changes_nothing(steps: list[float], run: float, code: int) -> None:
    marks = {"devkube.io/run-seconds": str(run), "devkube.io/exit-code": str(code)}
    leap, walk = (Told(pod(annotations=marks, restart="OnFailure")) for _ in range(2))
    now = 0.0
    leap.at(0)
    walk.at(0)
    for step in steps:
        now += step
        walk.at(now)
        assert walk.life.due > NOW + now
    leap.at(now)
    assert walk.main == leap.main


@pytest.mark.parametrize(
    ("restart", "code", "restarts"),
    [("Always", 0, 1), ("Always", 1, 1), ("OnFailure", 0, 0), ("OnFailure", 1, 1), ("Never", 1, 0)],
)
def test_who_is_started_again(restart: str, code: int, restarts: int) -> None:
    told = Told(pod(annotations={"devkube.io/run-seconds": "5", "devkube.io/exit-code": str(code)}, restart=restart))
    told.at(0)
    told.at(7)
    assert told.main.restarts == restarts


def test_delays_are_upstreams() -> None:
    assert [backoff(n) for n in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_probes_that_wait_are_waited_for() -> None:
    told = Told(pod({"name": "main", "readinessProbe": {"initialDelaySeconds": 7}}))
    told.at(0)
    told.at(1)
    assert told.condition("Ready")[0] == "False"
    assert told.life.due == NOW + 8
    told.at(8)
    assert told.condition("Ready")[0] == "True"


def test_containers_of_jobs_end_by_themselves() -> None:
    obj = pod(restart="Never")
    obj["metadata"]["ownerReferences"] = [{"kind": "Job"}]
    told = Told(obj)
    told.at(0)
    assert told.at(1 + BRIEF)["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ready-seconds", "soon", "neither a number"),
        ("ready-seconds", "-1", "neither a number"),
        ("pull-seconds.main", "nan", "neither a number"),
        ("exitcode", "1", "is unknown"),
    ],
)
def test_annotations_that_make_no_sense(key: str, value: str, said: str) -> None:
    (only,) = faults(pod(annotations={f"devkube.io/{key}": value, "example.com/x": "1", "devkube.io/pod-ip": "::1"}))
    assert said in only
    assert key in only
    told = Told(pod(annotations={f"devkube.io/{key}": value}))  # as if it were not there
    told.at(0)
    told.at(1)
    assert told.condition("Ready") == ("True", "")
