"""Every built-in resource that is served, as rows: name, kind, short names, subresources.

Facts: upstream's discovery documents of 1.36; what is left out stands in devkube's README. A kind that is kept without
being enforced says so in a warning (`NOT_ENFORCED`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devkube.builtin import columns, others, pods, webhookrules, workloads
from devkube.builtin.defaults import DEFAULTS
from devkube.builtin.prepares import PREPARES, Allocator
from devkube.builtin.rules import Behaviour, BuiltinRules, Validate
from devkube.kinds import ALL_VERBS, Resource, Subresource

CHANGE = ("get", "patch", "update")
CREATE = ("create",)


@dataclass(frozen=True)
class Row:
    """`subresources` are names of the table below; `one` is the singular where it is not the kind in lower case."""

    plural: str
    kind: str
    short: str = ""
    subresources: str = ""
    categories: str = ""
    verbs: tuple[str, ...] = ALL_VERBS
    cluster: bool = False


def _row(plural: str, kind: str, short: str = "", subresources: str = "", categories: str = "", **more: object) -> Row:
    return Row(plural, kind, short, subresources, categories, **more)  # type: ignore[arg-type]


SUBRESOURCES = {
    "scale": Subresource("scale", "Scale", CHANGE, "autoscaling", "v1"),
    "token": Subresource("token", "TokenRequest", CREATE, "authentication.k8s.io", "v1"),
    "eviction": Subresource("eviction", "Eviction", CREATE, "policy", "v1"),
    "binding": Subresource("binding", "Binding", CREATE),
}
NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
HOOKS = "api-extensions"
NOT_ENFORCED = frozenset(("LimitRange", "ResourceQuota"))
VALIDATES: Mapping[str, Validate] = {
    "Pod": pods.pod,
    "MutatingWebhookConfiguration": webhookrules.webhooks,
    "ValidatingWebhookConfiguration": webhookrules.webhooks,
    **workloads.VALIDATES,
    **others.VALIDATES,
}

# In upstream's order of preference.
GROUPS: dict[tuple[str, str], tuple[Row, ...]] = {
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
    allocator = Allocator()
    return [_resource(group, version, row, allocator) for (group, version), rows in GROUPS.items() for row in rows]


def _behaviour(kind: str, allocator: Allocator) -> Behaviour:
    return Behaviour(
        defaults=(DEFAULTS[kind],) if kind in DEFAULTS else (),
        prepares=(*PREPARES.get(kind, ()), *((allocator.prepare,) if kind == "Service" else ())),
        validates=(VALIDATES[kind],) if kind in VALIDATES else (),
        cells=columns.cells(kind),
        warning=f"devkube keeps {kind} objects but does not enforce them" if kind in NOT_ENFORCED else "",
    )


def _resource(group: str, version: str, row: Row, allocator: Allocator) -> Resource:
    return Resource(
        group=group,
        version=version,
        plural=row.plural,
        kind=row.kind,
        singular=row.kind.lower(),
        namespaced=not row.cluster,
        rules=BuiltinRules(group, version, row.kind, _behaviour(row.kind, allocator)),
        verbs=row.verbs,
        short_names=tuple(row.short.split()),
        categories=tuple(row.categories.split()),
        subresources={one.name: one for one in _subresources(row)},
        columns=columns.columns(row.kind),
        scale_paths=(".spec.replicas", ".status.replicas", ".spec.selector"),
    )


def _subresources(row: Row) -> Iterator[Subresource]:
    for name in row.subresources.split():
        verbs = ("update",) if name == "finalize" else CHANGE
        yield SUBRESOURCES.get(name) or Subresource(name, row.kind, verbs)
