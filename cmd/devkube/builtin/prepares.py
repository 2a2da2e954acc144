"""What a kind's strategy derives before an object is checked: first statuses, selectors of Jobs, data of Secrets, and
the addresses and node ports of Services (single stack, IPv4; what is given back is not noticed).

Rule: upstream's `pkg/registry/*/strategy.go` (PrepareForCreate, PrepareForUpdate). By then the object has its uid.
"""

import ipaddress
import itertools
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from devkube.builtin.rules import Prepare
from devkube.builtin.scalars import quantity_value
from devkube.kinds import Object

_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_RANGE, _NODE_PORTS = ipaddress.ip_network("10.96.0.0/12"), range(30000, 32768)
# What upstream writes of a status that nobody has told anything yet: fields without omitempty.
STATUS: Mapping[str, dict[str, Any]] = {
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "ReplicaSet": {"replicas": 0},
    "DaemonSet": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    "Deployment": {},
    "Service": {"loadBalancer": {}},
    "Namespace": {"phase": "Active"},
    "PersistentVolumeClaim": {"phase": "Pending"},
}


def status(kind: str) -> Prepare:
    def prepare(new: Object, old: Object | None, subresource: str) -> None:
        if old is None:
            new["status"] = {**STATUS[kind], **(new.get("status") or {})}

    return prepare


def pod(new: Object, old: Object | None, subresource: str) -> None:
    if old is None:
        new["status"] = {"phase": "Pending", "qosClass": qos(new["spec"])}


def qos(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory of all containers."""
    requested: list[Mapping[str, str]] = []
    limited: list[Mapping[str, str]] = []
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        found = container.get("resources") or {}
        for kind, into in (("requests", requested), ("limits", limited)):
            amounts = found.get(kind) or {}
            into.append({k: v for k, v in amounts.items() if k in ("cpu", "memory") and quantity_value(v) > 0})
    if not any(requested) and not any(limited):
        return "BestEffort"
    return "Guaranteed" if requested == limited and all(len(one) == 2 for one in limited) else "Burstable"


def job(new: Object, old: Object | None, subresource: str) -> None:
    """A Job selects its own Pods by its uid, unless it says that it brings a selector."""
    spec = new["spec"]
    if old is not None:
        return
    new["status"] = {}
    if spec.get("manualSelector"):
        return
    meta = new["metadata"]
    uid, name = meta.get("uid", ""), meta.get("name", "")
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update({"controller-uid": uid, _UID: uid, "job-name": name, _NAME: name})
    spec["selector"] = {"matchLabels": {_UID: uid}}
    meta["labels"] = meta.get("labels") or dict(labels)


def namespace(new: Object, old: Object | None, subresource: str) -> None:
    spec = new.setdefault("spec", {})
    if old is None:
        finalizers = spec.setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
    elif subresource != "finalize" and "finalizers" in (old.get("spec") or {}):
        spec["finalizers"] = list(old["spec"]["finalizers"])


def secret(new: Object, old: Object | None, subresource: str) -> None:
    """stringData becomes data; it is never stored."""
    for key, value in (new.pop("stringData", None) or {}).items():
        new.setdefault("data", {})[key] = b64encode(value.encode()).decode()


class Allocator:
    """Hands out addresses and node ports round and round; one per server."""

    def __init__(self) -> None:
        self._hosts = itertools.cycle(range(10, _RANGE.num_addresses - 1))
        self._ports = itertools.cycle(_NODE_PORTS)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        spec, before = new["spec"], (old or {}).get("spec") or {}
        if spec.get("type") == "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(key, None)
            return
        known = {port.get("port"): port.get("nodePort") for port in before.get("ports") or ()}
        address = spec.get("clusterIP") or before.get("clusterIP") or str(_RANGE[next(self._hosts)])
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        for port in spec.get("ports") or ():
            if spec.get("type") in ("NodePort", "LoadBalancer"):
                port["nodePort"] = port.get("nodePort") or known.get(port.get("port")) or next(self._ports)
            elif port.get("nodePort") == known.get(port.get("port")):
                port.pop("nodePort", None)  # of the type that it was


PREPARES: Mapping[str, tuple[Prepare, ...]] = {
    **{kind: (status(kind),) for kind in STATUS},
    "Pod": (pod,),
    "Job": (job,),
    "Namespace": (status("Namespace"), namespace),
    "Secret": (secret,),
}
