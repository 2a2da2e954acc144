"""URLs of the Kubernetes API: what a method and a path ask for, and whether anything answers there.

`parse` only reads the URL, so that authorization can be asked before anybody learns whether the resource exists;
`request` looks it up. Rules: apiserver's pkg/endpoints/request/requestinfo.go. The old `/watch/` and `/proxy/` prefixes
are left out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube.errors import method_not_allowed, no_such_path, not_found
from devkube.kinds import Catalog, Resource
from devkube.parameters import flag
from devkube.requests import Request

VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Route:
    """`verb` is Kubernetes' for a resource, the lower-case method for other paths (`plural` empty).

    `namespace` is also set for a Namespace itself, as RBAC wants it. `name` of a list or watch is the one its field
    selector asks for, if it does; `Route.named` tells the two apart.
    """

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def named(self) -> bool:
        return bool(self.name) and self.verb not in ("list", "watch", "deletecollection")


def parse(method: str, path: str, query: Mapping[str, str]) -> Route:
    """Never fails: a path that is no resource is a path."""
    parts = path.strip("/").split("/")
    group = ""
    if parts[0] == "apis" and len(parts) > 3:
        group, parts = parts[1], parts[2:]
    elif parts[0] == "api" and len(parts) > 2:
        parts = parts[1:]
    else:
        return Route(method.lower(), path)
    version, *parts = parts
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in ("status", "finalize"):  # what follows is inside the namespace
            parts = parts[2:]
    plural, name, *rest = (*parts, "") if len(parts) == 1 else parts
    verb = VERBS.get(method, "")
    if not name and verb == "delete":
        verb = "deletecollection"
    if not name and verb == "get":
        verb = "watch" if flag(query.get("watch")) else "list"
        # RBAC's resourceNames heed what a field selector asks for.
        chosen = re.search(r"(?:^|,)metadata\.name==?([^,/]*)(?:,|$)", query.get("fieldSelector", ""))
        name = chosen[1] if chosen else ""
    return Route(verb, path, group, version, plural, namespace, name, "/".join(rest))


def request(catalog: Catalog, route: Route, query: Mapping[str, str], **more: Any) -> Request:
    """What the verbs are asked. StatusError 404 for what is not served, 405 for a verb it has not."""
    resource = find(catalog, route)
    return Request(
        route.verb,
        resource,
        namespace=route.namespace if resource.namespaced else "",
        name=route.name if route.named else "",
        subresource=route.subresource,
        query=query,
        **more,
    )


def find(catalog: Catalog, route: Route) -> Resource:
    resource = catalog.find(route.group, route.version, route.plural)
    if resource is None:
        raise no_such_path()
    inside = bool(route.namespace) and route.plural != "namespaces"
    across = resource.namespaced and not route.namespace
    sub = resource.subresources.get(route.subresource)
    if resource.custom and route.subresource and sub is None:
        raise not_found(resource.about(route.name))
    if (inside and not resource.namespaced) or (across and route.named) or (route.subresource and sub is None):
        raise no_such_path()
    verbs = sub.verbs if sub else resource.verbs
    # What has a name can be got, updated, patched, deleted; a POST goes to a collection or to a subresource.
    misplaced = route.verb in ("update", "patch") and not route.name
    misplaced = misplaced or (route.verb == "create" and bool(route.name) != bool(route.subresource))
    if misplaced or route.verb not in verbs or (across and route.verb not in ("list", "watch")):
        raise method_not_allowed()
    return resource
