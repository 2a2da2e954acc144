"""What `kubectl get` and `-o wide` show of each kind: names of columns and their cells.

Rule: upstream's `pkg/printers/internalversion`. The leading Name is put in by `tables`, but for Events, which bring
their own at the end. A column of priority 1 is shown with `-o wide` only. Of Pods and what is counted see `podcells`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from devkube.builtin.cells import (
    AGE,
    BINDING,
    NONE,
    SELECTOR,
    TEMPLATE,
    Row,
    about,
    address,
    claim,
    completions,
    containers,
    duration,
    few,
    first_seen,
    flag,
    get,
    job_status,
    kernel,
    last_seen,
    metrics,
    modes,
    node_status,
    number,
    of_event,
    outside,
    pairs,
    phase,
    ready,
    roles,
    selector,
    service_ports,
    source,
    subset_addresses,
    text,
    told,
)
from devkube.builtin.podcells import POD, since
from devkube.kinds import Column, Object

REPLICAS = (
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
)
ROWS: Mapping[str, tuple[Row, ...]] = {
    "Pod": POD,
    "PodTemplate": (
        *((name, kind, 0, cell) for name, kind, _, cell in containers("template.spec")),
        told("Pod Labels", lambda obj: pairs(get(obj, "template.metadata.labels", {}))),
    ),
    "PodDisruptionBudget": (
        text("Min Available", "spec.minAvailable", "N/A"),
        text("Max Unavailable", "spec.maxUnavailable", "N/A"),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    "ReplicationController": (
        *REPLICAS,
        AGE,
        *TEMPLATE,
        told("Selector", lambda obj: pairs(get(obj, "spec.selector", {})), 1),
    ),
    "ReplicaSet": (*REPLICAS, AGE, *TEMPLATE, SELECTOR),
    "Deployment": (
        told("Ready", ready),
        number("Up-to-date", "status.updatedReplicas"),
        number("Available", "status.availableReplicas"),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    "StatefulSet": (told("Ready", ready), AGE, *TEMPLATE),
    "DaemonSet": (
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        told("Node Selector", lambda obj: pairs(get(obj, "spec.template.spec.nodeSelector", {}))),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    "Job": (
        told("Status", job_status),
        told("Completions", completions),
        ("Duration", "string", 0, duration),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    "CronJob": (
        text("Schedule", "spec.schedule"),
        text("Timezone", "spec.timeZone", NONE),
        told("Suspend", lambda obj: str(get(obj, "spec.suspend", False)), type="boolean"),
        told("Active", lambda obj: len(get(obj, "status.active", ())), type="integer"),
        ("Last Schedule", "string", 0, lambda obj, now: since(get(obj, "status.lastScheduleTime"), now, none=NONE)),
        AGE,
        *containers("spec.jobTemplate.spec.template.spec"),
        told("Selector", lambda obj: selector(get(obj, "spec.jobTemplate.spec.selector")), 1),
    ),
    "Service": (
        text("Type", "spec.type"),
        told("Cluster-IP", lambda obj: next(iter(get(obj, "spec.clusterIPs", ())), NONE)),
        told("External-IP", outside),
        told("Port(s)", service_ports),
        AGE,
        told("Selector", lambda obj: pairs(get(obj, "spec.selector", {})), 1),
    ),
    "Ingress": (
        text("Class", "spec.ingressClassName", NONE),
        told("Hosts", lambda obj: few((r["host"] for r in get(obj, "spec.rules", ()) if r.get("host")), none="*")),
        told(
            "Address",
            lambda obj: ",".join(
                one.get("ip") or one.get("hostname") or "" for one in get(obj, "status.loadBalancer.ingress", ())
            ),
        ),
        told("Ports", lambda obj: "80, 443" if get(obj, "spec.tls") else "80"),
        AGE,
    ),
    "IngressClass": (
        text("Controller", "spec.controller"),
        told(
            "Parameters",
            lambda obj: (
                f"{get(obj, 'spec.parameters.kind')}/{get(obj, 'spec.parameters.name')}"
                if get(obj, "spec.parameters")
                else NONE
            ),
        ),
        AGE,
    ),
    "Endpoints": (told("Endpoints", lambda obj: few(subset_addresses(obj))), AGE),
    "EndpointSlice": (
        text("AddressType", "addressType"),
        told(
            "Ports",
            lambda obj: few(
                (str(p.get("port") or p.get("name") or "*") for p in get(obj, "ports", ())), none="<unset>"
            ),
        ),
        told(
            "Endpoints",
            lambda obj: few((a for e in get(obj, "endpoints", ()) for a in e.get("addresses") or ()), none="<unset>"),
        ),
        AGE,
    ),
    "Node": (
        told("Status", node_status),
        told("Roles", roles),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion"),
        told("Internal-IP", address("InternalIP"), 1),
        told("External-IP", address("ExternalIP"), 1),
        text("OS-Image", "status.nodeInfo.osImage", "<unknown>", 1),
        told("Kernel-Version", kernel, 1),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>", 1),
    ),
    "Event": (
        ("Last Seen", "string", 0, last_seen),
        text("Type", "type"),
        text("Reason", "reason"),
        of_event("Object", about),
        of_event("Subobject", lambda obj: get(obj, "involvedObject.fieldPath", ""), 1),
        of_event("Source", source, 1),
        of_event("Message", lambda obj: get(obj, "message", "").strip()),
        ("First Seen", "string", 1, first_seen),
        of_event("Count", lambda obj: get(obj, "series.count") or get(obj, "count") or 1, 1),
        text("Name", "metadata.name", "", 1),
    ),
    "Namespace": (text("Status", "status.phase"), AGE),
    "Secret": (
        text("Type", "type"),
        told("Data", lambda obj: len(obj.get("data") or ()), type="integer"),
        AGE,
    ),
    "ConfigMap": (
        told("Data", lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), type="integer"),
        AGE,
    ),
    "PersistentVolume": (
        text("Capacity", "spec.capacity.storage"),
        told("Access Modes", modes("spec.accessModes")),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        told("Status", phase),
        told("Claim", claim),
        text("StorageClass", "spec.storageClassName"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        text("Reason", "status.reason"),
        AGE,
        text("VolumeMode", "spec.volumeMode", "<unset>", 1),
    ),
    "PersistentVolumeClaim": (
        told("Status", phase),
        text("Volume", "spec.volumeName"),
        told("Capacity", lambda obj: get(obj, "status.capacity.storage", "") if get(obj, "spec.volumeName") else ""),
        told("Access Modes", lambda obj: modes("status.accessModes")(obj) if get(obj, "spec.volumeName") else ""),
        text("StorageClass", "spec.storageClassName"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        AGE,
        text("VolumeMode", "spec.volumeMode", "<unset>", 1),
    ),
    "HorizontalPodAutoscaler": (
        told("Reference", lambda obj: f"{get(obj, 'spec.scaleTargetRef.kind')}/{get(obj, 'spec.scaleTargetRef.name')}"),
        told("Targets", metrics),
        text("MinPods", "spec.minReplicas", "<unset>"),
        number("MaxPods", "spec.maxReplicas"),
        number("Replicas", "status.currentReplicas"),
        AGE,
    ),
    "NetworkPolicy": (told("Pod-Selector", lambda obj: selector(get(obj, "spec.podSelector"))), AGE),
    "ClusterRole": (("Created At", "date", 0, lambda obj, now: get(obj, "metadata.creationTimestamp")),),
    "Role": (("Created At", "date", 0, lambda obj, now: get(obj, "metadata.creationTimestamp")),),
    "CustomResourceDefinition": (("Created At", "date", 0, lambda obj, now: get(obj, "metadata.creationTimestamp")),),
    "RoleBinding": BINDING,
    "ClusterRoleBinding": BINDING,
    "Lease": (text("Holder", "spec.holderIdentity"), AGE),
    "StorageClass": (
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        flag("AllowVolumeExpansion", "allowVolumeExpansion"),
        AGE,
    ),
    "ControllerRevision": (
        told(
            "Controller",
            lambda obj: next(
                (
                    f"{one.get('kind', '').lower()}.{one.get('apiVersion', '').partition('/')[0]}/{one.get('name')}"
                    for one in get(obj, "metadata.ownerReferences", ())
                    if one.get("controller")
                ),
                NONE,
            ),
        ),
        number("Revision", "revision"),
        AGE,
    ),
    "PriorityClass": (
        number("Value", "value"),
        flag("Global-Default", "globalDefault"),
        AGE,
        text("PreemptionPolicy", "preemptionPolicy", "", 1),
    ),
    "RuntimeClass": (text("Handler", "handler"), AGE),
    "VolumeAttachment": (
        text("Attacher", "spec.attacher"),
        text("PV", "spec.source.persistentVolumeName"),
        text("Node", "spec.nodeName"),
        flag("Attached", "status.attached"),
        AGE,
    ),
    "CSINode": (told("Drivers", lambda obj: len(get(obj, "spec.drivers", ())), type="integer"), AGE),
    "CSIDriver": (
        flag("AttachRequired", "spec.attachRequired", True),
        flag("PodInfoOnMount", "spec.podInfoOnMount"),
        flag("StorageCapacity", "spec.storageCapacity"),
        told("Modes", lambda obj: ",".join(get(obj, "spec.volumeLifecycleModes", ())) or NONE),
        AGE,
    ),
    "CSIStorageCapacity": (text("StorageClassName", "storageClassName"), text("Capacity", "capacity")),
    "MutatingWebhookConfiguration": (told("Webhooks", lambda obj: len(obj.get("webhooks") or ()), type="integer"), AGE),
    "ValidatingWebhookConfiguration": (
        told("Webhooks", lambda obj: len(obj.get("webhooks") or ()), type="integer"),
        AGE,
    ),
    "ServiceAccount": (AGE,),
}
DEFAULT: tuple[Row, ...] = (AGE,)


def columns(kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, type, "", priority=wide) for name, type, wide, _ in ROWS.get(kind, DEFAULT))


def cells(kind: str) -> Callable[[Object, float], list[Any]]:
    found = [cell for _, _, _, cell in ROWS.get(kind, DEFAULT)]
    return lambda obj, now: [cell(obj, now) for cell in found]
