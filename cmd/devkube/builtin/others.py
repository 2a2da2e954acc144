"""Rules of kinds without a Pod template: ConfigMap, Secret, Service, Lease, roles and their bindings.

Rule: upstream's `pkg/apis/*/validation`. Of CRDs nothing is here: `devkube.custom` checks them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.containers import port_or_name
from devkube.builtin.defaults import RBAC
from devkube.builtin.metadata import labels
from devkube.causes import duplicate, forbidden, invalid, required, too_long, unchanged, unsupported
from devkube.errors import Cause
from devkube.kinds import Object

SIZE_LIMIT = 1024 * 1024  # bytes
_FROZEN = "field is immutable when `immutable` is set"
_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}


def _frozen(new: Object, old: Object | None, keys: tuple[str, ...]) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FROZEN)
    for key in keys:
        if (new.get(key) or {}) != (old.get(key) or {}):
            yield forbidden(key, _FROZEN)


def config_map(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    yield from _frozen(new, old, ("data", "binaryData"))
    text, binary = new.get("data") or {}, new.get("binaryData") or {}
    for field, found in (("data", text), ("binaryData", binary)):
        for key in found:
            yield from names.check(f"{field}[{key}]", key, names.config_key)
    for key in text.keys() & binary.keys():
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(value.encode()) for value in text.values()) + sum(len(one) * 3 // 4 for one in binary.values())
    if size > SIZE_LIMIT:
        yield too_long("[]", SIZE_LIMIT)  # as upstream writes a path of nothing


def secret(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if old is not None:
        yield from unchanged("type", new.get("type"), old.get("type"))
    yield from _frozen(new, old, ("data",))
    data = new.get("data") or {}
    for key in data:
        yield from names.check(f"data[{key}]", key, names.config_key)
    if sum(len(one) * 3 // 4 for one in data.values()) > SIZE_LIMIT:
        yield too_long("data", SIZE_LIMIT)
    for key in _KEYS.get(new.get("type") or "", ()):
        if key not in data:
            yield required(f"data[{key}]")


def lease(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if (count := spec.get("leaseTransitions")) is not None and count < 0:
        yield invalid("spec.leaseTransitions", count, "must be greater than or equal to 0")


def service(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    ports, kind, seen = spec.get("ports") or (), spec.get("type"), set[Any]()
    if not ports and spec.get("clusterIP") != "None" and kind != "ExternalName":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name")
        if name:
            yield from names.check(f"{at}.name", name, names.dns_label)
        elif len(ports) > 1:
            yield required(f"{at}.name")
        if name and name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        yield from port_or_name(port.get("port", 0), f"{at}.port")
        yield from port_or_name(port.get("targetPort", 0), f"{at}.targetPort")
    yield from labels(spec.get("selector") or {}, "spec.selector")
    known, addresses = ((old or {}).get("spec") or {}).get("clusterIPs") or (), spec.get("clusterIPs") or ()
    if known and addresses and kind != "ExternalName" and addresses[0] != known[0]:
        yield invalid("spec.clusterIPs[0]", list(addresses), "may not change once set")


def role(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    for index, rule in enumerate(new.get("rules") or ()):
        at, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if urls and (new["kind"] == "Role" or rule.get("apiGroups") or rule.get("resources")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            if new["kind"] == "Role":
                text = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{at}.nonResourceURLs", urls, text)
        for key, what in () if urls else (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(key):
                yield required(f"{at}.{key}", f"resource rules must supply at least one {what}")


def role_binding(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    reference = new.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if new["kind"] == "RoleBinding" else ("ClusterRole",)
    if reference.get("apiGroup") != RBAC:
        yield unsupported("roleRef.apiGroup", reference.get("apiGroup") or "", (RBAC,))
    if reference.get("kind") not in kinds:
        yield unsupported("roleRef.kind", reference.get("kind") or "", kinds)
    for index, subject in enumerate(new.get("subjects") or ()):
        at, group = f"subjects[{index}]", subject.get("apiGroup") or ""
        if (wanted := "" if subject.get("kind") == "ServiceAccount" else RBAC) != group:
            yield unsupported(f"{at}.apiGroup", group, (wanted,))
        if new["kind"] == "ClusterRoleBinding" and not wanted and not subject.get("namespace"):
            yield required(f"{at}.namespace")
    if old is not None and reference != (old.get("roleRef") or {}):
        yield invalid("roleRef", reference, "cannot change roleRef")


VALIDATES: Mapping[str, Any] = {
    "ConfigMap": config_map,
    "Secret": secret,
    "Lease": lease,
    "Service": service,
    "Role": role,
    "ClusterRole": role,
    "RoleBinding": role_binding,
    "ClusterRoleBinding": role_binding,
}
