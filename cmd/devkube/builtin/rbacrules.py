"""Roles and their bindings: what they must say; escalation is `access`'s. Rule: upstream's `apis/rbac/validation`."""

from collections.abc import Iterator

from devkube.builtin import names
from devkube.builtin.causes import invalid, required, unsupported
from devkube.builtin.defaults import RBAC
from devkube.builtin.labelselectors import label_selector
from devkube.errors import Cause
from devkube.kinds import Object


def role(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    for index, rule in enumerate(new.get("rules") or ()):
        at, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if urls:
            if new["kind"] == "Role":
                text = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(f"{at}.nonResourceURLs", urls, text)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{at}.nonResourceURLs", urls, text)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{at}.resources", "resource rules must supply at least one resource")
    if "aggregationRule" in new:
        at, found = "aggregationRule.clusterRoleSelectors", new["aggregationRule"].get("clusterRoleSelectors") or ()
        if not found:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield required(at, text)
        for index, one in enumerate(found):
            yield from label_selector(one, f"{at}[{index}]")


def role_binding(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    reference = new.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if new["kind"] == "RoleBinding" else ("ClusterRole",)
    if reference.get("apiGroup") != RBAC:
        yield unsupported("roleRef.apiGroup", reference.get("apiGroup") or "", (RBAC,))
    if reference.get("kind") not in kinds:
        yield unsupported("roleRef.kind", reference.get("kind") or "", kinds)
    if reference.get("name"):
        yield from names.check("roleRef.name", reference["name"], names.path_segment)
    for index, subject in enumerate(new.get("subjects") or ()):
        at, kind, group = f"subjects[{index}]", subject.get("kind"), subject.get("apiGroup") or ""
        if kind == "ServiceAccount":
            if subject.get("name"):
                yield from names.check(f"{at}.name", subject["name"], names.dns_subdomain)
            if group:
                yield unsupported(f"{at}.apiGroup", group, ("",))
            if new["kind"] == "ClusterRoleBinding" and not subject.get("namespace"):
                yield required(f"{at}.namespace")
        elif kind in ("User", "Group") and group != RBAC:
            yield unsupported(f"{at}.apiGroup", group, (RBAC,))
    if old is not None and reference != (old.get("roleRef") or {}):
        yield invalid("roleRef", reference, "cannot change roleRef")
