"""Built-in kinds, narrowed to what handlers read. Nothing here can hold a secret: no environment, arguments or data.

What an object of ours looks like in full is never read back: server-side apply and `generation` tell when somebody else
changed it. Annotations are kept where a handler reads them (subscribers.kubernetes.kinds lists the names).

Rules: design.md section 2, "Privacy" and "Shapes".
"""

from typing import Any, Final

import msgspec

from crds.meta import Condition, Metadata

PODS: Final = "pods"
SERVICES: Final = "services"
NAMESPACES: Final = "namespaces"
NODES: Final = "nodes"
CONFIG_MAPS: Final = "configmaps"
DEPLOYMENTS: Final = "deployments.apps"
REPLICA_SETS: Final = "replicasets.apps"
AUTOSCALERS: Final = "horizontalpodautoscalers.autoscaling"


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of what is read of a built-in kind."""


class Waiting(Part, frozen=True):
    reason: str = ""


class Terminated(Part, frozen=True):
    reason: str = ""
    message: str = ""
    exit_code: int = 0


class Running(Part, frozen=True):
    started_at: str | None = None


class ContainerState(Part, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(Part, frozen=True):
    type: str
    status: str = ""


class PodStatus(Part, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Container(Part, frozen=True):
    name: str
    image: str = ""


class PodSpec(Part, frozen=True):
    node_name: str = ""
    containers: list[Container] = []


class Pod(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    @property
    def terminal(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


class TemplateMetadata(Part, frozen=True):
    """API servers write `creationTimestamp: null` into templates: it is no object's metadata."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplate(Part, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: PodSpec = PodSpec()


class LabelSelector(Part, frozen=True):
    match_labels: dict[str, str] = {}


class DeploymentSpec(Part, frozen=True):
    replicas: int | None = None
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()


class DeploymentStatus(Part, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: list[Condition] = []


class Deployment(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: Metadata
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSet(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Between a Pod and its Deployment: only its owner matters."""

    metadata: Metadata


class ServicePort(Part, frozen=True):
    name: str = ""
    port: int = 0
    target_port: int | str = 0
    protocol: str = "TCP"


class ServiceSpec(Part, frozen=True):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []


class Service(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()


class HorizontalPodAutoscaler(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: Metadata
    spec: dict[str, Any] = {}


class Namespace(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: Metadata


class Node(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where Pods may run: only its labels are read."""

    metadata: Metadata


class ConfigMapData(Part, frozen=True):
    """Of all that a ConfigMap may hold, the one part that is read; `problem` is what was wrong with it as it was."""

    kernelcache: str = ""
    problem: str = ""


class ConfigMap(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """KServe's inferenceservice-config. No other ConfigMap is watched."""

    metadata: Metadata
    data: ConfigMapData = ConfigMapData()
