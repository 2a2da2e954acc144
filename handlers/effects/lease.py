"""Who leads: a Lease of coordination.k8s.io, renewed while it is held, and given up in time.

The holder stops leading `margin` before its Lease could be taken by somebody else, on its own clock, whatever the API
server says: two controllers never believe at once that they lead, unless a clock jumps or a process sleeps. Against
those, epochs fence: `leaseTransitions` counts the holders, and a leader that folds a higher epoch stops. An epoch is
above all that the log has seen (`floor`), also when somebody deleted the Lease.

Rules: design.md section 5; client-go's leaderelection, durations 15 s, 10 s and 2 s.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import structlog

from handlers.effects.cluster import Cluster, ClusterError
from handlers.outcome import Key, Object

log = structlog.get_logger()

DURATION: Final = 15.0
MARGIN: Final = 5.0
PERIOD: Final = 2.0


class Lease:
    """`hold` returns when it leads, with the epoch; `keep` when it does not any more."""

    def __init__(
        self,
        cluster: Cluster,
        key: Key,
        *,
        instance: str,
        now: Callable[[], str],
        floor: Callable[[], int] = lambda: 0,
        duration: float = DURATION,
        margin: float = MARGIN,
        period: float = PERIOD,
    ) -> None:
        self.cluster, self.key, self.instance, self.now, self.floor = cluster, key, instance, now, floor
        self.duration, self.margin, self.period = duration, margin, period
        self.epoch = 0
        self.heard = 0.0  # the loop's time when the API last answered, 0 = never
        self.trouble = ""
        self._until = 0.0  # on this process's monotonic clock
        self._seen: tuple[Any, ...] = ()
        self._seen_at = 0.0

    @property
    def leads(self) -> bool:
        return self.epoch > 0 and asyncio.get_running_loop().time() < self._until

    async def hold(self) -> int:
        """Wait for the Lease and take it; its epoch. Nobody leads while the API is away."""
        while True:
            if await self._tried():
                return self.epoch
            await asyncio.sleep(self.period * (0.8 + random.random() * 0.4))

    async def keep(self) -> None:
        """Renew until the Lease is lost. What cannot be renewed in time is lost on time."""
        try:
            while self.leads:
                await asyncio.sleep(min(self.period, max(0.0, self._until - asyncio.get_running_loop().time())))
                async with asyncio.timeout_at(self._until):
                    if self.leads and not await self._tried() and not self.trouble:
                        break  # somebody else has it
        except TimeoutError:
            log.warning("lease-not-renewed-in-time", epoch=self.epoch)
        self.epoch = 0

    async def release(self) -> None:
        """Give it up at once, so that a successor need not wait. Raises ClusterError."""
        held, self.epoch, self._until = self.epoch, 0, 0.0
        if not held:
            return
        live = await self.cluster.get(self.key)
        spec = (live or {}).get("spec") or {}
        if live is not None and spec.get("holderIdentity") == self.instance and spec.get("leaseTransitions") == held:
            released = {**live, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
            await self.cluster.replace(self.key, released)

    async def _tried(self) -> bool:
        """`_try`, with what went wrong told once."""
        try:
            held = await self._try()
        except ClusterError as error:
            if self.trouble != str(error):
                self.trouble = str(error)
                log.warning("lease-troubled", code=error.code, error=self.trouble)
            return False
        self.trouble = ""
        return held

    async def _try(self) -> bool:
        """One look, and one write where it is ours to make. Raises ClusterError when the API cannot be asked."""
        asked = asyncio.get_running_loop().time()
        live = await self.cluster.get(self.key)
        self.heard = asyncio.get_running_loop().time()
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
        self.heard = asyncio.get_running_loop().time()
        self.epoch = int(wanted["spec"]["leaseTransitions"])
        self._until = asked + self.duration - self.margin
        # Should we fail to renew it, it expires for us as for everybody else.
        self._seen, self._seen_at = _record(wanted["spec"]), asked
        return True

    def _wanted(self, live: Object | None) -> Object | None:
        """The Lease to write, or None while somebody else holds it, or when ours was deleted: then it is lost, and the
        next one is another epoch."""
        now = self.now()
        held = (live or {}).get("spec") or {}
        epoch = int(held.get("leaseTransitions") or 0)
        mine = self.epoch > 0 and held.get("holderIdentity") == self.instance and self.epoch == epoch
        if not mine and (self.epoch or (held.get("holderIdentity") and not self._expired(held))):
            return None
        spec: Object = {
            "holderIdentity": self.instance,
            "leaseDurationSeconds": max(1, int(self.duration)),
            "acquireTime": (held.get("acquireTime") or now) if mine else now,
            "renewTime": now,
            "leaseTransitions": epoch if mine else max(epoch, self.floor()) + 1,
        }
        if live is not None:
            return {**live, "spec": spec}
        metadata = {"name": self.key.name, "namespace": self.key.namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _expired(self, held: Object) -> bool:
        """Unchanged for its whole duration on *our* clock: the holder's clock is not compared with ours."""
        seen = _record(held)
        now = asyncio.get_running_loop().time()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
            return False
        return now - self._seen_at >= float(held.get("leaseDurationSeconds") or self.duration)


def _record(spec: Object) -> tuple[Any, ...]:
    return spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions")
