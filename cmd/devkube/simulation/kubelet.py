"""Every node's kubelet: gives Pods that are bound to a node their lives, and lets those go that were deleted.

A Pod whose node is gone is deleted, as the Pod garbage collector does.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable

from devkube.kinds import Object
from devkube.simulation.client import Client
from devkube.simulation.lives import ENDED, Image, Life
from devkube.simulation.nodes import address
from devkube.simulation.plans import PREFIX, faults
from devkube.simulation.podstatus import render


class Kubelet:
    """`of` makes the client of a node's kubelet; `pull` is the seconds that an image takes."""

    def __init__(self, of: Callable[[str], Client], collector: Client, *, pull: float) -> None:
        self._of, self._collector, self._pull = of, collector, pull
        self._lives: dict[tuple[str, str], Life] = {}
        self._images: dict[str, set[str]] = defaultdict(set)
        self._addresses = itertools.count(2)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        pod = await self._collector.get("Pod", namespace, name)
        if pod is None:
            self._lives.pop((namespace, name), None)
            return None
        node_name = pod["spec"].get("nodeName")
        if not node_name:
            return None
        node = await self._collector.get("Node", "", node_name)
        if node is not None:
            return await self._live(pod, node)
        await self._collector.delete(pod, grace=0)
        return None

    async def _live(self, pod: Object, node: Object) -> float | None:
        meta, node_name = pod["metadata"], node["metadata"]["name"]
        key, client = (meta["namespace"], meta["name"]), self._of(node_name)
        life, now = self._lives.get(key), client.now()
        if life is None or life.uid != meta["uid"]:
            if (pod.get("status") or {}).get("phase") in ENDED and not meta.get("deletionTimestamp"):
                return None
            life = self._lives[key] = Life(meta["uid"], now, self._ip(pod, node))
            for fault in faults(pod):
                await client.tell(pod, "BadAnnotation", fault, warning=True, host=node_name)
        images = self._images[node_name]
        was = life.ended
        for one in life.advance(pod, Image(frozenset(images), self._pull), now):
            field = _field(pod, one.container)
            await client.tell(pod, one.reason, one.message, warning=one.warning, field=field, host=node_name)
        images.update(one.image for one in life.containers.values() if one.pulled)
        if not was or not life.killed:
            pod = await client.status(pod, render(pod, life, address(node), now))
        if life.killed and meta.get("deletionTimestamp"):
            await client.delete(pod, grace=0)
        return None if life.due is None else life.due - now

    def _ip(self, pod: Object, node: Object) -> str:
        told: str = (pod["metadata"].get("annotations") or {}).get(PREFIX + "pod-ip", "")
        if told or pod["spec"].get("hostNetwork"):
            return told or address(node)
        number = next(self._addresses)
        return f"10.{244 + number // 65536 % 8}.{number // 256 % 256}.{number % 256}"


def _field(pod: Object, container: str) -> str:
    if not container:
        return ""
    inits = {one["name"] for one in pod["spec"].get("initContainers") or ()}
    return f"spec.{'initContainers' if container in inits else 'containers'}{{{container}}}"
