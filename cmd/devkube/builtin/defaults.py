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


def replication_controller(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, replicas=1)
    if "template" in spec:
        _template(obj)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels:
            fill(spec, selector=spec.get("selector") or labels)
            fill(child(obj, "metadata"), labels=labels)


def _job_spec(spec: Json) -> None:
    pod_spec(child(spec, "template", "spec"))
    child(spec, "template", "metadata")


def job(obj: Object) -> None:
    spec = child(obj, "spec")
    _job_spec(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    limit = 2**31 - 1 if "backoffLimitPerIndex" in spec else 6
    fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False, manualSelector=False)
    fill(spec, podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels:
        fill(child(obj, "metadata"), labels=labels)


def cron_job(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    _job_spec(child(spec, "jobTemplate", "spec"))
    child(spec, "jobTemplate", "metadata")


def pod_template(obj: Object) -> None:
    pod_spec(child(obj, "template", "spec"))


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


def persistent_volume(obj: Object) -> None:
    fill(child(obj, "status"), phase="Pending")
    spec = child(obj, "spec")
    fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def persistent_volume_claim(obj: Object) -> None:
    fill(child(obj, "status"), phase="Pending")
    fill(child(obj, "spec"), volumeMode="Filesystem")
    child(obj["spec"], "resources")


def endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, protocol="TCP")


def endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        fill(port, protocol="TCP")


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


def network_policy(obj: Object) -> None:
    spec = child(obj, "spec")
    child(spec, "podSelector")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            fill(port, protocol="TCP")


def ingress_class(obj: Object) -> None:
    if parameters := (obj.get("spec") or {}).get("parameters"):
        fill(parameters, scope="Cluster")


def autoscaler(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if (behavior := spec.get("behavior")) is not None:
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
        fill(child(behavior, "scaleUp"), selectPolicy="Max", policies=[pods, percent], stabilizationWindowSeconds=0)
        fill(child(behavior, "scaleDown"), selectPolicy="Max", policies=[percent])


def storage_class(obj: Object) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def csi_driver(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False)
    fill(spec, fsGroupPolicy="ReadWriteOnceWithFSType", seLinuxMount=False)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def priority_class(obj: Object) -> None:
    fill(obj, preemptionPolicy="PreemptLowerPriority")


def limit_range(obj: Object) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**item.get("max", {}), **item.get("default", {})}
            requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
            for key, value in (("default", limits), ("defaultRequest", requests)):
                if value:
                    item[key] = value


DEFAULTS: Mapping[str, Callable[[Object], None]] = {
    "Pod": pod,
    "PodTemplate": pod_template,
    "Deployment": deployment,
    "ReplicaSet": replica_set,
    "DaemonSet": daemon_set,
    "StatefulSet": stateful_set,
    "ReplicationController": replication_controller,
    "Job": job,
    "CronJob": cron_job,
    "Service": service,
    "Secret": secret,
    "Namespace": namespace,
    "PersistentVolume": persistent_volume,
    "PersistentVolumeClaim": persistent_volume_claim,
    "Endpoints": endpoints,
    "EndpointSlice": endpoint_slice,
    "Node": node,
    "MutatingWebhookConfiguration": mutating_webhooks,
    "ValidatingWebhookConfiguration": validating_webhooks,
    "RoleBinding": binding,
    "ClusterRoleBinding": binding,
    "NetworkPolicy": network_policy,
    "IngressClass": ingress_class,
    "HorizontalPodAutoscaler": autoscaler,
    "StorageClass": storage_class,
    "CSIDriver": csi_driver,
    "PriorityClass": priority_class,
    "LimitRange": limit_range,
}
