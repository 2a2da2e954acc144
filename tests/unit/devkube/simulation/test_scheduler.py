"""Which node a Pod fits on, and why not."""

from fractions import Fraction
from typing import Any

import pytest

from devkube.builtin.scalars import quantity_value
from devkube.simulation.scheduler import Room, chosen, fault, requests


def node(**more: Any) -> Any:
    conditions = [{"type": "Ready", "status": more.pop("ready", "True")}]
    meta = {"name": "n", "labels": {"zone": "a", "cores": "16"}}
    return {"metadata": meta, "spec": more, "status": {"conditions": conditions}}


def room(obj: Any = None, **free: str) -> Room:
    free = {"cpu": "4", "memory": "8Gi", "pods": "2", **free}
    return Room(obj or node(), {key: Fraction(quantity_value(value)) for key, value in free.items()})


def pod(*containers: Any, **spec: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {**spec, "containers": list(containers) or [{"name": "c"}]}}


def asks(**amounts: str) -> Any:
    return {"name": "c", "resources": {"requests": amounts}}


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
    ("spec", "good"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
    ],
)
def test_selectors_and_affinity(spec: Any, good: bool) -> None:
    assert chosen(spec, node()) is good


def test_what_a_pod_asks_for() -> None:
    side = {**asks(cpu="1"), "restartPolicy": "Always"}
    inits = [asks(cpu="2"), side, asks(memory="1Gi")]
    found = requests(pod(asks(cpu="500m"), asks(cpu="250m"), initContainers=inits))
    assert found == {"cpu": Fraction(2), "memory": 2**30}


def test_a_cordon_keeps_pods_away() -> None:
    assert fault(pod(), room(node(unschedulable=True))) == "node(s) were unschedulable"
