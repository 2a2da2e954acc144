"""Nodes: those that a cluster begins with, and a status for any that has none."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from devkube.kinds import Object
from devkube.simulation.client import Client, condition

CAPACITY: Final = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
_READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


class Nodes:
    def __init__(self, client: Client, *, count: int, labels: Mapping[str, str], capacity: Mapping[str, str]) -> None:
        self._client, self._count, self._labels, self._capacity = client, count, labels, capacity

    async def register(self) -> None:
        """node-1 … node-N, zones a, b and c in turn."""
        for number in range(1, self._count + 1):
            zone = f"devkube-{'abc'[(number - 1) % 3]}"
            labels = {"topology.kubernetes.io/region": "devkube", "topology.kubernetes.io/zone": zone, **self._labels}
            await self._client.create("Node", {"metadata": {"name": f"node-{number}", "labels": labels}})

    async def reconcile(self, namespace: str, name: str) -> None:
        node = await self._client.get("Node", "", name)
        if node is None:
            return
        meta = node["metadata"]
        system = ("arch", "amd64"), ("os", "linux"), ("hostname", name)
        wanted = {f"kubernetes.io/{key}": value for key, value in system}
        if missing := {k: v for k, v in wanted.items() if k not in (meta.get("labels") or {})}:
            node = await self._client.patch(node, {"metadata": {"labels": missing}})
        if not condition(node, "Ready"):
            await self._client.status(node, self._status(node))
            await self._client.tell(node, "NodeReady", f"Node {name} status is now: NodeReady", host=name)

    def _status(self, node: Object) -> Mapping[str, Any]:
        old, now = node.get("status") or {}, self._client.clock.timestamp()
        capacity = {**CAPACITY, **self._capacity, **(old.get("capacity") or {})}
        ready = {**_READY, "lastHeartbeatTime": now, "lastTransitionTime": now}
        system = {
            "kubeletVersion": "v1.36.0",
            "containerRuntimeVersion": "containerd://2.2.0",
            "osImage": "devkube",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "kernelVersion": "6.12.0",
        }
        name = node["metadata"]["name"]
        addresses = [{"type": "InternalIP", "address": _ip(name)}, {"type": "Hostname", "address": name}]
        return {
            "addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": system,
            **old,
            "capacity": capacity,
            "allocatable": {**capacity, **(old.get("allocatable") or {})},
            "conditions": [*(old.get("conditions") or ()), ready],
        }


def address(node: Object) -> str:
    found = (node.get("status") or {}).get("addresses") or ()
    return next((one["address"] for one in found if one["type"] == "InternalIP"), "")


def _ip(name: str) -> str:
    """Of one's name: the same in every run, different for different nodes as good as always."""
    number = int(name.removeprefix("node-")) if name.removeprefix("node-").isdecimal() else None
    if number is None or number > 60_000:
        number = 60_001 + int(hashlib.sha256(name.encode()).hexdigest(), 16) % 5000
    return f"172.18.{number // 256}.{number % 256}"
