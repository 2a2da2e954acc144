"""URLs of the Kubernetes API: what a method and a path ask for, and whether anything answers there.

`parse` only reads the URL, so that authorization can be asked before anybody learns whether the resource exists;
`find` looks it up. Rules: apiserver's pkg/endpoints/request/requestinfo.go. The old `/watch/` and `/proxy/` prefixes
are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from devkube.errors import method_not_allowed, no_such_path
from devkube.kinds import Catalog, Resource

VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: What stands after a namespace's name and is no resource inside it.
OF_NAMESPACES: Final = ("status", "finalize")
NAME_SELECTORS: Final = ("metadata.name==", "metadata.name=")


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
        if len(parts) > 2 and parts[2] not in OF_NAMESPACES:
            parts = parts[2:]
    plural, name, *rest = (*parts, "") if len(parts) == 1 else parts
    verb = VERBS.get(method, "")
    if not name:
        if verb == "get":
            verb = "watch" if truth(query.get("watch")) else "list"
        elif verb == "delete":
            verb = "deletecollection"
        if verb in ("list", "watch"):
            name = _selected_name(query.get("fieldSelector", ""))
    return Route(verb, path, group, version, plural, namespace, name, "/".join(rest))


def find(catalog: Catalog, route: Route) -> Resource:
    """The resource that answers. StatusError 404 for what is not served, 405 for a verb it has not."""
    resource = catalog.find(route.group, route.version, route.plural)
    if resource is None:
        raise no_such_path()
    inside = bool(route.namespace) and route.plural != "namespaces"
    if inside and not resource.namespaced:
        raise no_such_path()
    across = resource.namespaced and not route.namespace
    if across and route.named:
        raise no_such_path()
    verbs = resource.verbs
    if route.subresource:
        sub = resource.subresources.get(route.subresource)
        if sub is None:
            raise no_such_path()
        verbs = sub.verbs
    # What has a name can be got, updated, patched, deleted; a POST goes to a collection or to a subresource.
    misplaced = route.verb in ("update", "patch") and not route.name
    misplaced = misplaced or (route.verb == "create" and bool(route.name) != bool(route.subresource))
    if misplaced or route.verb not in verbs or (across and route.verb not in ("list", "watch")):
        raise method_not_allowed()
    return resource


def truth(value: str | None) -> bool:
    """A boolean query parameter as upstream reads it: there and neither `false` nor `0`."""
    return value is not None and value.lower() not in ("false", "0")


def _selected_name(selector: str) -> str:
    """The name a field selector asks for with `metadata.name=`; RBAC's resourceNames heed it."""
    for term in selector.split(","):
        for prefix in NAME_SELECTORS:
            if term.startswith(prefix) and "/" not in term:
                return term.removeprefix(prefix)
    return ""
