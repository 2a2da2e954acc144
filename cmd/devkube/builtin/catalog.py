"""Every built-in resource that is served, as rows of discovery, and one kind behind the protocol `kinds.Rules`.

Facts: upstream's discovery documents of 1.36; what is left out stands in devkube's README. The schema decides what
decodes; tables by Go struct and by kind decide the rest. No schema is read before the first object arrives.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from devkube.builtin import types
from devkube.builtin.columns import cells, columns
from devkube.builtin.defaults import DERIVED, Derive, default, services
from devkube.builtin.document import schema_of
from devkube.builtin.fields import problems
from devkube.builtin.rules import KINDS, STRUCTS
from devkube.errors import Cause
from devkube.kinds import ALL_VERBS, FieldValidation, Object, Resource, Subresource
from devkube.schema import Schema

CHANGE = ("get", "patch", "update")
CREATE = ("create",)
RBAC, HOOKS = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
CRDS = "apiextensions.k8s.io/v1"
# Group and version in upstream's order of preference, plural, kind, short names, subresources, categories.
ROWS: tuple[tuple[str, ...], ...] = (
    ("v1", "configmaps", "ConfigMap", "cm"),
    ("v1", "endpoints", "Endpoints", "ep"),
    ("v1", "events", "Event", "ev"),
    ("v1", "namespaces", "Namespace", "ns", "status finalize"),
    ("v1", "nodes", "Node", "no", "status"),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "status"),
    ("v1", "persistentvolumes", "PersistentVolume", "pv", "status"),
    ("v1", "pods", "Pod", "po", "status binding eviction", "all"),
    ("v1", "secrets", "Secret"),
    ("v1", "serviceaccounts", "ServiceAccount", "sa", "token"),
    ("v1", "services", "Service", "svc", "status", "all"),
    ("apps/v1", "controllerrevisions", "ControllerRevision"),
    ("apps/v1", "daemonsets", "DaemonSet", "ds", "status", "all"),
    ("apps/v1", "deployments", "Deployment", "deploy", "status scale", "all"),
    ("apps/v1", "replicasets", "ReplicaSet", "rs", "status scale", "all"),
    ("apps/v1", "statefulsets", "StatefulSet", "sts", "status scale", "all"),
    ("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview"),
    ("authentication.k8s.io/v1", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview"),
    ("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "status", "all"),
    ("batch/v1", "cronjobs", "CronJob", "cj", "status", "all"),
    ("batch/v1", "jobs", "Job", "", "status", "all"),
    ("networking.k8s.io/v1", "ingresses", "Ingress", "ing", "status"),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol"),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "status"),
    (RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    (RBAC, "clusterroles", "ClusterRole"),
    (RBAC, "rolebindings", "RoleBinding"),
    (RBAC, "roles", "Role"),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc"),
    (HOOKS, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "", "api-extensions"),
    (HOOKS, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "", "api-extensions"),
    (CRDS, "customresourcedefinitions", "CustomResourceDefinition", "crd crds", "status", "api-extensions"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc"),
    ("coordination.k8s.io/v1", "leases", "Lease"),
    ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
)
CLUSTER_WIDE = frozenset(
    (
        *("Namespace", "Node", "PersistentVolume", "StorageClass", "PriorityClass"),
        *("SelfSubjectReview", "TokenReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview"),
        *("SubjectAccessReview", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    )
)
# Those that are of another kind than what they belong to.
SUBRESOURCES = {
    "scale": Subresource("scale", "Scale", CHANGE, "autoscaling", "v1"),
    "token": Subresource("token", "TokenRequest", CREATE, "authentication.k8s.io", "v1"),
    "eviction": Subresource("eviction", "Eviction", CREATE, "policy", "v1"),
    "binding": Subresource("binding", "Binding", CREATE),
}


@dataclass(frozen=True)
class BuiltinRules:
    group: str
    version: str
    kind: str
    derive: Derive | None = field(default=None, repr=False)  # of this server's own: addresses of Services

    @cached_property
    def schema(self) -> Schema:
        return schema_of(self.group, self.version, self.kind)

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        gone: list[str] = []
        try:
            types.decode(obj, self.schema.node, "", gone)
        except (types.Undecodable, RecursionError) as error:
            raise types.refused(self.kind, self.version, str(error)) from None
        return types.told(self.kind, self.version, gone, validation)

    def default(self, obj: Object) -> None:
        default(obj, self.schema.node)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        if derive := self.derive or DERIVED.get(self.kind):
            derive(new, old, subresource)

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        found = list(problems(new, self.schema.node, STRUCTS))
        if rule := KINDS.get(self.kind):
            found += [cause for cause in rule(new, old, subresource) if cause not in found]
        return found

    def table(self, obj: Object, now: float) -> list[Any]:
        return cells(self.kind, obj, now)


def builtin_resources() -> list[Resource]:
    """Fresh rows for one server: what its rules count (addresses of Services) is that server's own."""
    derive = {"Service": services()}
    found = []
    for group_version, plural, kind, *more in ROWS:
        group, _, version = group_version.rpartition("/")
        short, subresources, categories = (*more, "", "", "")[:3]
        verbs = tuple(verb for verb in ALL_VERBS if (kind, verb) != ("Namespace", "deletecollection"))
        own = {"status": Subresource("status", kind, CHANGE), "finalize": Subresource("finalize", kind, ("update",))}
        one = Resource(
            group=group,
            version=version,
            plural=plural,
            kind=kind,
            singular=kind.lower(),
            namespaced=kind not in CLUSTER_WIDE,
            rules=BuiltinRules(group, version, kind, derive.get(kind)),
            verbs=CREATE if kind.endswith("Review") else verbs,
            short_names=tuple(short.split()),
            categories=tuple(categories.split()),
            subresources={name: (SUBRESOURCES | own)[name] for name in subresources.split()},
            columns=columns(kind),
            scale_paths=(".spec.replicas", ".status.replicas", ".spec.selector"),
        )
        found.append(one)
    return found
