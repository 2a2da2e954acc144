"""The ClusterRoles and bindings that a cluster begins with: those that people, clients and operators meet.

cluster-admin, admin, edit and view (with what they aggregate), discovery and self-review for everybody, and
system:auth-delegator, with upstream's names and rules (`bootstrappolicy`) for the kinds that devkube serves. Left out:
the roles of a cluster's own components.
"""

from devkube.access.rbac import GROUP
from devkube.kinds import Object

_READ = "get list watch"
_WRITE = "create update patch delete deletecollection"
_APPS = "statefulsets daemonsets deployments replicasets statefulsets/scale deployments/scale replicasets/scale"
_INTO = "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"
_HEALTH = "/livez /readyz /healthz"

# name -> its rules: "verbs | group | resources", or "verbs | URLs". An aggregated role has none of its own.
_ROLES: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("* | * | *", "* | *"),
    "system:discovery": (f"get | {_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*",),
    "system:basic-user": (
        "create | authorization.k8s.io | selfsubjectaccessreviews selfsubjectrulesreviews",
        "create | authentication.k8s.io | selfsubjectreviews",
    ),
    "system:public-info-viewer": (f"get | {_HEALTH} /version /version/",),
    "system:auth-delegator": (
        "create | authentication.k8s.io | tokenreviews",
        "create | authorization.k8s.io | subjectaccessreviews",
    ),
    "admin": (),
    "edit": (),
    "view": (),
    "system:aggregate-to-admin": (
        "create | authorization.k8s.io | localsubjectaccessreviews",
        f"{_READ} {_WRITE} | {GROUP} | roles rolebindings",
    ),
    "system:aggregate-to-edit": (
        f"{_READ} | core | {_INTO}",
        "impersonate | core | serviceaccounts",
        f"{_WRITE} | core | {_INTO} pods serviceaccounts services persistentvolumeclaims configmaps events",
        "create | core | pods/eviction serviceaccounts/token",
        f"{_WRITE} | apps | {_APPS}",
        f"{_WRITE} | autoscaling | horizontalpodautoscalers",
        f"{_WRITE} | batch | jobs cronjobs",
        f"{_WRITE} | policy | poddisruptionbudgets",
        f"{_WRITE} | networking.k8s.io | networkpolicies ingresses",
        f"{_READ} {_WRITE} | coordination.k8s.io | leases",
    ),
    "system:aggregate-to-view": (
        f"{_READ} | core | pods pods/status pods/log serviceaccounts services services/status endpoints configmaps "
        "persistentvolumeclaims persistentvolumeclaims/status namespaces namespaces/status events",
        f"{_READ} | discovery.k8s.io | endpointslices",
        f"{_READ} | apps | controllerrevisions statefulsets/status daemonsets/status deployments/status "
        f"replicasets/status {_APPS}",
        f"{_READ} | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status",
        f"{_READ} | batch | jobs cronjobs cronjobs/status jobs/status",
        f"{_READ} | policy | poddisruptionbudgets poddisruptionbudgets/status",
        f"{_READ} | networking.k8s.io | networkpolicies ingresses ingresses/status",
    ),
}
# Which aggregated role each is part of: an admin may all that an editor may, and so on.
_PART_OF = {"edit": "admin", "view": "edit"} | {
    f"system:aggregate-to-{name}": name for name in ("admin", "edit", "view")
}
_BINDINGS = {
    "cluster-admin": ("system:masters",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def cluster_roles() -> list[Object]:
    """The objects as a client would have created them."""
    return [_role(name, rules) for name, rules in _ROLES.items()]


def cluster_role_bindings() -> list[Object]:
    return [
        {
            **_object("ClusterRoleBinding", name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
        }
        for name, groups in _BINDINGS.items()
    ]


def _role(name: str, rules: tuple[str, ...]) -> Object:
    role = {**_object("ClusterRole", name), "rules": [_rule(text) for text in rules]}
    if name in _PART_OF:
        role["metadata"]["labels"][f"{GROUP}/aggregate-to-{_PART_OF[name]}"] = "true"
    if not rules:
        selector = {"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _object(kind: str, name: str) -> Object:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "labels": labels}}


def _rule(text: str) -> Object:
    verbs, *columns = (column.split() for column in text.split("|"))
    if len(columns) == 1:
        return {"verbs": verbs, "nonResourceURLs": columns[0]}
    groups = ["" if group == "core" else group for group in columns[0]]
    return {"verbs": verbs, "apiGroups": groups, "resources": columns[1]}
