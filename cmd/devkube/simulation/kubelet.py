"""Every node's kubelet: gives Pods that are bound to a node their lives, and lets those go that were deleted.

A Pod whose node is gone is deleted after 40 s as the Pod garbage collector does; on a node whose Ready condition is
not True nothing moves, and its Pods are not Ready.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from devkube.kinds import Object
from devkube.simulation.client import Client, unix
from devkube.simulation.lives import ENDED, Image, Life
from devkube.simulation.nodes import address
from devkube.simulation.plans import PREFIX, faults
from devkube.simulation.podstatus import condition, render, set_condition

_QUARANTINE: Final = 40.0  # seconds a Pod survives its node


class Kubelet:
    """`of` makes the client of a node's kubelet; `pull` is the seconds that an image takes."""

    def __init__(self, of: Callable[[str], Client], collector: Client, *, pull: float) -> None:
        self._of, self._collector, self._pull = of, collector, pull
        self._lives: dict[tuple[str, str], Life] = {}
        self._images: dict[str, set[str]] = defaultdict(set)
        self._addresses = itertools.count(2)
        self._orphaned: dict[str, float] = {}  # uid -> since when its node is missed

    async def reconcile(self, namespace: str, name: str) -> float | None:
        pod = await self._collector.get("Pod", namespace, name)
        if pod is None:
            self._lives.pop((namespace, name), None)
            return None
        node_name = pod["spec"].get("nodeName")
        if not node_name:
            return None
        node = await self._collector.get("Node", "", node_name)
        if node is None:
            return await self._without_node(pod)
        if condition(node, "Ready").get("status") != "True":
            await self._lost(pod)
            return None
        return await self._live(pod, node)

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

    async def _without_node(self, pod: Object) -> float | None:
        now, uid = self._collector.now(), pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            left = unix(pod["metadata"]["deletionTimestamp"]) - now
        else:
            left = self._orphaned.setdefault(uid, now) + _QUARANTINE - now
        if left > 0:
            return left
        self._orphaned.pop(uid, None)
        await self._collector.delete(pod, grace=0)
        return None

    async def _lost(self, pod: Object) -> None:
        if condition(pod, "Ready").get("status") != "True":
            return
        conditions = [dict(one) for one in pod["status"]["conditions"]]
        set_condition(conditions, {"type": "Ready", "status": "False"}, self._collector.clock.timestamp())
        await self._collector.status(pod, {**pod["status"], "conditions": conditions})
        await self._collector.tell(pod, "NodeNotReady", "Node is not ready", warning=True)


def _field(pod: Object, container: str) -> str:
    if not container:
        return ""
    inits = {one["name"] for one in pod["spec"].get("initContainers") or ()}
    return f"spec.{'initContainers' if container in inits else 'containers'}{{{container}}}"
