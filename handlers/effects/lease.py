"""Who leads: a Lease of coordination.k8s.io, renewed while it is held, and given up in time.

The holder stops leading `margin` before its Lease could be taken by somebody else, on its own clock, whatever the API
server says: two controllers never believe at once that they lead, unless a clock jumps or a process sleeps. Against
those, epochs fence: `leaseTransitions` counts the holders, and a leader that folds a higher epoch stops.

Rules: design.md section 5; client-go's leaderelection, durations 15 s, 10 s and 2 s.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from handlers.effects.cluster import Cluster, ClusterError
from handlers.outcome import Key, Object

DURATION: Final = 15.0
MARGIN: Final = 5.0
PERIOD: Final = 2.0


class Lease:
    """`hold` returns when it leads, with the epoch; `keep` until it does not any more."""

    def __init__(
        self,
        cluster: Cluster,
        key: Key,
        *,
        instance: str,
        now: Callable[[], str],
        duration: float = DURATION,
        margin: float = MARGIN,
        period: float = PERIOD,
    ) -> None:
        self.cluster, self.key, self.instance, self.now = cluster, key, instance, now
        self.duration, self.margin, self.period = duration, margin, period
        self.epoch = 0
        self._until = 0.0  # on this process's monotonic clock
        self._seen: tuple[Any, ...] = ()
        self._seen_at = 0.0

    @property
    def leads(self) -> bool:
        return self.epoch > 0 and asyncio.get_running_loop().time() < self._until

    async def hold(self) -> int:
        """Wait for the Lease and take it; its epoch."""
        while True:
            try:
                if await self._try():
                    return self.epoch
            except ClusterError:
                pass  # nobody leads while the API is away
            await asyncio.sleep(self.period * (0.8 + random.random() * 0.4))

    async def keep(self) -> None:
        """Renew until the Lease is lost."""
        while self.leads:
            await asyncio.sleep(min(self.period, max(0.0, self._until - asyncio.get_running_loop().time())))
            try:
                if self.leads and not await self._try():
                    break
            except ClusterError:
                continue  # until the margin is reached
        self.epoch = 0

    async def release(self) -> None:
        """Give it up at once, so that a successor need not wait."""
        if not self.leads:
            return
        self._until = 0.0
        live = await self.cluster.get(self.key)
        if live is not None and live.get("spec", {}).get("holderIdentity") == self.instance:
            released = {**live, "spec": {**live["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
            await self.cluster.replace(self.key, released)

    async def _try(self) -> bool:
        """One look, and one write where it is ours to make. Raises ClusterError when the API cannot be asked."""
        asked = asyncio.get_running_loop().time()
        live = await self.cluster.get(self.key)
        wanted = self._wanted(live)
        if wanted is None:
            return False
        try:
            if live is None:
                await self.cluster.create(self.key, wanted)
            else:
                await self.cluster.replace(self.key, wanted)
        except ClusterError as error:
            if error.reason in ("Conflict", "AlreadyExists"):
                return False
            raise
        self.epoch = int(wanted["spec"]["leaseTransitions"])
        self._until = asked + self.duration - self.margin
        return True

    def _wanted(self, live: Object | None) -> Object | None:
        """The Lease to write, or None while somebody else holds it."""
        now = self.now()
        spec: Object = {
            "holderIdentity": self.instance,
            "leaseDurationSeconds": int(self.duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 1,
        }
        if live is None:
            metadata = {"name": self.key.name, "namespace": self.key.namespace}
            return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        held = live.get("spec", {})
        mine = held.get("holderIdentity") == self.instance and self.epoch == held.get("leaseTransitions")
        if not mine and held.get("holderIdentity") and not self._expired(held):
            return None
        spec["leaseTransitions"] = self.epoch if mine else int(held.get("leaseTransitions") or 0) + 1
        spec["acquireTime"] = held.get("acquireTime", now) if mine else now
        return {**live, "spec": spec}

    def _expired(self, held: Object) -> bool:
        """Unchanged for its whole duration on *our* clock: the holder's clock is not compared with ours."""
        seen = (held.get("holderIdentity"), held.get("renewTime"), held.get("leaseTransitions"))
        now = asyncio.get_running_loop().time()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
            return False
        return now - self._seen_at >= float(held.get("leaseDurationSeconds") or self.duration)
