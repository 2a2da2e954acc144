"""The ClusterRoles and bindings that a cluster begins with: those that people, clients and operators meet.

cluster-admin, admin, edit and view (with what they aggregate), discovery and self-review for everybody, and
system:auth-delegator, with upstream's names and rules (`bootstrappolicy`) for the kinds that devkube serves. Left out:
the roles of a cluster's own components.
"""

from collections.abc import Iterable

from devkube.access import rules
from devkube.access.rbac import GROUP
from devkube.kinds import Object

_READ = "get list watch"
_WRITE = "create update patch delete deletecollection"
_ALL = f"{_READ} {_WRITE}"
_CORE = '""'
_TO = f"{GROUP}/aggregate-to-"
_AUTHENTICATED, _ANYBODY = ("system:authenticated",), ("system:authenticated", "system:unauthenticated")

_REVIEWS = (
    "create | authentication.k8s.io | tokenreviews",
    "create | authorization.k8s.io | subjectaccessreviews",
)
_APPS = "statefulsets daemonsets deployments replicasets statefulsets/scale deployments/scale replicasets/scale"
_VIEW = (
    f"{_READ} | {_CORE} | pods pods/status pods/log serviceaccounts services services/status endpoints "
    "persistentvolumeclaims persistentvolumeclaims/status configmaps limitranges resourcequotas resourcequotas/status "
    "namespaces namespaces/status events",
    f"{_READ} | discovery.k8s.io | endpointslices",
    f"{_READ} | apps | controllerrevisions statefulsets/status daemonsets/status deployments/status "
    f"replicasets/status {_APPS}",
    f"{_READ} | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status",
    f"{_READ} | batch | jobs cronjobs cronjobs/status jobs/status",
    f"{_READ} | policy | poddisruptionbudgets poddisruptionbudgets/status",
    f"{_READ} | networking.k8s.io | networkpolicies ingresses ingresses/status",
)
_EDIT = (
    f"{_READ} | {_CORE} | pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy",
    f"impersonate | {_CORE} | serviceaccounts",
    f"{_WRITE} | {_CORE} | pods pods/attach pods/proxy pods/exec pods/portforward serviceaccounts services "
    "services/proxy persistentvolumeclaims configmaps secrets events",
    f"create | {_CORE} | pods/eviction serviceaccounts/token",
    f"{_WRITE} | apps | {_APPS}",
    f"{_WRITE} | autoscaling | horizontalpodautoscalers",
    f"{_WRITE} | batch | jobs cronjobs",
    f"{_WRITE} | policy | poddisruptionbudgets",
    f"{_WRITE} | networking.k8s.io | networkpolicies ingresses",
    f"{_ALL} | coordination.k8s.io | leases",
)
_HEALTH = "/livez /readyz /healthz"

# name -> its rules: "verbs | groups | resources", or "verbs | URLs" where the second column is of paths.
_ROLES: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("* | * | *", "* | *URL"),
    "system:discovery": (f"get | {_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*",),
    "system:basic-user": (
        "create | authorization.k8s.io | selfsubjectaccessreviews selfsubjectrulesreviews",
        "create | authentication.k8s.io | selfsubjectreviews",
    ),
    "system:public-info-viewer": (f"get | {_HEALTH} /version /version/",),
    "system:aggregate-to-admin": (
        "create | authorization.k8s.io | localsubjectaccessreviews",
        f"{_ALL} | {GROUP} | roles rolebindings",
    ),
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": _REVIEWS,
}
_AGGREGATED = ("admin", "edit", "view")
# Which of them each is part of: an admin may all that an editor may, and so on.
_PART_OF = {
    "edit": "admin",
    "view": "edit",
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
}
_BINDINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cluster-admin": ("Group", ("system:masters",)),
    "system:discovery": ("Group", _AUTHENTICATED),
    "system:basic-user": ("Group", _AUTHENTICATED),
    "system:public-info-viewer": ("Group", _ANYBODY),
}


def cluster_roles() -> list[Object]:
    """The objects as a client would have created them, rules of aggregated ones filled in."""
    roles = [_object("ClusterRole", name, {"rules": [_rule(text) for text in texts]}) for name, texts in _ROLES.items()]
    for name in _AGGREGATED:
        selector = {"matchLabels": {f"{_TO}{name}": "true"}}
        roles.append(_object("ClusterRole", name, {"aggregationRule": {"clusterRoleSelectors": [selector]}}))
    filled = rules.resolve(roles)
    return [{**role, "rules": filled[role["metadata"]["name"]]} for role in roles]


def cluster_role_bindings() -> list[Object]:
    return [
        _object(
            "ClusterRoleBinding",
            name,
            {
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject} for subject in subjects],
            },
        )
        for name, (kind, subjects) in _BINDINGS.items()
    ]


def _object(kind: str, name: str, rest: Object) -> Object:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if name in _PART_OF:
        labels[_TO + _PART_OF[name]] = "true"
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    meta = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta, **rest}


def _rule(text: str) -> Object:
    columns = [sorted(column.split()) for column in text.split("|")]
    if columns[1] == ["*URL"] or columns[1][0].startswith("/"):
        return {"verbs": columns[0], "nonResourceURLs": ["*"] if columns[1] == ["*URL"] else columns[1]}
    return {"verbs": columns[0], "apiGroups": _groups(columns[1]), "resources": columns[2]}


def _groups(names: Iterable[str]) -> list[str]:
    return sorted("" if name == _CORE else name for name in names)
