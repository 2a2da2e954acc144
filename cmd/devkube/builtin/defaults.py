"""What upstream fills in, kind by kind (`pkg/apis/*/v1/defaults.go`), in place, and twice without harm.

Objects are decoded already: types are right and no value is null. What upstream's admission plugins fill in is not
here, but for a Pod's `serviceAccountName`, which webhooks read. Pods and their templates are in `poddefaults`.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from devkube.builtin.poddefaults import pod, pod_spec
from devkube.kinds import Object

Json = dict[str, Any]


def child(obj: Json, *path: str) -> Json:
    """The object at `path`, made where it is missing."""
    for key in path:
        obj = obj.setdefault(key, {})
    return obj


def fill(obj: Json, **values: Any) -> None:
    """Set what is missing or empty text; lists and maps are copied."""
    for key, value in values.items():
        if obj.get(key) in (None, ""):
            obj[key] = copy.deepcopy(value)


def _template(obj: Object) -> Json:
    """A Pod template's defaults; gives the workload's spec."""
    spec = child(obj, "spec")
    pod_spec(child(spec, "template", "spec"))
    child(spec, "template", "metadata")
    return spec


def deployment(obj: Object) -> None:
    spec = _template(obj)
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = child(spec, "strategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", "25%")  # an empty text is refused, not filled
        rolling.setdefault("maxSurge", "25%")


def replica_set(obj: Object) -> None:
    fill(_template(obj), replicas=1)


def daemon_set(obj: Object) -> None:
    spec = _template(obj)
    fill(spec, revisionHistoryLimit=10)
    strategy = child(spec, "updateStrategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)


def stateful_set(obj: Object) -> None:
    spec = _template(obj)
    spec.setdefault("serviceName", "")
    fill(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        child(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        fill(strategy["rollingUpdate"], partition=0)
    fill(child(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        persistent_volume_claim(claim)


def job(obj: Object) -> None:
    spec = _template(obj)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    limit = 2**31 - 1 if "backoffLimitPerIndex" in spec else 6
    fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False, manualSelector=False)
    fill(spec, podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels:
        fill(child(obj, "metadata"), labels=labels)


def service(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        fill(child(spec, "sessionAffinityConfig", "clientIP"), timeoutSeconds=10800)
    for port in spec.get("ports") or ():
        fill(port, protocol="TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]
    outside = spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
    if outside:
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
        fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)


def secret(obj: Object) -> None:
    fill(obj, type="Opaque")


def namespace(obj: Object) -> None:
    meta = child(obj, "metadata")
    if meta.get("name"):
        child(meta, "labels")["kubernetes.io/metadata.name"] = meta["name"]
    fill(child(obj, "status"), phase="Active")


def persistent_volume_claim(obj: Object) -> None:
    fill(child(obj, "status"), phase="Pending")
    fill(child(obj, "spec"), volumeMode="Filesystem")
    child(obj["spec"], "resources")


def node(obj: Object) -> None:
    status = obj.get("status") or {}
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _webhooks(obj: Object, **more: Any) -> None:
    for hook in obj.get("webhooks") or ():
        fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10, **more)
        fill(hook, namespaceSelector={}, objectSelector={})
        for rule in hook.get("rules") or ():
            fill(rule, scope="*")
        if reference := (hook.get("clientConfig") or {}).get("service"):
            fill(reference, port=443)


def validating_webhooks(obj: Object) -> None:
    _webhooks(obj)


def mutating_webhooks(obj: Object) -> None:
    _webhooks(obj, reinvocationPolicy="Never")


RBAC = "rbac.authorization.k8s.io"


def binding(obj: Object) -> None:
    fill(child(obj, "roleRef"), apiGroup=RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=RBAC)


DEFAULTS: Mapping[str, Callable[[Object], None]] = {
    "Pod": pod,
    "Deployment": deployment,
    "ReplicaSet": replica_set,
    "DaemonSet": daemon_set,
    "StatefulSet": stateful_set,
    "Job": job,
    "Service": service,
    "Secret": secret,
    "Namespace": namespace,
    "PersistentVolumeClaim": persistent_volume_claim,
    "Node": node,
    "MutatingWebhookConfiguration": mutating_webhooks,
    "ValidatingWebhookConfiguration": validating_webhooks,
    "RoleBinding": binding,
    "ClusterRoleBinding": binding,
}
