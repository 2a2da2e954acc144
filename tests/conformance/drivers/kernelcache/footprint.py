"""Area footprint: what two workloads share, from handlers/kernelcache/identity.py."""

from typing import Any

from handlers.kernelcache import identity
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "a", "b")
    one, other = (found(given[name]).footprints for name in ("a", "b"))
    return {
        "compatibilityMatch": bool(one.compatibility_footprint)
        and one.compatibility_footprint == other.compatibility_footprint,
        "workloadMatch": bool(one.workload_footprint) and one.workload_footprint == other.workload_footprint,
    }


def found(workload: dict[str, Any]) -> identity.Identity:
    forms.only(workload, "namespace", "workloadKind", "workloadName", "image", "modelURI", "command", "args", "env")
    container = {
        "name": "kserve-container",
        "image": workload["image"],
        "command": workload["command"],
        "args": workload["args"],
        "env": [{"name": name, "value": value} for name, value in workload["env"].items()],
    }
    made = identity.of_container(
        container,
        namespace=workload["namespace"],
        kind=workload["workloadKind"],
        name=workload["workloadName"],
        uri=workload["modelURI"],
    )
    assert not made.missing
    return made
