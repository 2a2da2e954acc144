"""Which node a Pod fits on, and why not."""

from fractions import Fraction
from typing import Any

import pytest

from devkube.custom import quantity
from devkube.simulation.scheduler import Room, chosen, fault, requests, tolerated

CPU = "node(s) didn't match Pod's node affinity/selector"


def node(**more: Any) -> Any:
    conditions = [{"type": "Ready", "status": more.pop("ready", "True")}]
    meta = {"name": "n", "labels": {"zone": "a", "cores": "16"}}
    return {"metadata": meta, "spec": more, "status": {"conditions": conditions}}


def room(obj: Any = None, **free: str) -> Room:
    free = {"cpu": "4", "memory": "8Gi", "pods": "2", **free}
    return Room(obj or node(), {key: quantity.parse(value) for key, value in free.items()})


def pod(*containers: Any, **spec: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {**spec, "containers": list(containers) or [{"name": "c"}]}}


def asks(**amounts: str) -> Any:
    return {"name": "c", "resources": {"requests": amounts}}


def port(number: int, **more: Any) -> Any:
    return {"name": "c", "ports": [{"containerPort": number, "hostPort": number, **more}]}


def test_room_is_taken() -> None:
    here = room()
    assert fault(pod(asks(cpu="3")), here) == ""
    here.take(pod(asks(cpu="3")))
    assert fault(pod(asks(cpu="1500m")), here) == "Insufficient cpu"
    assert fault(pod(asks(cpu="1")), here) == ""
    here.take(pod())
    assert fault(pod(), here) == "Too many pods"
    assert fault(pod(asks(**{"nvidia.com/gpu": "1"})), room()) == "Insufficient nvidia.com/gpu"


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80), port(80, protocol="UDP"), False),
        (port(80, hostIP="10.0.0.1"), port(80, hostIP="10.0.0.2"), False),
        (port(80, hostIP="10.0.0.1"), port(80), True),
    ],
)
def test_host_ports(first: Any, second: Any, conflict: bool) -> None:
    here = room()
    here.take(pod(first))
    assert ("free ports" in fault(pod(second), here)) == conflict


def test_nodes_in_trouble() -> None:
    assert fault(pod(), room(node(ready="False"))) == "node(s) were not ready"
    cordoned = room(node(unschedulable=True))
    assert fault(pod(), cordoned) == "node(s) were unschedulable"
    brave = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert fault(pod(tolerations=brave), cordoned) == ""
    tainted = room(node(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]))
    assert fault(pod(), tainted) == "node(s) had untolerated taint {gpu: yes}"


@pytest.mark.parametrize(
    ("toleration", "good"),
    [
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_tolerations(toleration: Any, good: bool) -> None:
    assert tolerated({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, [toleration]) is good


def affinity(*terms: Any) -> Any:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def one(key: str, operator: str, *values: str) -> Any:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("spec", "good"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity({"matchExpressions": [one("zone", "In", "a", "b")]}), True),
        (affinity({"matchExpressions": [one("zone", "NotIn", "a")]}), False),
        (affinity({"matchExpressions": [one("zone", "DoesNotExist")]}), False),
        (affinity({"matchExpressions": [one("cores", "Gt", "8"), one("cores", "Lt", "32")]}), True),
        (affinity({"matchExpressions": [one("zone", "Gt", "8")]}), False),
        (affinity({"matchFields": [one("metadata.name", "In", "n")]}), True),
        (
            affinity({"matchFields": [one("metadata.name", "In", "m")]}, {"matchExpressions": [one("zone", "Exists")]}),
            True,
        ),
        (affinity({}), False),
    ],
)
def test_selectors_and_affinity(spec: Any, good: bool) -> None:
    assert chosen(spec, node()) is good


def test_what_a_pod_asks_for() -> None:
    side = {**asks(cpu="1"), "restartPolicy": "Always"}
    inits = [asks(cpu="2"), side, asks(cpu="6", memory="1Gi")]
    found = requests(pod(asks(cpu="500m"), asks(cpu="250m"), initContainers=inits, overhead={"cpu": "100m"}))
    # The last init container runs beside the sidecar: 7; the containers beside it need 1.75.
    assert found == {"cpu": Fraction(71, 10), "memory": 2**30}
