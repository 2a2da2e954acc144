"""`metadata` of any object, built-in or custom: what it must look like and what of it never changes.

Rule: `apimachinery/pkg/api/validation/objectmeta.go`; which kind's names are what: each kind's strategy.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import names
from devkube.causes import forbidden, invalid, quoted, required, too_long, unchanged
from devkube.errors import Cause
from devkube.kinds import Object, Resource

ANNOTATIONS_LIMIT = 256 * 1024
# By kind; any other kind's name is a DNS subdomain. RBAC allows whatever fits into a path.
NAMES: Mapping[str, names.Check] = {
    **dict.fromkeys(("Namespace", "Service"), names.dns_label),
    **dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), names.path_segment),
}
_STANDARD = ("kubernetes", "orphan", "foregroundDeletion")  # finalizers that need no domain
_BARE = ("apiextensions.k8s.io", "admissionregistration.k8s.io")  # groups, and all CRDs', whose finalizers need none
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate_metadata(new: Object, old: Object | None, resource: Resource) -> list[Cause]:
    """Of a create where `old` is None, of an update otherwise. `new` has its name already, and the URL's namespace."""
    meta: Mapping[str, Any] = new.get("metadata") or {}
    found = _identity(meta, resource) if old is None else _unchanged(meta, old.get("metadata") or {})
    # Of custom resources upstream looks at finalizers only when they are created.
    finalizers = () if resource.custom and old is not None else _finalizers(meta.get("finalizers") or (), resource)
    texts = labels(meta.get("labels") or {}, "metadata.labels")
    notes = annotations(meta.get("annotations") or {}, "metadata.annotations")
    return [*found, *finalizers, *texts, *notes, *_owners(meta.get("ownerReferences") or ())]


def _identity(meta: Mapping[str, Any], resource: Resource) -> Iterator[Cause]:
    rule = names.dns_subdomain if resource.custom else NAMES.get(resource.kind, names.dns_subdomain)
    name, prefix = (meta.get(key) or "" for key in ("name", "generateName"))
    if prefix:  # a hyphen at its end is followed by something
        yield from (invalid("metadata.generateName", prefix, text) for text in rule(re.sub("(?<=.)-$", "a", prefix)))
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from names.check("metadata.name", name, rule)


def _unchanged(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if added and old.get("deletionTimestamp"):
        why = "no new finalizers can be added if the object is being deleted, found new finalizers "
        yield forbidden("metadata.finalizers", why + f"[]string{{{', '.join(map(quoted, added))}}}")
    for key in _FIXED:
        yield from unchanged(f"metadata.{key}", new.get(key), old.get(key))


def labels(found: Mapping[str, str], at: str) -> Iterator[Cause]:
    for key, value in found.items():
        yield from names.check(at, key, names.qualified)
        yield from names.check(at, value, names.label_value)


def annotations(found: Mapping[str, str], at: str) -> Iterator[Cause]:
    for key in found:
        for text in names.qualified(key.lower()):
            yield invalid(at, key, text)
    if sum(len(k.encode()) + len(v.encode()) for k, v in found.items()) > ANNOTATIONS_LIMIT:
        yield too_long(at, ANNOTATIONS_LIMIT)


def _finalizers(found: Sequence[str], resource: Resource) -> Iterator[Cause]:
    bare = resource.custom or resource.group in _BARE
    for index, one in enumerate(found):
        yield from names.check("metadata.finalizers", one, names.qualified)
        if not bare and "/" not in one and one not in _STANDARD:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{index}]", one, text)
    if {"orphan", "foregroundDeletion"} <= set(found):
        yield invalid("metadata.finalizers", list(found), "finalizer orphan and foregroundDeletion cannot be both set")


def _owners(found: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    at = "metadata.ownerReferences"
    for owner in found:
        group, slash, version = (owner.get("apiVersion") or "").rpartition("/")
        if not version or "/" in group or (slash and not group):
            yield invalid(f"{at}.apiVersion", owner.get("apiVersion") or "", "version must not be empty")
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                yield invalid(f"{at}.{key}", "", "must not be empty")
        if owner.get("kind") == "Event" and not group:
            yield invalid(at, dict(owner), "/v1, Kind=Event is disallowed from being an owner")
    if sum(owner.get("controller") is True for owner in found) > 1:
        yield invalid(at, list(found), "Only one reference can have Controller set to true")
