"""Every node's kubelet: gives Pods that are bound to a node their lives, and lets those go that were deleted.

A Pod without a node is the scheduler's. One whose node is gone is deleted, as the Pod garbage collector does.
"""

import itertools
import math
from collections import defaultdict
from typing import Final

from devkube.kinds import Object
from devkube.simulation.client import Client
from devkube.simulation.life import PREFIX, Life, annotations, faults
from devkube.simulation.nodes import Scheduler
from devkube.simulation.podstatus import render
from devkube.simulation.workloads import over

_STOP_SECONDS: Final = 0.5  # from SIGTERM to the end, where the grace is no shorter


class Kubelet:
    """`pull` is the seconds that an image takes."""

    def __init__(self, client: Client, scheduler: Scheduler, *, pull: float) -> None:
        self._client, self._scheduler, self._pull = client, scheduler, pull
        self._lives: dict[str, Life] = {}  # by the Pod's uid
        self._images: dict[str, set[str]] = defaultdict(set)  # by node
        self._addresses = itertools.count(2)

    def forget(self, uid: str) -> None:
        self._lives.pop(uid, None)

    async def reconcile(self, pod: Object) -> float | None:
        name, now = pod["spec"].get("nodeName"), self._client.clock.now().timestamp()
        if not name:
            await self._scheduler.place(pod)
            return None
        node = await self._client.get("Node", "", name)
        if node is None:
            await self._client.delete(pod, grace=0)
        elif pod["metadata"].get("deletionTimestamp"):
            return await self._stop(pod, now)
        elif not over(pod):
            host = next((one["address"] for one in (node.get("status") or {}).get("addresses") or ()), "")
            return await self._live(pod, name, host, now)
        return None

    async def _live(self, pod: Object, node: str, host: str, now: float) -> float | None:
        uid = pod["metadata"]["uid"]
        life = self._lives.get(uid)
        if life is None:
            life = self._lives[uid] = Life(pod, self._images[node], self._pull, self._ip(pod, host), now)
            for fault in faults(pod):
                await self._client.tell(pod, "BadAnnotation", fault, warning=True)
        life.advance(pod, now)
        happened, life.happened = life.happened, []
        for own, reason, message, warning in happened:
            field = f"spec.{'initContainers' if own.init else 'containers'}{{{own.name}}}"
            await self._client.tell(pod, reason, message, warning=warning, field=field)
        await self._client.status(pod, render(pod, life, host, now))
        return None if life.due == math.inf else life.due - now

    async def _stop(self, pod: Object, now: float) -> float | None:
        """SIGTERM, and with the grace the end. How the containers ended is not told."""
        if life := self._lives.get(pod["metadata"]["uid"]):
            await self._client.tell(pod, "Killing", "Stopping containers")
            grace = min(_STOP_SECONDS, pod["metadata"]["deletionGracePeriodSeconds"])
            life.stops = min(life.stops, now + grace)
            if life.stops > now:
                return life.stops - now
        await self._client.delete(pod, grace=0)
        return None

    def _ip(self, pod: Object, host: str) -> str:
        if told := annotations(pod).get(f"{PREFIX}pod-ip") or (host if pod["spec"].get("hostNetwork") else ""):
            return told
        number = next(self._addresses)
        return f"10.{244 + number // 65536 % 8}.{number // 256 % 256}.{number % 256}"
