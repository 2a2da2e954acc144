"""The ClusterRoles and bindings that a cluster begins with.

Those of upstream's `bootstrappolicy` that people, client libraries and operators meet: cluster-admin, admin, edit, view
(with what they aggregate), discovery and self-review for everybody, system:auth-delegator, and the roles of the
components that a development cluster may really run. Left out: the roles of the built-in controllers, of certificate
signing and of storage drivers. Resources of groups that devkube does not serve stay in the lists, so that a check
answers here what it answers there.
"""

from collections.abc import Iterable

from devkube.access import aggregation
from devkube.access.rbac import GROUP
from devkube.kinds import Object

_READ = "get list watch"
_WRITE = "create update patch delete deletecollection"
_ALL = f"{_READ} {_WRITE}"
_CORE = '""'
_TO = f"{GROUP}/aggregate-to-"
_AUTHENTICATED, _ANYBODY = ("system:authenticated",), ("system:authenticated", "system:unauthenticated")

_EVENTS = (f"create patch update | {_CORE} events.k8s.io | events",)
_REVIEWS = (
    "create | authentication.k8s.io | tokenreviews",
    "create | authorization.k8s.io | subjectaccessreviews",
)
_VIEW = (
    f"{_READ} | {_CORE} | pods replicationcontrollers replicationcontrollers/scale serviceaccounts services "
    "services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps",
    f"{_READ} | {_CORE} | limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status "
    "replicationcontrollers/status pods/log",
    f"{_READ} | {_CORE} | namespaces",
    f"{_READ} | {_CORE} events.k8s.io | events",
    f"{_READ} | discovery.k8s.io | endpointslices",
    f"{_READ} | apps | controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets "
    "daemonsets/status deployments deployments/status deployments/scale replicasets replicasets/status "
    "replicasets/scale",
    f"{_READ} | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status",
    f"{_READ} | batch | jobs cronjobs cronjobs/status jobs/status",
    f"{_READ} | extensions | daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
    "ingresses/status replicasets replicasets/scale replicasets/status replicationcontrollers/scale networkpolicies",
    f"{_READ} | policy | poddisruptionbudgets poddisruptionbudgets/status",
    f"{_READ} | networking.k8s.io | networkpolicies ingresses ingresses/status",
    f"{_READ} | resource.k8s.io | resourceclaims resourceclaims/status resourceclaimtemplates",
)
_EDIT = (
    f"{_READ} | {_CORE} | pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy",
    f"impersonate | {_CORE} | serviceaccounts",
    f"{_WRITE} | {_CORE} | pods pods/attach pods/proxy pods/exec pods/portforward",
    f"create | {_CORE} | pods/eviction",
    f"{_WRITE} | {_CORE} | replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy "
    "persistentvolumeclaims configmaps secrets",
    f"create | {_CORE} | serviceaccounts/token",
    f"{_WRITE} | {_CORE} events.k8s.io | events",
    f"{_WRITE} | apps | statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback "
    "replicasets replicasets/scale",
    f"{_WRITE} | autoscaling | horizontalpodautoscalers",
    f"{_WRITE} | batch | jobs cronjobs",
    f"{_WRITE} | extensions | daemonsets deployments deployments/scale deployments/rollback ingresses replicasets "
    "replicasets/scale replicationcontrollers/scale networkpolicies",
    f"{_WRITE} | policy | poddisruptionbudgets",
    f"{_WRITE} | networking.k8s.io | networkpolicies ingresses",
    f"{_ALL} | coordination.k8s.io | leases",
    f"{_WRITE} | resource.k8s.io | resourceclaims resourceclaimtemplates",
)
_NODE = (
    *_REVIEWS,
    "create | authorization.k8s.io | localsubjectaccessreviews",
    f"{_READ} | {_CORE} | services pods secrets configmaps",
    f"get | {_CORE} | serviceaccounts",
    f"create get list watch update patch | {_CORE} | nodes",
    f"update patch | {_CORE} | nodes/status pods/status",
    *_EVENTS,
    f"create delete | {_CORE} | pods",
    f"create | {_CORE} | pods/eviction serviceaccounts/token",
    f"get | {_CORE} | persistentvolumeclaims persistentvolumes endpoints",
    f"get update patch | {_CORE} | persistentvolumeclaims/status",
    "create get list watch | certificates.k8s.io | certificatesigningrequests",
    "get create update patch delete | coordination.k8s.io | leases",
    "get | storage.k8s.io | volumeattachments",
    f"{_READ} | storage.k8s.io | csidrivers",
    "get create update patch delete | storage.k8s.io | csinodes",
    f"{_READ} | node.k8s.io | runtimeclasses",
    "get | resource.k8s.io | resourceclaims",
    "deletecollection | resource.k8s.io | resourceslices",
)
_MANAGER = (
    *_EVENTS,
    "create | coordination.k8s.io | leases",
    "get update | coordination.k8s.io | leases | kube-controller-manager",
    f"create | {_CORE} | secrets serviceaccounts serviceaccounts/token",
    f"delete | {_CORE} | secrets",
    f"get | {_CORE} | namespaces secrets serviceaccounts configmaps",
    f"update | {_CORE} | secrets serviceaccounts",
    *_REVIEWS,
    "list watch | * | *",
)
_SCHEDULER = (
    *_EVENTS,
    "create | coordination.k8s.io | leases",
    "get update list watch | coordination.k8s.io | leases | kube-scheduler",
    f"{_READ} | {_CORE} | nodes services replicationcontrollers persistentvolumeclaims persistentvolumes namespaces",
    f"get list watch delete | {_CORE} | pods",
    f"create | {_CORE} | pods/binding bindings",
    f"patch update | {_CORE} | pods/status",
    f"{_READ} | apps extensions | replicasets",
    f"{_READ} | apps | statefulsets",
    f"{_READ} | policy | poddisruptionbudgets",
    *_REVIEWS,
    f"{_READ} | storage.k8s.io | csinodes csidrivers csistoragecapacities volumeattachments",
    f"{_ALL} | coordination.k8s.io | leasecandidates",
)
_HEALTH = "/livez /readyz /healthz"

