"""What upstream fills in, in place: defaults (`pkg/apis/*/v1/defaults.go`), twice without harm, and what a kind's
strategy derives once the object has its uid (`pkg/registry/*/strategy.go`, PrepareForCreate and PrepareForUpdate).

`DEFAULTS` are by Go struct and hold wherever that struct is: a Pod's containers and those of any template. `FILLS` is
what depends on other fields. Objects are decoded already: types are right and no value is null. What upstream's
admission plugins fill in is not here, but for what webhooks read of Pods: the service account and the tolerations.
"""

import copy
import ipaddress
import itertools
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from devkube.builtin.scalars import quantity_value
from devkube.builtin.types import Json, structs
from devkube.kinds import Object
from devkube.schema import Node

Derive = Callable[[Object, Object | None, str], None]

RBAC = "rbac.authorization.k8s.io"
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_POD: Json = {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
_MODE: Json = {"defaultMode": 0o644}
_HOOK: Json = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
_SELECTORS: Json = {"namespaceSelector": {}, "objectSelector": {}}
_OBJECT: Json = {"spec": {}, "status": {}}
_REPLICAS: Json = {"template": {}, "replicas": 1}
_HISTORY: Json = {"revisionHistoryLimit": 10}
_DAEMONS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
DEFAULTS: Mapping[str, Json] = {
    "core.PodTemplateSpec": {"metadata": {}, "spec": {}},
    "core.PodSpec": _POD | {"securityContext": {}, "terminationGracePeriodSeconds": 30},
    "core.Container": {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    },
    "core.ContainerPort": {"protocol": "TCP"},
    "core.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.ConfigMapVolumeSource": _MODE,
    "core.SecretVolumeSource": _MODE,
    "core.DownwardAPIVolumeSource": _MODE,
    "core.ProjectedVolumeSource": _MODE,
    "core.HostPathVolumeSource": {"type": ""},
    "core.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.PersistentVolumeClaim": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}},
    "core.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem", "resources": {}},
    "core.Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "core.ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "core.ServicePort": {"protocol": "TCP"},
    "core.Secret": {"type": "Opaque"},
    "core.Namespace": {"metadata": {}, "status": {"phase": "Active"}},
    "apps.Deployment": _OBJECT,
    "apps.DeploymentSpec": _REPLICAS | _HISTORY | {"strategy": {}, "progressDeadlineSeconds": 600},
    "apps.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.ReplicaSet": _OBJECT,
    "apps.ReplicaSetSpec": _REPLICAS,
    "apps.ReplicaSetStatus": {"replicas": 0},
    "apps.DaemonSet": _OBJECT,
    "apps.DaemonSetSpec": _HISTORY | {"template": {}, "updateStrategy": {}},
    "apps.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.DaemonSetStatus": dict.fromkeys(_DAEMONS, 0),
    "apps.StatefulSet": _OBJECT,
    "apps.StatefulSetSpec": {
        **(_REPLICAS | _HISTORY),
        "serviceName": "",
        "updateStrategy": {},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "podManagementPolicy": "OrderedReady",
    },
    "apps.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.StatefulSetStatus": {"replicas": 0, "availableReplicas": 0},
    "batch.Job": _OBJECT,
    "batch.JobSpec": {"template": {}},
    "batch.CronJob": _OBJECT,
    "batch.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "batch.JobTemplateSpec": {"metadata": {}, "spec": {}},
    "admissionregistration.ValidatingWebhook": _HOOK | _SELECTORS,
    "admissionregistration.MutatingWebhook": _HOOK | _SELECTORS | {"reinvocationPolicy": "Never"},
    "admissionregistration.RuleWithOperations": {"scope": "*"},
    "admissionregistration.ServiceReference": {"port": 443},
    "rbac.RoleRef": {"apiGroup": RBAC},
}


def default(obj: Json, node: Node) -> None:
    for go, _, value, _ in structs(obj, node):
        fill(value, DEFAULTS.get(go, {}))
        if more := FILLS.get(go):
            more(value)


def fill(obj: Json, values: Json) -> None:
    """Set what is missing or empty text."""
    for key, value in values.items():
        if obj.get(key) in (None, ""):
            obj[key] = copy.deepcopy(value)


