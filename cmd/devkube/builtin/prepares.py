"""What a kind's strategy derives before an object is checked: a Pod's first status, selectors of Jobs, data of Secrets,
and the addresses and node ports of Services (single stack, IPv4; what is given back is not noticed).

Rule: upstream's `pkg/registry/*/strategy.go` (PrepareForCreate, PrepareForUpdate). By then the object has its uid.
"""

import ipaddress
import itertools
from base64 import b64encode
from collections.abc import Callable, Mapping

from devkube.builtin.scalars import quantity_value
from devkube.builtin.types import Json
from devkube.kinds import Object

Prepare = Callable[[Object, Object | None, str], None]
_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_RANGE, _NODE_PORTS = ipaddress.ip_network("10.96.0.0/12"), range(30000, 32768)


def pod(new: Object, old: Object | None, subresource: str) -> None:
    if old is None:
        new["status"] = {"phase": "Pending", "qosClass": qos(new["spec"])}


def qos(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory of all containers."""
    found: dict[str, list[Json]] = {"requests": [], "limits": []}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for kind, into in found.items():
            amounts = container["resources"].get(kind, {})
            into.append({k: v for k, v in amounts.items() if k in ("cpu", "memory") and quantity_value(v) > 0})
    requests, limits = found.values()
    if not any(requests) and not any(limits):
        return "BestEffort"
    return "Guaranteed" if requests == limits and all(len(one) == 2 for one in limits) else "Burstable"


def job(new: Object, old: Object | None, subresource: str) -> None:
    """A Job selects its own Pods by its uid, unless it says that it brings a selector."""
    spec, meta = new["spec"], new["metadata"]
    if old is not None or spec.get("manualSelector"):
        return
    uid, name = meta.get("uid", ""), meta.get("name", "")
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update({"controller-uid": uid, _UID: uid, "job-name": name, _NAME: name})
    spec["selector"] = {"matchLabels": {_UID: uid}}
    meta["labels"] = meta.get("labels") or dict(labels)


def namespace(new: Object, old: Object | None, subresource: str) -> None:
    finalizers = new.setdefault("spec", {}).setdefault("finalizers", [])
    if old is None and "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    elif old is not None and subresource != "finalize":
        new["spec"]["finalizers"] = list((old.get("spec") or {}).get("finalizers") or ())


def secret(new: Object, old: Object | None, subresource: str) -> None:
    """stringData becomes data; it is never stored."""
    for key, value in (new.pop("stringData", None) or {}).items():
        new.setdefault("data", {})[key] = b64encode(value.encode()).decode()


def services() -> Prepare:
    """Hands out addresses and node ports round and round; one per server."""
    hosts, node_ports = itertools.cycle(range(10, _RANGE.num_addresses - 1)), itertools.cycle(_NODE_PORTS)

    def service(new: Object, old: Object | None, subresource: str) -> None:
        spec, before = new["spec"], (old or {}).get("spec") or {}
        if spec.get("type") == "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(key, None)
            return
        known = {port.get("port"): port.get("nodePort") for port in before.get("ports") or ()}
        address = spec.get("clusterIP") or before.get("clusterIP") or str(_RANGE[next(hosts)])
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        for port in spec.get("ports") or ():
            if spec.get("type") in ("NodePort", "LoadBalancer"):
                port["nodePort"] = port.get("nodePort") or known.get(port.get("port")) or next(node_ports)
            elif port.get("nodePort") == known.get(port.get("port")):
                port.pop("nodePort", None)  # of the type that it was

    return service


PREPARES: Mapping[str, Prepare] = {"Pod": pod, "Job": job, "Namespace": namespace, "Secret": secret}
