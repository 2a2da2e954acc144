"""Every built-in resource that is served, as rows: name, kind, short names, subresources.

Facts: upstream's discovery documents of 1.36; what is left out stands in devkube's README.
"""

from dataclasses import replace

from devkube.builtin.columns import columns
from devkube.builtin.prepares import services
from devkube.builtin.rules import BuiltinRules
from devkube.kinds import ALL_VERBS, Resource, Subresource

CHANGE = ("get", "patch", "update")
CREATE = ("create",)
SUBRESOURCES = {
    "scale": Subresource("scale", "Scale", CHANGE, "autoscaling", "v1"),
    "token": Subresource("token", "TokenRequest", CREATE, "authentication.k8s.io", "v1"),
    "eviction": Subresource("eviction", "Eviction", CREATE, "policy", "v1"),
    "binding": Subresource("binding", "Binding", CREATE),
}
NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
HOOKS = "api-extensions"


def _row(
    plural: str,
    kind: str,
    short: str = "",
    subresources: str = "",
    categories: str = "",
    *,
    verbs: tuple[str, ...] = ALL_VERBS,
    cluster: bool = False,
) -> Resource:
    """Of a group and version that are not told yet. `subresources` are of the table above, or of the kind itself."""
    of = {name: Subresource(name, kind, ("update",) if name == "finalize" else CHANGE) for name in subresources.split()}
    return Resource(
        group="",
        version="",
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        namespaced=not cluster,
        rules=BuiltinRules("", "", kind),
        verbs=verbs,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        subresources={name: SUBRESOURCES.get(name, one) for name, one in of.items()},
        columns=columns(kind),
        scale_paths=(".spec.replicas", ".status.replicas", ".spec.selector"),
    )


# In upstream's order of preference.
GROUPS: dict[tuple[str, str], tuple[Resource, ...]] = {
    ("", "v1"): (
        _row("configmaps", "ConfigMap", "cm"),
        _row("endpoints", "Endpoints", "ep"),
        _row("events", "Event", "ev"),
        _row("limitranges", "LimitRange", "limits"),
        _row("namespaces", "Namespace", "ns", "status finalize", verbs=NO_COLLECTION, cluster=True),
        _row("nodes", "Node", "no", "status", cluster=True),
        _row("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "status"),
        _row("persistentvolumes", "PersistentVolume", "pv", "status", cluster=True),
        _row("pods", "Pod", "po", "status binding eviction", "all"),
        _row("resourcequotas", "ResourceQuota", "quota", "status"),
        _row("secrets", "Secret"),
        _row("serviceaccounts", "ServiceAccount", "sa", "token"),
        _row("services", "Service", "svc", "status", "all"),
    ),
    ("apps", "v1"): (
        _row("controllerrevisions", "ControllerRevision"),
        _row("daemonsets", "DaemonSet", "ds", "status", "all"),
        _row("deployments", "Deployment", "deploy", "status scale", "all"),
        _row("replicasets", "ReplicaSet", "rs", "status scale", "all"),
        _row("statefulsets", "StatefulSet", "sts", "status scale", "all"),
    ),
    ("authentication.k8s.io", "v1"): (
        _row("selfsubjectreviews", "SelfSubjectReview", verbs=CREATE, cluster=True),
        _row("tokenreviews", "TokenReview", verbs=CREATE, cluster=True),
    ),
    ("authorization.k8s.io", "v1"): (
        _row("localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE),
        _row("selfsubjectaccessreviews", "SelfSubjectAccessReview", verbs=CREATE, cluster=True),
        _row("selfsubjectrulesreviews", "SelfSubjectRulesReview", verbs=CREATE, cluster=True),
        _row("subjectaccessreviews", "SubjectAccessReview", verbs=CREATE, cluster=True),
    ),
    ("autoscaling", "v2"): (_row("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "status", "all"),),
    ("batch", "v1"): (
        _row("cronjobs", "CronJob", "cj", "status", "all"),
        _row("jobs", "Job", "", "status", "all"),
    ),
    ("networking.k8s.io", "v1"): (
        _row("ingressclasses", "IngressClass", cluster=True),
        _row("ingresses", "Ingress", "ing", "status"),
        _row("networkpolicies", "NetworkPolicy", "netpol"),
    ),
    ("policy", "v1"): (_row("poddisruptionbudgets", "PodDisruptionBudget", "pdb", "status"),),
    ("rbac.authorization.k8s.io", "v1"): (
        _row("clusterrolebindings", "ClusterRoleBinding", cluster=True),
        _row("clusterroles", "ClusterRole", cluster=True),
        _row("rolebindings", "RoleBinding"),
        _row("roles", "Role"),
    ),
    ("storage.k8s.io", "v1"): (_row("storageclasses", "StorageClass", "sc", cluster=True),),
    ("admissionregistration.k8s.io", "v1"): (
        _row("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", categories=HOOKS, cluster=True),
        _row("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", categories=HOOKS, cluster=True),
    ),
    ("apiextensions.k8s.io", "v1"): (
        _row("customresourcedefinitions", "CustomResourceDefinition", "crd crds", "status", HOOKS, cluster=True),
    ),
    ("scheduling.k8s.io", "v1"): (_row("priorityclasses", "PriorityClass", "pc", cluster=True),),
    ("coordination.k8s.io", "v1"): (_row("leases", "Lease"),),
    ("node.k8s.io", "v1"): (_row("runtimeclasses", "RuntimeClass", cluster=True),),
    ("discovery.k8s.io", "v1"): (_row("endpointslices", "EndpointSlice"),),
}


def builtin_resources() -> list[Resource]:
    """Fresh rows for one server: what its rules count (addresses of Services) is that server's own."""
    service = services()
    return [
        replace(
            row,
            group=group,
            version=version,
            rules=BuiltinRules(group, version, row.kind, service if row.kind == "Service" else None),
        )
        for (group, version), rows in GROUPS.items()
        for row in rows
    ]
