"""What `kubectl get` and `-o wide` show of the kinds that people look at; any other shows its age.

Rules: upstream's `pkg/printers/internalversion` and `apimachinery/pkg/util/duration`. The leading Name is put in by
`tables`, but for Events, which bring their own at the end. A column of priority 1 is shown with `-o wide` only.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from devkube.kinds import Column, Object
from devkube.selectors import selector_text

Row = tuple[str, str, int, Callable[[Object, float], Any]]  # name, type, priority, cell
Json = Mapping[str, Any]
NONE = "<none>"
# Unit, its seconds, from how many of it on it is used, and below how many the next smaller one is told too.
_UNITS = (("y", 365 * 86400, 2, 8), ("d", 86400, 2, 8), ("h", 3600, 3, 8), ("m", 60, 2, 10), ("s", 1, 0, 0))
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


def human(seconds: int) -> str:
    """Two or three significant figures: 90s, 3m20s, 47m, 5h3m, 30h, 3d4h, 40d, 2y5d."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    at = next(index for index, (_, size, least, _) in enumerate(_UNITS) if seconds >= least * size)
    unit, size, _, both = _UNITS[at]
    count, rest = divmod(seconds, size)
    smaller, small, *_ = _UNITS[min(at + 1, len(_UNITS) - 1)]
    return f"{count}{unit}{rest // small}{smaller}" if count < both and rest >= small else f"{count}{unit}"


def since(moment: str | None, now: float) -> str:
    """The time from `moment` to `now` (Unix seconds)."""
    return human(int(now - datetime.fromisoformat(moment).timestamp())) if moment else "<unknown>"


def condition(status: Json, kind: str) -> Json:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})


def summary(pod: Object) -> tuple[str, str, int]:
    """Ready (`1/2`), status, restarts."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    stays = {one.get("name") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    first, main = status.get("initContainerStatuses") or [], status.get("containerStatuses") or []
    sidecars = [one for one in first if one.get("name") in stays]
    ready = sum(bool(one.get("ready")) and "running" in (one.get("state") or {}) for one in (*main, *sidecars))
    gated = condition(status, "PodScheduled").get("reason") == "SchedulingGated"
    reason = "SchedulingGated" if gated else status.get("reason") or status.get("phase") or ""
    waiting = _initial(len(spec.get("initContainers") or ()), first, stays)
    initialized = not waiting or condition(status, "Initialized").get("status") == "True"
    reason = _main(status, main, reason) if initialized else waiting
    if (pod.get("metadata") or {}).get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        reason = "Terminating"
    restarts = sum(one.get("restartCount", 0) for one in (*main, *(sidecars if initialized else first)))
    return f"{ready}/{len(spec.get('containers') or ()) + len(stays)}", reason, restarts


def _ended(state: Json) -> str:
    return str(state.get("reason") or f"ExitCode:{state.get('exitCode', 0)}")


def _initial(total: int, first: Sequence[Json], stays: set[Any]) -> str:
    """What the Pod's initialisation waits for; empty if for nothing."""
    for index, one in enumerate(first):
        state = one.get("state") or {}
        ended, waits = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if (one.get("started") and one.get("name") in stays) or (ended is not None and not ended.get("exitCode")):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        return f"Init:{waits}" if waits and waits != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _main(status: Json, main: Sequence[Json], reason: str) -> str:
    running, failed = False, ""
    for one in reversed(main):
        state = one.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif (ended := state.get("terminated")) is not None:
            reason = _ended(ended)
            failed = reason if ended.get("exitCode") else failed
        elif one.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        return "Running" if condition(status, "Ready").get("status") == "True" else "NotReady"
    return failed or reason if reason == "Completed" else reason


def _outside(service: Object) -> str:
    kind = get(service, "spec.type")
    if kind == "ExternalName":
        return str(get(service, "spec.externalName"))
    given = [one.get("ip") or one.get("hostname", "") for one in get(service, "status.loadBalancer.ingress", ())]
    return ",".join((*given, *get(service, "spec.externalIPs", ()))) or (
        "<pending>" if kind == "LoadBalancer" else NONE
    )


def _port(port: Json) -> str:
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


NODES = "spec.template.spec.nodeSelector"
MADE = text("Created At", "metadata.creationTimestamp")
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
        told("Restarts", lambda pod: str(summary(pod)[2])),
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
        told("Node Selector", lambda obj: selector_text({"matchLabels": get(obj, NODES, {})}) or NONE),
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
        told("External-IP", _outside),
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
    **dict.fromkeys(("CustomResourceDefinition", "ClusterRole", "Role"), (MADE,)),
}


def columns(kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, type, "", priority=wide) for name, type, wide, _ in ROWS.get(kind, (AGE,)))


def cells(kind: str, obj: Object, now: float) -> list[Any]:
    return [cell(obj, now) for _, _, _, cell in ROWS.get(kind, (AGE,))]
