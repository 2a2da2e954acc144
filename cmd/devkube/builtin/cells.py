"""How single cells of tables are made, for `columns`; Pods have their own (`podcells`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from devkube import events
from devkube.builtin.podcells import age, since
from devkube.kinds import Object

Cell = Callable[[Object, float], Any]
Row = tuple[str, str, int, Cell]  # name, type, priority, cell
NONE = "<none>"


def get(obj: Any, path: str, default: Any = None) -> Any:
    for key in path.split("."):
        obj = obj.get(key) if isinstance(obj, dict) else None
    return default if obj is None else obj


def text(name: str, path: str, default: str = "", wide: int = 0) -> Row:
    return name, "string", wide, lambda obj, now: str(get(obj, path, default))


def number(name: str, path: str) -> Row:
    return name, "integer", 0, lambda obj, now: get(obj, path, 0)


def flag(name: str, path: str, default: bool = False) -> Row:
    return name, "boolean", 0, lambda obj, now: get(obj, path, default)


def told(name: str, cell: Callable[[Object], Any], wide: int = 0, type: str = "string") -> Row:
    return name, type, wide, lambda obj, now: cell(obj)


AGE: Row = ("Age", "string", 0, lambda obj, now: age(obj, now))


def few(items: Iterable[str], limit: int = 3, none: str = NONE) -> str:
    found = list(items)
    if len(found) > limit:
        return f"{','.join(found[:limit])} + {len(found) - limit} more..."
    return ",".join(found) or none


def pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def selector(found: Mapping[str, Any] | None) -> str:
    """A LabelSelector as text; `<none>` selects everything."""
    parts = [f"{key}={value}" for key, value in sorted((get(found, "matchLabels") or {}).items())]
    for one in get(found, "matchExpressions") or ():
        key, operator, values = one.get("key"), one.get("operator"), ",".join(sorted(one.get("values") or ()))
        parts.append(
            {"Exists": f"{key}", "DoesNotExist": f"!{key}"}.get(operator, f"{key} {operator} ({values})".lower())
        )
    return ",".join(parts) or NONE


def containers(at: str) -> tuple[Row, Row]:
    def listed(field: str) -> Callable[[Object], str]:
        return lambda obj: ",".join(one.get(field, "") for one in get(obj, f"{at}.containers", ()))

    return told("Containers", listed("name"), 1), told("Images", listed("image"), 1)


TEMPLATE = containers("spec.template.spec")
SELECTOR = told("Selector", lambda obj: selector(get(obj, "spec.selector")), 1)


def ready(obj: Object) -> str:
    return f"{get(obj, 'status.readyReplicas', 0)}/{get(obj, 'spec.replicas', 0)}"


def outside(obj: Object) -> str:
    kind, given = get(obj, "spec.type"), list(get(obj, "spec.externalIPs", ()))
    if kind == "ExternalName":
        return str(get(obj, "spec.externalName", ""))
    if kind == "LoadBalancer":
        found = [one.get("ip") or one.get("hostname") or "" for one in get(obj, "status.loadBalancer.ingress", ())]
        return ",".join(found + given) or "<pending>"
    return ",".join(given) or NONE


def service_ports(obj: Object) -> str:
    found = []
    for port in get(obj, "spec.ports", ()):
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        found.append(f"{port.get('port')}{outside}/{port.get('protocol')}")
    return ",".join(found) or NONE


def job_status(obj: Object) -> str:
    true = {one.get("type") for one in get(obj, "status.conditions", ()) if one.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if get(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in true), "Running")


def completions(obj: Object) -> str:
    done, wanted, parallel = (get(obj, path) for path in ("status.succeeded", "spec.completions", "spec.parallelism"))
    if wanted is not None:
        return f"{done or 0}/{wanted}"
    return f"{done or 0}/1 of {parallel}" if (parallel or 0) > 1 else f"{done or 0}/1"


def duration(obj: Object, now: float) -> str:
    start, end = get(obj, "status.startTime"), get(obj, "status.completionTime")
    return "" if not start else since(start, now, end)


def node_status(obj: Object) -> str:
    ready = next((one for one in get(obj, "status.conditions", ()) if one.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return status + (",SchedulingDisabled" if get(obj, "spec.unschedulable") else "")


def roles(obj: Object) -> str:
    prefix, labels = "node-role.kubernetes.io/", get(obj, "metadata.labels", {})
    found = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    return ",".join(sorted(filter(None, {*found, labels.get("kubernetes.io/role", "")}))) or NONE


def address(kind: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        found = get(obj, "status.addresses", ())
        return next((one.get("address", "") for one in found if one.get("type") == kind), NONE)

    return cell


def kernel(obj: Object) -> str:
    machine = get(obj, "status.nodeInfo.architecture")
    return str(get(obj, "status.nodeInfo.kernelVersion", "<unknown>")) + (f" ({machine})" if machine else "")


def last_seen(obj: Object, now: float) -> str:
    obj = events.turned(obj, events.CORE)
    seen = get(obj, "series.lastObservedTime") or get(obj, "lastTimestamp")
    return since(seen or get(obj, "firstTimestamp") or get(obj, "eventTime"), now)


def first_seen(obj: Object, now: float) -> str:
    obj = events.turned(obj, events.CORE)
    return since(get(obj, "firstTimestamp") or get(obj, "eventTime"), now)


def of_event(name: str, cell: Callable[[Object], Any], wide: int = 0) -> Row:
    """A cell of an Event in either group's shape, told from core's."""
    return told(name, lambda obj: cell(events.turned(obj, events.CORE)), wide)


def about(obj: Object) -> str:
    kind, name = get(obj, "involvedObject.kind", "").lower(), get(obj, "involvedObject.name")
    return f"{kind}/{name}" if name else kind


def source(obj: Object) -> str:
    component = get(obj, "source.component") or get(obj, "reportingComponent", "")
    host = get(obj, "source.host") or get(obj, "reportingInstance")
    return f"{component}, {host}" if host else component


def subset_addresses(obj: Object) -> Iterable[str]:
    for subset in get(obj, "subsets", ()):
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        for port in subset.get("ports") or (None,):
            yield from (f"{one}:{port['port']}" if port else one for one in addresses)


def subjects(kind: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        found = [one for one in obj.get("subjects") or () if one.get("kind") == kind]
        names = [one.get("name", "") for one in found]
        if kind == "ServiceAccount":
            names = [f"{one.get('namespace', '')}/{one.get('name', '')}" for one in found]
        return ", ".join(names)

    return cell


BINDING: tuple[Row, ...] = (
    told("Role", lambda obj: f"{get(obj, 'roleRef.kind')}/{get(obj, 'roleRef.name')}"),
    AGE,
    told("Users", subjects("User"), 1),
    told("Groups", subjects("Group"), 1),
    told("ServiceAccounts", subjects("ServiceAccount"), 1),
)
_SHORT = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def modes(path: str) -> Callable[[Object], str]:
    return lambda obj: ",".join(_SHORT.get(one, one) for one in get(obj, path, ()))


def phase(obj: Object) -> str:
    return "Terminating" if get(obj, "metadata.deletionTimestamp") else get(obj, "status.phase", "")


def claim(obj: Object) -> str:
    claim = get(obj, "spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def metrics(obj: Object) -> str:
    """Of CPU and memory, as upstream; of other sources only that they are there."""
    found = []
    current = get(obj, "status.currentMetrics", ())
    for index, one in enumerate(get(obj, "spec.metrics", ())):
        now = current[index] if index < len(current) else {}
        name, wanted = get(one, "resource.name", one.get("type")), get(one, "resource.target.averageUtilization")
        goal = f"{wanted}%" if wanted is not None else get(one, "resource.target.averageValue", "<auto>")
        used = get(now, "resource.current.averageUtilization")
        is_now = f"{used}%" if used is not None else get(now, "resource.current.averageValue", "<unknown>")
        found.append(f"{name}: {is_now}/{goal}")
    return ", ".join(found[:2]) + (f" + {len(found) - 2} more..." if len(found) > 2 else "") if found else NONE
