"""Services: rules, and the addresses and node ports that a server allocates.

Rule: upstream's `pkg/apis/core/validation` (validateService) and `pkg/registry/core/service`. Single stack, IPv4.
"""

import ipaddress
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import duplicate, forbidden, invalid, required
from devkube.builtin.containers import ip
from devkube.builtin.containers import port as port_or_name
from devkube.builtin.metadata import labels
from devkube.errors import Cause
from devkube.kinds import Object

RANGE = ipaddress.ip_network("10.96.0.0/12")
NODE_PORTS = (30000, 32767)
_NAME_OF_API = "kubernetes"  # the first address of the range is this Service's


class Allocator:
    """Hands out addresses and node ports round and round; one per server. What is given back is not noticed."""

    def __init__(self) -> None:
        self._hosts = itertools.cycle(range(10, RANGE.num_addresses - 1))
        self._ports = itertools.cycle(range(NODE_PORTS[0], NODE_PORTS[1] + 1))

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        if subresource:
            return
        spec = new["spec"]
        _pair(spec, (old or {}).get("spec") or {})
        if old is not None:
            _keep(spec, old["spec"])
            _let_go(spec, old["spec"])
        if _addressed(spec):
            address = spec.setdefault("clusterIP", "") or self._address(new)
            spec["clusterIP"] = address
            spec["clusterIPs"] = spec.get("clusterIPs") or [address]
            spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec.get("type") == "NodePort" or (_ported(spec) and spec.get("allocateLoadBalancerNodePorts", True)):
            for port in spec.get("ports") or ():
                port["nodePort"] = port.get("nodePort") or next(self._ports)
        if _checked(spec):
            spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or next(self._ports)

    def _address(self, new: Object) -> str:
        meta = new.get("metadata") or {}
        first = meta.get("name") == _NAME_OF_API and meta.get("namespace") == "default"
        return str(RANGE[1] if first else RANGE[next(self._hosts)])


def _addressed(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") != "ExternalName"


def _ported(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _checked(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _outside(spec: Mapping[str, Any]) -> bool:
    return _ported(spec) or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


def _pair(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """clusterIP and clusterIPs say the same; who writes one of them means both (normalizeClusterIPs)."""
    one, many, was = spec.get("clusterIP"), spec.get("clusterIPs"), before.get("clusterIP")
    if one and (not many or (one != was and many == before.get("clusterIPs"))):
        spec["clusterIPs"] = before["clusterIPs"] if one == was and before.get("clusterIPs") else [one]
    elif was and not one and many == before.get("clusterIPs"):
        spec.pop("clusterIPs", None)


def _keep(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """What was allocated stays where an update says nothing of it (patchAllocatedValues)."""
    if _addressed(before) and _addressed(spec):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
    if _ported(before) and _ported(spec):
        known = {port.get("name"): port.get("nodePort") for port in before.get("ports") or ()}
        taken = {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and (was := known.get(port.get("name"))) not in taken:
                port["nodePort"] = was
    if _checked(before) and _checked(spec):
        spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or before.get("healthCheckNodePort")


def _let_go(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """What only the old type needed goes, unless it was changed as well (dropTypeDependentFields)."""
    gone: list[str] = []
    if _addressed(before) and not _addressed(spec):
        gone += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if _checked(before) and not _checked(spec):
        gone.append("healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if _outside(before) and not _outside(spec):
        gone.append("externalTrafficPolicy")
    for key in gone:
        if spec.get(key) == before.get(key):
            spec.pop(key, None)
    ports = [[port.get("nodePort") for port in one.get("ports") or ()] for one in (spec, before)]
    if _ported(before) and not _ported(spec) and ports[0] == ports[1]:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)


def service(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    kind, addresses = spec.get("type"), spec.get("clusterIPs") or ()
    headless = "None" in addresses
    if not spec.get("ports") and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _external(spec)
    else:
        yield from _addresses(spec, addresses, old)
    yield from _ports(spec, kind, headless)
    yield from labels(spec.get("selector") or {}, "spec.selector")
    if "allocateLoadBalancerNodePorts" in spec and kind != "LoadBalancer":
        yield forbidden("spec.allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'")
    outside = kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs")
    if spec.get("externalTrafficPolicy") and not outside:
        text = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], text)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from ip(address, f"spec.externalIPs[{index}]")


def _external(spec: Mapping[str, Any]) -> Iterator[Cause]:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            yield forbidden(f"spec.{key}", "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    else:
        yield from names.check("spec.externalName", name, names.dns_subdomain)


def _addresses(spec: Mapping[str, Any], addresses: Any, old: Object | None) -> Iterator[Cause]:
    if addresses and addresses[0] != spec.get("clusterIP"):
        yield invalid("spec.clusterIPs", list(addresses), "first value must match `clusterIP`")
    for index, address in enumerate(addresses):
        if address != "None":
            yield from ip(address, f"spec.clusterIPs[{index}]")
    before = (old or {}).get("spec") or {}
    known = before.get("clusterIPs") or ()
    if known and before.get("type") != "ExternalName" and addresses and addresses[0] != known[0]:
        yield invalid("spec.clusterIPs[0]", list(addresses), "may not change once set")


def _ports(spec: Mapping[str, Any], kind: str | None, headless: bool) -> Iterator[Cause]:
    ports = spec.get("ports") or ()
    seen: set[Any] = set()
    for index, port in enumerate(ports):
        at, name, number = f"spec.ports[{index}]", port.get("name"), port.get("port", 0)
        if name:
            yield from names.check(f"{at}.name", name, names.dns_label)
            if name in seen:
                yield duplicate(f"{at}.name", name)
        elif len(ports) > 1:
            yield required(f"{at}.name")
        for text in names.port_number(number):
            yield invalid(f"{at}.port", number, text)
        yield from port_or_name(port.get("targetPort", 0), f"{at}.targetPort")
        node_port, protocol = port.get("nodePort"), port.get("protocol")
        if node_port and kind == "ClusterIP":
            yield forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
        elif node_port and not NODE_PORTS[0] <= node_port <= NODE_PORTS[1]:
            text = (
                f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[1]}"
            )
            yield invalid(f"{at}.nodePort", node_port, text)
        if node_port and (protocol, "node", node_port) in seen:
            yield duplicate(f"{at}.nodePort", node_port)
        if (protocol, number) in seen:
            yield duplicate(at, {"protocol": protocol, "port": number})
        seen |= {name, (protocol, "node", node_port), (protocol, number)}
