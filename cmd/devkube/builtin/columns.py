"""What `kubectl get` and `-o wide` show of the kinds that people look at; any other shows its age.

Rule: upstream's `pkg/printers/internalversion`. The leading Name is put in by `tables`, but for Events, which bring
their own at the end. A column of priority 1 is shown with `-o wide` only. Of Pods see `podcells`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from devkube.builtin.podcells import POD, age, since
from devkube.kinds import Column, Object
from devkube.selectors import selector_text

Cell = Callable[[Object, float], Any]
Row = tuple[str, str, int, Cell]  # name, type, priority, cell
NONE = "<none>"
AGE: Row = ("Age", "string", 0, age)
CREATED: Row = ("Created At", "date", 0, lambda obj, now: obj["metadata"].get("creationTimestamp"))


def get(obj: Any, path: str, default: Any = None) -> Any:
    for key in path.split("."):
        obj = obj.get(key) if isinstance(obj, dict) else None
    return default if obj is None else obj


def text(name: str, path: str, default: str = "", wide: int = 0) -> Row:
    return name, "string", wide, lambda obj, now: str(get(obj, path, default))


def number(name: str, path: str) -> Row:
    return name, "integer", 0, lambda obj, now: get(obj, path, 0)


def told(name: str, cell: Callable[[Object], Any], wide: int = 0, type: str = "string") -> Row:
    return name, type, wide, lambda obj, now: cell(obj)


def count(name: str, *fields: str) -> Row:
    return told(name, lambda obj: sum(len(obj.get(field) or ()) for field in fields), type="integer")


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _listed(field: str) -> Callable[[Object], str]:
    return lambda obj: ",".join(one.get(field, "") for one in get(obj, "spec.template.spec.containers", ()))


TEMPLATE = (told("Containers", _listed("name"), 1), told("Images", _listed("image"), 1))
SELECTOR = told("Selector", lambda obj: selector_text(get(obj, "spec.selector")) or NONE, 1)


def _ready(obj: Object) -> str:
    return f"{get(obj, 'status.readyReplicas', 0)}/{get(obj, 'spec.replicas', 0)}"


def _service_ports(obj: Object) -> str:
    found = []
    for port in get(obj, "spec.ports", ()):
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        found.append(f"{port.get('port')}{outside}/{port.get('protocol')}")
    return ",".join(found) or NONE


def _job_status(obj: Object) -> str:
    true = {one.get("type") for one in get(obj, "status.conditions", ()) if one.get("status") == "True"}
    return next((kind for kind in ("Complete", "Failed", "Suspended") if kind in true), "Running")


def _duration(obj: Object, now: float) -> str:
    start = get(obj, "status.startTime")
    return since(start, now, get(obj, "status.completionTime")) if start else ""


def _node_status(obj: Object) -> str:
    ready = next((one for one in get(obj, "status.conditions", ()) if one.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return status + (",SchedulingDisabled" if get(obj, "spec.unschedulable") else "")


def _roles(obj: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    return ",".join(sorted(k.removeprefix(prefix) for k in get(obj, "metadata.labels", {}) if prefix in k)) or NONE


def _address(obj: Object) -> str:
    found = get(obj, "status.addresses", ())
    return next((one.get("address", "") for one in found if one.get("type") == "InternalIP"), NONE)


def _last_seen(obj: Object, now: float) -> str:
    seen = get(obj, "series.lastObservedTime") or get(obj, "lastTimestamp")
    return since(seen or get(obj, "firstTimestamp") or get(obj, "eventTime"), now)


def _about(obj: Object) -> str:
    return f"{get(obj, 'involvedObject.kind', '').lower()}/{get(obj, 'involvedObject.name', '')}"


BINDING = (told("Role", lambda obj: f"{get(obj, 'roleRef.kind')}/{get(obj, 'roleRef.name')}"), AGE)
DESIRED = (number("Desired", "spec.replicas"), number("Current", "status.replicas"))
ROWS: Mapping[str, tuple[Row, ...]] = {
    "Pod": POD,
    "ReplicaSet": (*DESIRED, number("Ready", "status.readyReplicas"), AGE, *TEMPLATE, SELECTOR),
    "Deployment": (
        told("Ready", _ready),
        number("Up-to-date", "status.updatedReplicas"),
        number("Available", "status.availableReplicas"),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    "StatefulSet": (told("Ready", _ready), AGE, *TEMPLATE),
    "DaemonSet": (
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        told("Node Selector", lambda obj: _pairs(get(obj, "spec.template.spec.nodeSelector", {}))),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    "Job": (
        told("Status", _job_status),
        told("Completions", lambda obj: f"{get(obj, 'status.succeeded', 0)}/{get(obj, 'spec.completions', 1)}"),
        ("Duration", "string", 0, _duration),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    "Service": (
        text("Type", "spec.type"),
        text("Cluster-IP", "spec.clusterIP", NONE),
        told("External-IP", lambda obj: ",".join(get(obj, "spec.externalIPs", ())) or NONE),
        told("Port(s)", _service_ports),
        AGE,
        told("Selector", lambda obj: _pairs(get(obj, "spec.selector", {})), 1),
    ),
    "Node": (
        told("Status", _node_status),
        told("Roles", _roles),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion"),
        told("Internal-IP", _address, 1),
        text("OS-Image", "status.nodeInfo.osImage", "<unknown>", 1),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>", 1),
    ),
    "Event": (
        ("Last Seen", "string", 0, _last_seen),
        text("Type", "type"),
        text("Reason", "reason"),
        told("Object", _about),
        text("Source", "source.component", "", 1),
        told("Message", lambda obj: get(obj, "message", "").strip()),
        told("Count", lambda obj: get(obj, "series.count") or get(obj, "count") or 1, 1),
        text("Name", "metadata.name", "", 1),
    ),
    "Namespace": (text("Status", "status.phase"), AGE),
    "Secret": (text("Type", "type"), count("Data", "data"), AGE),
    "ConfigMap": (count("Data", "data", "binaryData"), AGE),
    "PersistentVolumeClaim": (
        text("Status", "status.phase"),
        text("Volume", "spec.volumeName"),
        text("StorageClass", "spec.storageClassName"),
        AGE,
    ),
    "ClusterRole": (CREATED,),
    "Role": (CREATED,),
    "CustomResourceDefinition": (CREATED,),
    "RoleBinding": BINDING,
    "ClusterRoleBinding": BINDING,
    "Lease": (text("Holder", "spec.holderIdentity"), AGE),
    "MutatingWebhookConfiguration": (count("Webhooks", "webhooks"), AGE),
    "ValidatingWebhookConfiguration": (count("Webhooks", "webhooks"), AGE),
}
DEFAULT: tuple[Row, ...] = (AGE,)


def columns(kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, type, "", priority=wide) for name, type, wide, _ in ROWS.get(kind, DEFAULT))


def cells(kind: str) -> Callable[[Object, float], list[Any]]:
    found = [cell for _, _, _, cell in ROWS.get(kind, DEFAULT)]
    return lambda obj, now: [cell(obj, now) for cell in found]
