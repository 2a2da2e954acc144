"""Nodes: those that a cluster begins with, a status for any that has none, and which of them a Pod gets."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from devkube.kinds import Object
from devkube.options import Settings
from devkube.simulation.client import Client, condition, conditions

_CAPACITY: Final = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
_SYSTEM: Final = {
    "kubeletVersion": "v1.36.0",
    "containerRuntimeVersion": "containerd://2.2.0",
    "osImage": "devkube",
    "operatingSystem": "linux",
    "architecture": "amd64",
    "kernelVersion": "6.12.0",
}


class Nodes:
    def __init__(self, client: Client, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._addresses = itertools.count(1)

    async def register(self) -> None:
        """node-1 … node-N, zones a, b and c in turn."""
        for number in range(1, self._settings.nodes + 1):
            zone = {"topology.kubernetes.io/zone": f"devkube-{'abc'[(number - 1) % 3]}"}
            meta = {"name": f"node-{number}", "labels": {**zone, **self._settings.node_labels}}
            await self._client.create("Node", {"metadata": meta})

    async def reconcile(self, node: Object) -> None:
        if condition(node, "Ready"):
            return
        name, old, now = node["metadata"]["name"], node.get("status") or {}, self._client.clock.timestamp()
        system = {"arch": "amd64", "os": "linux", "hostname": name}
        labels = {f"kubernetes.io/{key}": value for key, value in system.items()}
        node = await self._client.patch(node, {"metadata": {"labels": labels}})
        number = next(self._addresses)
        address = {"type": "InternalIP", "address": f"172.18.{number // 256}.{number % 256}"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        capacity = {"capacity": _CAPACITY, "allocatable": _CAPACITY}
        told = {"addresses": [address], "nodeInfo": _SYSTEM, **capacity, **old}
        await self._client.status(node, {**told, "conditions": conditions(node, now, ready)})


class Scheduler:
    """Every node in turn of those that the Pod's nodeSelector matches and that are not cordoned."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = itertools.count()

    async def place(self, pod: Object) -> None:
        if pod["metadata"].get("deletionTimestamp") or pod["spec"].get("schedulingGates"):
            return
        nodes = await self._client.list("Node")
        open_ = [one for one in nodes if not (one.get("spec") or {}).get("unschedulable")]
        fitting = [one["metadata"]["name"] for one in open_ if chosen(pod["spec"], one)]
        if not fitting:
            why = f"{len(nodes) - len(open_)} are unschedulable, {len(open_)} do not match the Pod's nodeSelector"
            text = f"0/{len(nodes)} nodes are available: {why}."
            new = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
            told = conditions(pod, self._client.clock.timestamp(), new)
            await self._client.status(pod, {**pod["status"], "conditions": told})
            await self._client.tell(pod, "FailedScheduling", text, warning=True)
            return
        name = fitting[next(self._turn) % len(fitting)]
        namespace, own = pod["metadata"]["namespace"], pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": name}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": own}, "target": target}
        await self._client.ask("POST", f"{self._client.path('Pod', namespace, own)}/binding", binding)
        await self._client.tell(pod, "Scheduled", f"Successfully assigned {namespace}/{own} to {name}")


def chosen(spec: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
