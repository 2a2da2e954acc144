"""What the server serves, told to clients: the classic documents and the aggregated list, from the catalog.

Pure functions of the catalog, and `Cache`, which keeps what they return until the catalog changes. Forms:
api/discovery in upstream's tree. `storageVersionHash` is left out: nobody but the storage migrator reads it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from devkube.errors import no_such_path
from devkube.kinds import Catalog, Object, Resource, Subresource

ANYWHERE: Final = "0.0.0.0/0"
CORE: Final = ""


@dataclass(frozen=True)
class Document:
    raw: bytes
    etag: str


class Cache:
    """What is computed of the catalog alone, encoded once per revision of it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._revision = catalog, -1
        self._kept: dict[str, Document] = {}

    def get(self, key: str, make: Callable[[], Object]) -> Document:
        if self._revision != self._catalog.revision:
            self._revision = self._catalog.revision
            self._kept.clear()
        found = self._kept.get(key)
        if found is None:
            raw = msgspec.json.encode(make())
            found = self._kept[key] = Document(raw, f'"{hashlib.sha256(raw).hexdigest().upper()}"')
        return found


def api_versions(address: str) -> Object:
    """GET /api. `address` is host:port."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": ANYWHERE, "serverAddress": address}],
    }


def group_list(catalog: Catalog) -> Object:
    """GET /apis."""
    groups = [_group(name, versions) for name, versions in catalog.groups().items() if name != CORE]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(catalog: Catalog, name: str) -> Object:
    """GET /apis/GROUP."""
    versions = catalog.groups().get(name)
    if not versions or name == CORE:
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(catalog: Catalog, group_name: str, version: str) -> Object:
    """GET /api/v1 and /apis/GROUP/VERSION."""
    served = [one for one in catalog if (one.group, one.version) == (group_name, version)]
    if not served:
        raise no_such_path()
    rows = [row for one in sorted(served, key=lambda r: r.plural) for row in _rows(one)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].group_version, "resources": rows}


def aggregated(catalog: Catalog, *, core: bool) -> Object:
    """GET /api (core) or /apis with Accept …;as=APIGroupDiscoveryList: everything in one answer."""
    served: dict[tuple[str, str], list[Resource]] = {}
    for one in catalog:
        served.setdefault((one.group, one.version), []).append(one)
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": one,
                    "resources": [_aggregated_row(r) for r in sorted(served[name, one], key=lambda r: r.plural)],
                    "freshness": "Current",
                }
                for one in versions
            ],
        }
        for name, versions in catalog.groups().items()
        if (name == CORE) is core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _group(name: str, versions: Iterable[str]) -> Object:
    known = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": known, "preferredVersion": known[0]}


def _rows(resource: Resource) -> list[Object]:
    row: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
        **_optional(shortNames=resource.short_names, categories=resource.categories),
    }
    rows = [row]
    for sub in _subresources(resource.subresources):
        about: Object = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": sorted(sub.verbs),
        }
        if sub.version:
            about |= {"group": sub.group, "version": sub.version}
        rows.append(about)
    return rows


def _aggregated_row(resource: Resource) -> Object:
    subresources = [
        {"subresource": sub.name, "responseKind": _kind(resource, sub), "verbs": sorted(sub.verbs)}
        for sub in _subresources(resource.subresources)
    ]
    return {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
        **_optional(shortNames=resource.short_names, categories=resource.categories, subresources=subresources),
    }


def _kind(resource: Resource, sub: Subresource) -> Object:
    if sub.version:
        return {"group": sub.group, "version": sub.version, "kind": sub.kind}
    return {"group": resource.group, "version": resource.version, "kind": sub.kind}


def _subresources(found: Mapping[str, Subresource]) -> list[Subresource]:
    return sorted(found.values(), key=lambda one: one.name)


def _optional(**lists: Any) -> Object:
    """Empty lists are left out, as Go's omitempty does."""
    return {key: list(value) for key, value in lists.items() if value}
