"""Ingresses, NetworkPolicies, Endpoints and EndpointSlices. Rule: upstream's `networking/` and `core/validation`."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import forbidden, invalid, required, unchanged
from devkube.builtin.containers import ip
from devkube.builtin.containers import port as port_or_name
from devkube.builtin.labelselectors import label_selector
from devkube.errors import Cause
from devkube.kinds import Object

Json = Mapping[str, Any]
_NEVER = ("//", "/./", "/../", "%2f", "%2F")
_NOT_LAST = ("/..", "/.")


def ingress(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    if not spec.get("rules") and "defaultBackend" not in spec:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if "defaultBackend" in spec:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        at = f"spec.rules[{index}]"
        if rule.get("host"):
            yield from _host(rule["host"], f"{at}.host")
        if (http := rule.get("http")) is not None:
            if not http.get("paths"):
                yield required(f"{at}.http.paths")
            for number, path in enumerate(http.get("paths") or ()):
                yield from _path(path, f"{at}.http.paths[{number}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            rule = names.wildcard if "*" in host else names.dns_subdomain
            yield from names.check(f"spec.tls[{index}].hosts[{number}]", host, rule)
    if name := spec.get("ingressClassName"):
        yield from names.check("spec.ingressClassName", name, names.dns_subdomain)


def _host(host: str, at: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_address(host)
        yield invalid(at, host, "must be a DNS name, not an IP address")
    except ValueError:
        yield from names.check(at, host, names.wildcard if "*" in host else names.dns_subdomain)


def _path(found: Json, at: str) -> Iterator[Cause]:
    kind, path = found.get("pathType"), found.get("path") or ""
    if not kind:
        return
    if not path.startswith("/") and (path or kind != "ImplementationSpecific"):
        yield invalid(f"{at}.path", path, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _NEVER:
            if part in path:
                yield invalid(f"{at}.path", path, f"must not contain '{part}'")
        for end in _NOT_LAST:
            if path.endswith(end):
                yield invalid(f"{at}.path", path, f"cannot end with '{end}'")
    yield from _backend(found.get("backend") or {}, f"{at}.backend")


def _backend(backend: Json, at: str) -> Iterator[Cause]:
    service = backend.get("service")
    if service is not None and "resource" in backend:
        yield invalid(at, "", "cannot set both resource and service backends")
    elif service is None and "resource" not in backend:
        yield invalid(at, "", "resource or service backend is required")
    elif service is not None:
        if service.get("name"):
            yield from names.check(f"{at}.service.name", service["name"], names.dns_label)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            yield invalid(at, "", "cannot set both port name & port number")
        elif key := next((key for key in ("name", "number") if port.get(key)), None):
            yield from port_or_name(port[key], f"{at}.service.port.{key}")
        else:
            yield required(at, "port name or number is required")


def network_policy(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    yield from label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                if "port" in port:
                    yield from port_or_name(port["port"], f"{at}.ports[{number}].port")
            for number, peer in enumerate(rule.get(side) or ()):
                yield from _peer(peer, f"{at}.{side}[{number}]")


def _peer(peer: Json, at: str) -> Iterator[Cause]:
    for key in ("podSelector", "namespaceSelector"):
        yield from label_selector(peer.get(key) or {}, f"{at}.{key}")
    if not peer:
        yield required(at, "must specify a peer")
    elif "ipBlock" in peer and len(peer) > 1:
        yield forbidden(at, "may not specify both ipBlock and another peer")
    cidr = (peer.get("ipBlock") or {}).get("cidr")
    if cidr:
        try:
            ipaddress.ip_network(cidr, strict=False)
        except ValueError:
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid(f"{at}.ipBlock.cidr", cidr, text)


def endpoints(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    for index, subset in enumerate(new.get("subsets") or ()):
        at, ports = f"subsets[{index}]", subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(at, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for number, one in enumerate(subset.get(kind) or ()):
                yield from ip(one.get("ip") or "", f"{at}.{kind}[{number}].ip")
        for number, port in enumerate(ports):
            here, name = f"{at}.ports[{number}]", port.get("name")
            if name:
                yield from names.check(f"{here}.name", name, names.dns_label)
            elif len(ports) > 1:
                yield required(f"{here}.name")
            yield from port_or_name(port.get("port", 0), f"{here}.port")


def endpoint_slice(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    kind = new.get("addressType")
    for index, one in enumerate(new.get("endpoints") or ()):
        for number, address in enumerate(one.get("addresses") or ()):
            at = f"endpoints[{index}].addresses[{number}]"
            yield from names.check(at, address, names.dns_subdomain) if kind == "FQDN" else ip(address, at)
    if old is not None:
        yield from unchanged("addressType", kind, old.get("addressType"))


VALIDATES: Mapping[str, Any] = {
    "Ingress": ingress,
    "NetworkPolicy": network_policy,
    "Endpoints": endpoints,
    "EndpointSlice": endpoint_slice,
}
