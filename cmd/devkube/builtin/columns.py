"""What `kubectl get` and `-o wide` show of the kinds that people look at; any other shows its age.

Rule: upstream's `pkg/printers/internalversion`. The leading Name is put in by `tables`, but for Events, which bring
their own at the end. A column of priority 1 is shown with `-o wide` only.
"""

from collections.abc import Callable, Mapping
from typing import Any

from devkube.builtin.podcells import condition, since, summary
from devkube.kinds import Column, Object
from devkube.selectors import selector_text

Row = tuple[str, str, int, Callable[[Object, float], Any]]  # name, type, priority, cell
NONE = "<none>"
AGE: Row = ("Age", "string", 0, lambda obj, now: since(get(obj, "metadata.creationTimestamp"), now))


def get(obj: Any, path: str, default: Any = None) -> Any:
    for key in path.split("."):
        obj = obj.get(key) if isinstance(obj, dict) else None
    return default if obj is None else obj


def text(name: str, path: str, default: str = "", wide: int = 0) -> Row:
    return name, "string", wide, lambda obj, now: str(get(obj, path) or default)


def number(name: str, path: str) -> Row:
    return name, "integer", 0, lambda obj, now: get(obj, path, 0)


def told(name: str, cell: Callable[[Object], Any], wide: int = 0) -> Row:
    return name, "string", wide, lambda obj, now: cell(obj)


def count(name: str, *fields: str) -> Row:
    return name, "integer", 0, lambda obj, now: sum(len(obj.get(field) or ()) for field in fields)


def listed(name: str, path: str, show: Callable[[Any], str], wide: int = 0) -> Row:
    return told(name, lambda obj: ",".join(map(show, get(obj, path, ()))) or NONE, wide)


def _restarts(pod: Object, now: float) -> str:
    _, _, number, last = summary(pod)
    return f"{number} ({since(last, now)} ago)" if number and last else str(number)


def _port(port: Mapping[str, Any]) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{outside}/{port.get('protocol')}"


def _job_status(obj: Object) -> str:
    true = {one.get("type") for one in get(obj, "status.conditions", ()) if one.get("status") == "True"}
    return next((kind for kind in ("Complete", "Failed", "Suspended") if kind in true), "Running")


def _node_status(obj: Object) -> str:
    ready = condition(get(obj, "status", {}), "Ready").get("status")
    status = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return status + (",SchedulingDisabled" if get(obj, "spec.unschedulable") else "")


def _last_seen(obj: Object, now: float) -> str:
    paths = ("series.lastObservedTime", "lastTimestamp", "firstTimestamp", "eventTime")
    return since(next(filter(None, (get(obj, path) for path in paths)), None), now)


READY = told("Ready", lambda obj: f"{get(obj, 'status.readyReplicas', 0)}/{get(obj, 'spec.replicas', 0)}")
WORKLOAD = (
    AGE,
    listed("Containers", "spec.template.spec.containers", lambda one: one.get("name", ""), 1),
    listed("Images", "spec.template.spec.containers", lambda one: one.get("image", ""), 1),
    told("Selector", lambda obj: selector_text(get(obj, "spec.selector")) or NONE, 1),
)
ROWS: Mapping[str, tuple[Row, ...]] = {
    "Pod": (
        told("Ready", lambda pod: summary(pod)[0]),
        told("Status", lambda pod: summary(pod)[1]),
        ("Restarts", "string", 0, _restarts),
        AGE,
        text("IP", "status.podIP", NONE, 1),
        text("Node", "spec.nodeName", NONE, 1),
    ),
    "ReplicaSet": (
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        *WORKLOAD,
    ),
    "Deployment": (
        READY,
        number("Up-to-date", "status.updatedReplicas"),
        number("Available", "status.availableReplicas"),
        *WORKLOAD,
    ),
    "StatefulSet": (READY, *WORKLOAD[:-1]),
    "DaemonSet": (
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        *WORKLOAD,
    ),
    "Job": (
        told("Status", _job_status),
        told("Completions", lambda obj: f"{get(obj, 'status.succeeded', 0)}/{get(obj, 'spec.completions', 1)}"),
        *WORKLOAD,
    ),
    "Service": (
        text("Type", "spec.type"),
        text("Cluster-IP", "spec.clusterIP", NONE),
        listed("External-IP", "spec.externalIPs", str),
        listed("Port(s)", "spec.ports", _port),
        AGE,
        told("Selector", lambda obj: selector_text({"matchLabels": get(obj, "spec.selector")}) or NONE, 1),
    ),
    "Node": (told("Status", _node_status), AGE, text("Version", "status.nodeInfo.kubeletVersion")),
    "Event": (
        ("Last Seen", "string", 0, _last_seen),
        text("Type", "type"),
        text("Reason", "reason"),
        told("Object", lambda obj: f"{get(obj, 'involvedObject.kind', '').lower()}/{get(obj, 'involvedObject.name')}"),
        told("Message", lambda obj: get(obj, "message", "").strip()),
        told("Count", lambda obj: get(obj, "series.count") or get(obj, "count") or 1, 1),
        text("Name", "metadata.name", "", 1),
    ),
    "Namespace": (text("Status", "status.phase"), AGE),
    "Secret": (text("Type", "type"), count("Data", "data"), AGE),
    "ConfigMap": (count("Data", "data", "binaryData"), AGE),
    "Lease": (text("Holder", "spec.holderIdentity"), AGE),
}


def columns(kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, type, "", priority=wide) for name, type, wide, _ in ROWS.get(kind, (AGE,)))


def cells(kind: str, obj: Object, now: float) -> list[Any]:
    return [cell(obj, now) for _, _, _, cell in ROWS.get(kind, (AGE,))]
