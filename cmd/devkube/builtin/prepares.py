"""What a kind's strategy derives before an object is checked: first statuses, selectors of Jobs, data of Secrets.

Rule: upstream's `pkg/registry/*/strategy.go` (PrepareForCreate, PrepareForUpdate). By then the object has its uid.
"""

from collections.abc import Mapping
from typing import Any

from devkube.builtin.others import secret_data
from devkube.builtin.rules import Prepare
from devkube.builtin.scalars import quantity_value
from devkube.kinds import Object

_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
# What upstream writes of a status that nobody has told anything yet: fields without omitempty.
STATUS: Mapping[str, dict[str, Any]] = {
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "ReplicaSet": {"replicas": 0},
    "ReplicationController": {"replicas": 0},
    "DaemonSet": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "Deployment": {},
    "Job": {},
    "ResourceQuota": {},
    "CronJob": {},
    "Service": {"loadBalancer": {}},
    "Ingress": {"loadBalancer": {}},
    "Namespace": {"phase": "Active"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "PersistentVolume": {"phase": "Pending"},
    "PodDisruptionBudget": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    "HorizontalPodAutoscaler": {"currentMetrics": None, "desiredReplicas": 0},
}


def status(kind: str) -> Prepare:
    def prepare(new: Object, old: Object | None, subresource: str) -> None:
        if old is None:
            new["status"] = {**STATUS[kind], **(new.get("status") or {})}

    return prepare


def pod(new: Object, old: Object | None, subresource: str) -> None:
    if old is None:
        new["status"] = {"phase": "Pending", "qosClass": qos(new["spec"])}
        if new["spec"].get("schedulingGates"):
            condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            condition["message"] = "Scheduling is blocked due to non-empty scheduling gates"
            new["status"]["conditions"] = [condition]


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


PREPARES: Mapping[str, tuple[Prepare, ...]] = {
    **{kind: (status(kind),) for kind in STATUS},
    "Pod": (pod,),
    "Job": (job,),
    "Namespace": (status("Namespace"), namespace),
    "Secret": (secret_data,),
}
