"""What the server serves, told to clients: the classic documents and the aggregated list, from the catalog.

Pure functions of the catalog. Forms: api/discovery in upstream's tree. `storageVersionHash` is left out: nobody but the
storage migrator reads it.
"""

from typing import Any

from devkube.errors import no_such_path
from devkube.kinds import Catalog, Object, Resource, Subresource


def api_versions(address: str) -> Object:
    """GET /api. `address` is host:port."""
    servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": servers}


def group_list(catalog: Catalog) -> Object:
    """GET /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(catalog, g) for g in catalog.groups() if g]}


def group(catalog: Catalog, name: str) -> Object:
    """GET /apis/GROUP."""
    if not name or name not in catalog.groups():
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(catalog, name)}


def _group(catalog: Catalog, name: str) -> Object:
    versions = [{"groupVersion": f"{name}/{one}", "version": one} for one in catalog.groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _served(catalog: Catalog, group: str, version: str) -> list[Resource]:
    return sorted((r for r in catalog if (r.group, r.version) == (group, version)), key=lambda r: r.plural)


def resource_list(catalog: Catalog, group_name: str, version: str) -> Object:
    """GET /api/v1 and /apis/GROUP/VERSION."""
    rows: list[Object] = []
    for one in _served(catalog, group_name, version):
        row = {"name": one.plural, "singularName": one.singular, "kind": one.kind, "verbs": sorted(one.verbs)}
        row |= _optional(shortNames=one.short_names, categories=one.categories)
        rows.append({**row, "namespaced": one.namespaced})
        for sub in _subresources(one):
            row = {"name": f"{one.plural}/{sub.name}", "singularName": "", "kind": sub.kind, "verbs": sorted(sub.verbs)}
            rows.append({**row, "namespaced": one.namespaced, **_foreign(sub)})
    if not rows:
        raise no_such_path()
    group_version = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows}


def aggregated(catalog: Catalog, *, core: bool) -> Object:
    """GET /api (core) or /apis with Accept …;as=APIGroupDiscoveryList: everything in one answer."""
    items: list[Object] = []
    for name, versions in catalog.groups().items():
        if (name == "") is core:
            resources = {one: [_aggregated_row(r) for r in _served(catalog, name, one)] for one in versions}
            told = [{"version": one, "resources": rows, "freshness": "Current"} for one, rows in resources.items()]
            items.append({"metadata": {"name": name} if name else {}, "versions": told})
    api_version = "apidiscovery.k8s.io/v2"
    return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}


def _aggregated_row(resource: Resource) -> Object:
    own, subresources = {"group": resource.group, "version": resource.version}, []
    for sub in _subresources(resource):
        kind = {**own, "kind": sub.kind, **_foreign(sub)}
        subresources.append({"subresource": sub.name, "responseKind": kind, "verbs": sorted(sub.verbs)})
    return {
        "resource": resource.plural,
        "responseKind": {**own, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
        **_optional(shortNames=resource.short_names, categories=resource.categories, subresources=subresources),
    }


def _subresources(resource: Resource) -> list[Subresource]:
    return sorted(resource.subresources.values(), key=lambda one: one.name)


def _foreign(sub: Subresource) -> dict[str, str]:
    """Group and version of a kind that is not of its resource's."""
    return {"group": sub.group, "version": sub.version} if sub.version else {}


def _optional(**lists: Any) -> Object:
    """Empty lists are left out, as Go's omitempty does."""
    return {key: list(value) for key, value in lists.items() if value}