def _pod(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    fill(spec, {"enableServiceLinks": True, "serviceAccountName": account})
    given = [one for one in spec.get("tolerations") or () if one.get("effect") in (None, "", "NoExecute")]
    for name in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(one.get("key") in (None, "", name) for one in given):
            one = {"key": name, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            spec.setdefault("tolerations", []).append(one)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if limits := container.get("resources", {}).get("limits"):
            container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}


def _pod_spec(spec: Json) -> None:
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account  # the older name is written too


def pull_policy(image: str) -> str:
    """Always for the tag `latest`, also where no tag is written; a digest alone has no tag."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2] or ("" if digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _volume(volume: Json) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}


def _rolling(values: Json) -> Callable[[Json], None]:
    def strategy(obj: Json) -> None:
        if obj["type"] == "RollingUpdate":
            fill(obj.setdefault("rollingUpdate", {}), values)

    return strategy


def _job(obj: Json) -> None:
    spec = obj["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False})
    fill(spec, {"manualSelector": False, "podReplacementPolicy": "TerminatingOrFailed"})


def _service_port(port: Json) -> None:
    if not port.get("targetPort") and "port" in port:
        port["targetPort"] = port["port"]


def _service(spec: Json) -> None:
    outside = spec["type"] in ("NodePort", "LoadBalancer")
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    if spec["type"] != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"} | ({"externalTrafficPolicy": "Cluster"} if outside else {}))
    if spec["type"] == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})


def _namespace(obj: Json) -> None:
    if name := obj["metadata"].get("name"):
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _subject(subject: Json) -> None:
    if subject.get("kind") in ("User", "Group"):
        fill(subject, {"apiGroup": RBAC})


FILLS: Mapping[str, Callable[[Json], Any]] = {
    "core.Pod": _pod,
    "core.PodSpec": _pod_spec,
    "core.Container": lambda one: fill(one, {"imagePullPolicy": pull_policy(one.get("image", ""))}),
    "core.Probe": lambda probe: probe.update({key: probe.get(key) or value for key, value in _PROBE.items()}),
    "core.Volume": _volume,
    "core.ImageVolumeSource": lambda one: fill(one, {"pullPolicy": pull_policy(one.get("reference", ""))}),
    "core.ServicePort": _service_port,
    "core.ServiceSpec": _service,
    "core.Namespace": _namespace,
    "apps.DeploymentStrategy": _rolling({"maxUnavailable": "25%", "maxSurge": "25%"}),
    "apps.DaemonSetUpdateStrategy": _rolling({"maxUnavailable": 1, "maxSurge": 0}),
    "apps.StatefulSetUpdateStrategy": _rolling({"partition": 0}),
    "batch.Job": _job,
    "rbac.Subject": _subject,
}


_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_RANGE = ipaddress.ip_network("10.96.0.0/12")


def _derive_pod(new: Object, old: Object | None, subresource: str) -> None:
    if old is None:
        new["status"] = {"phase": "Pending", "qosClass": _qos(new["spec"])}


def _qos(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory of all containers."""
    found: dict[str, list[Json]] = {"requests": [], "limits": []}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for kind, into in found.items():
            amounts = container["resources"].get(kind, {})
            into.append({k: v for k, v in amounts.items() if k in ("cpu", "memory") and quantity_value(v) > 0})
    requests, limits = found.values()
    if not any(requests) and not any(limits):
        return "BestEffort"
    return "Guaranteed" if requests == limits and all(len(one) == 2 for one in limits) else "Burstable"


def _derive_job(new: Object, old: Object | None, subresource: str) -> None:
    """A Job selects its own Pods by its uid, unless it says that it brings a selector."""
    spec, meta = new["spec"], new["metadata"]
    if old is not None or spec.get("manualSelector"):
        return
    uid, name = meta.get("uid", ""), meta.get("name", "")
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update({"controller-uid": uid, _UID: uid, "job-name": name, _NAME: name})
    spec["selector"] = {"matchLabels": {_UID: uid}}
    meta["labels"] = meta.get("labels") or dict(labels)


def _derive_namespace(new: Object, old: Object | None, subresource: str) -> None:
    finalizers = new.setdefault("spec", {}).setdefault("finalizers", [])
    if old is None and "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    elif old is not None and subresource != "finalize":
        new["spec"]["finalizers"] = list((old.get("spec") or {}).get("finalizers") or ())
    _namespace(new)  # its name may have been generated meanwhile


def _derive_secret(new: Object, old: Object | None, subresource: str) -> None:
    """stringData becomes data; it is never stored."""
    for key, value in (new.pop("stringData", None) or {}).items():
        new.setdefault("data", {})[key] = b64encode(value.encode()).decode()


def services() -> Derive:
    """Hands out addresses round and round; one per server. Single stack, IPv4; what is given back is not noticed."""
    hosts = itertools.cycle(range(10, _RANGE.num_addresses - 1))

    def service(new: Object, old: Object | None, subresource: str) -> None:
        spec, before = new["spec"], (old or {}).get("spec") or {}
        if spec.get("type") == "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                spec.pop(key, None)
            return
        address = spec.get("clusterIP") or before.get("clusterIP") or str(_RANGE[next(hosts)])
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
        spec.setdefault("ipFamilies", ["IPv4"])
        fill(spec, {"ipFamilyPolicy": "SingleStack"})

    return service


DERIVED: Mapping[str, Derive] = {
    "Pod": _derive_pod,
    "Job": _derive_job,
    "Namespace": _derive_namespace,
    "Secret": _derive_secret,
}