# name -> its rules: "verbs | groups | resources [| names]", or "verbs | URLs" where the second column is of paths.
_ROLES: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("* | * | *", "* | *URL"),
    "system:discovery": (f"get | {_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*",),
    "system:monitoring": (
        f"get | /metrics /metrics/slis {_HEALTH} /livez/* /readyz/* /healthz/* /flagz /statusz",
        f"get | {_CORE} | nodes/metrics",
    ),
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
    "system:node": _NODE,
    "system:node-problem-detector": (f"get | {_CORE} | nodes", f"patch | {_CORE} | nodes/status", *_EVENTS),
    "system:node-proxier": (
        f"list watch | {_CORE} | services endpoints",
        f"{_READ} | {_CORE} | nodes",
        *_EVENTS,
        "list watch | networking.k8s.io | servicecidrs",
        "list watch | discovery.k8s.io | endpointslices",
    ),
    "system:kube-aggregator": (f"{_READ} | {_CORE} | services endpoints",),
    "system:kube-controller-manager": _MANAGER,
    "system:kube-dns": (f"list watch | {_CORE} | endpoints services",),
    "system:kube-scheduler": _SCHEDULER,
    "system:service-account-issuer-discovery": (
        "get | /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
    ),
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
    "system:monitoring": ("Group", ("system:monitoring",)),
    "system:discovery": ("Group", _AUTHENTICATED),
    "system:basic-user": ("Group", _AUTHENTICATED),
    "system:public-info-viewer": ("Group", _ANYBODY),
    "system:node": ("Group", ()),  # upstream's Node authorizer took its place
    "system:node-proxier": ("User", ("system:kube-proxy",)),
    "system:kube-dns": ("ServiceAccount", ("kube-system/kube-dns",)),
    "system:kube-controller-manager": ("User", ("system:kube-controller-manager",)),
    "system:kube-scheduler": ("User", ("system:kube-scheduler",)),
    "system:service-account-issuer-discovery": ("Group", ("system:serviceaccounts",)),
}


def cluster_roles() -> list[Object]:
    """The objects as a client would have created them, rules of aggregated ones filled in."""
    roles = [_object("ClusterRole", name, {"rules": [_rule(text) for text in rules]}) for name, rules in _ROLES.items()]
    for name in _AGGREGATED:
        selector = {"matchLabels": {f"{_TO}{name}": "true"}}
        roles.append(_object("ClusterRole", name, {"aggregationRule": {"clusterRoleSelectors": [selector]}}))
    filled = aggregation.resolve(roles)
    return [{**role, "rules": filled[role["metadata"]["name"]]} for role in roles]


def cluster_role_bindings() -> list[Object]:
    return [
        _object(
            "ClusterRoleBinding",
            name,
            {
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                **({"subjects": [_subject(kind, subject) for subject in subjects]} if subjects else {}),
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


def _subject(kind: str, name: str) -> Object:
    if kind == "ServiceAccount":
        namespace, _, own = name.partition("/")
        return {"kind": kind, "name": own, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def _rule(text: str) -> Object:
    columns = [sorted(column.split()) for column in text.split("|")]
    if columns[1] == ["*URL"] or columns[1][0].startswith("/"):
        return {"verbs": columns[0], "nonResourceURLs": ["*"] if columns[1] == ["*URL"] else columns[1]}
    rule: Object = {"verbs": columns[0], "apiGroups": _groups(columns[1]), "resources": columns[2]}
    return {**rule, "resourceNames": columns[3]} if len(columns) > 3 else rule


def _groups(names: Iterable[str]) -> list[str]:
    return sorted("" if name == _CORE else name for name in names)
