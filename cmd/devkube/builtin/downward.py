"""What a Pod may tell its containers about itself. Rule: upstream's `core/validation` and `core/pods/helpers.go`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import invalid, required, unsupported
from devkube.errors import Cause

Json = Mapping[str, Any]
ENV = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
FILES = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN = frozenset((*ENV, *FILES, "spec.restartPolicy", "spec.schedulerName", "status.phase"))
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT = re.compile(r"(.+)\['(.*)'\]", re.DOTALL)


def field(reference: Json, allowed: tuple[str, ...], at: str) -> Iterator[Cause]:
    path, version = reference.get("fieldPath") or "", reference.get("apiVersion") or "v1"
    if not path:
        yield required(f"{at}.fieldPath")
        return
    wrong = "" if version == "v1" else f"unsupported pod version: {version}"
    match = _SUBSCRIPT.fullmatch(path)
    if match is None and path not in _KNOWN:
        wrong = wrong or f"field label not supported: {path}"
    elif match is not None and match[1] not in FILES[:2]:
        wrong = wrong or f"field label does not support subscript: {path}"
    if wrong:
        yield invalid(f"{at}.fieldPath", path, f"error converting fieldPath: {wrong}")
    elif match is not None:
        key = match[2].lower() if match[1] == "metadata.annotations" else match[2]
        yield from names.check(at, key, names.qualified)
    elif path not in allowed:
        yield unsupported(f"{at}.fieldPath", path, sorted(allowed))


def resource(reference: Json, at: str, *, file: bool) -> Iterator[Cause]:
    found = reference.get("resource") or ""
    if file and not reference.get("containerName"):
        yield required(f"{at}.containerName")
    elif found and found not in _RESOURCES and not found.startswith(_HUGE):
        yield unsupported(f"{at}.resource", found, _RESOURCES)


def descending(path: str, at: str) -> Iterator[Cause]:
    """A path inside a volume."""
    if path.startswith("/"):
        yield invalid(at, path, "must be a relative path")
    if ".." in path.split("/"):
        yield invalid(at, path, "must not contain '..'")


def files(items: Any, at: str) -> Iterator[Cause]:
    """The items of a downwardAPI volume, or of that source of a projected one. Upstream's paths have no index here."""
    for item in items or ():
        if not item.get("path"):
            yield required(f"{at}.path")
        yield from descending(item.get("path") or "", f"{at}.path")
        if "fieldRef" in item:
            yield from field(item["fieldRef"], FILES, f"{at}.fieldRef")
            if "resourceFieldRef" in item:
                yield invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif "resourceFieldRef" in item:
            yield from resource(item["resourceFieldRef"], f"{at}.resourceFieldRef", file=True)
        else:
            yield required(at, "one of fieldRef and resourceFieldRef is required")
