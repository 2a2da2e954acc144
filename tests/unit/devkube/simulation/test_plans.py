"""What annotations tell, and what is said of those that tell nothing."""

from typing import Any

import pytest

from devkube.simulation.plans import INIT_SECONDS, JOB_SECONDS, Plan, faults, plan


def told(annotations: Any = None, *, owner: str = "", init: bool = False, **container: Any) -> Plan:
    container = {"name": "main", "image": "i", "imagePullPolicy": "IfNotPresent", **container}
    meta: Any = {"annotations": annotations or {}}
    if owner:
        meta["ownerReferences"] = [{"kind": owner}]
    spec = {"restartPolicy": "Always", "containers": [container]}
    return plan({"metadata": meta, "spec": spec}, container, init=init, present=False, pull=3.0)


def test_without_annotations_all_is_well() -> None:
    found = told()
    assert (found.pull, found.run, found.ready, found.restart) == (3.0, None, 0.0, "Always")


def test_probes_that_wait_are_waited_for() -> None:
    assert told(readinessProbe={"initialDelaySeconds": 7}).ready == 7.0


def test_who_ends_by_itself() -> None:
    assert told(init=True).run == INIT_SECONDS
    assert told(init=True).restart == "OnFailure"
    assert told(init=True, restartPolicy="Always").run is None
    assert told(owner="Job").run == JOB_SECONDS
    assert told({"devkube.io/exit-code": "3"}).run is not None


def test_a_container_is_told_apart() -> None:
    assert told({"devkube.io/exit-code.main": "3", "devkube.io/exit-code": "0"}).code == 3
    assert told({"devkube.io/ready-seconds": "never"}).ready is None


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ready-seconds", "soon", "not seconds or never"),
        ("ready-seconds", "-1", "not seconds or never"),
        ("pull-seconds", "nan", "not seconds"),
        ("exit-code", "256", "not a number up to 255"),
        ("exit-code.other", "1", "names no container"),
        ("exitcode", "1", "is unknown"),
    ],
)
def test_annotations_that_make_no_sense(key: str, value: str, said: str) -> None:
    annotations = {f"devkube.io/{key}": value, "example.com/x": "1"}
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}]}}
    (only,) = faults(pod)
    assert said in only
    assert key in only
    assert told(annotations) == told({"devkube.io/exit-code": "x"})  # as if it were not there
