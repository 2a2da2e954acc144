"""The parts together: who looks again after which write. Started by `server` when it is asked to simulate.

Without a frozen clock it runs by itself, in real time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from devkube.clock import Alarm
from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.simulation.client import Client
from devkube.simulation.deployments import deployment, replica_set
from devkube.simulation.jobs import job
from devkube.simulation.kubelet import Kubelet
from devkube.simulation.nodes import Nodes, Scheduler
from devkube.simulation.sets import daemon_set, stateful_set
from devkube.store import Change, load

if TYPE_CHECKING:
    from devkube.server import DevKube

log = logging.getLogger("devkube")
Key = tuple[str, str]  # namespace, name
_PAUSE: Final = 1.0  # seconds after a failure
_TICK: Final = 1e-6  # seconds beyond an alarm's instant, so that no rounding keeps it from ringing


_CONTROLLERS: Final[Mapping[str, Callable[[Client, Object], Awaitable[None]]]] = {
    "Deployment": deployment,
    "ReplicaSet": replica_set,
    "StatefulSet": stateful_set,
    "DaemonSet": daemon_set,
    "Job": job,
}


class Loop:
    """One controller's queue: every object that may need work once, one after the other. A write that lost a race is
    made again at once, anything else that fails a second later by the clock: so time that stands still retries nothing.

    `reconcile` gets the object as it is now, and returns in how many seconds it wants to see it again.
    """

    def __init__(self, client: Client, kind: str, reconcile: Callable[[Object], Awaitable[float | None]]) -> None:
        self._client, self._kind, self._reconcile = client, kind, reconcile
        self._todo: dict[Key, None] = {}
        self._alarms: dict[Key, Alarm] = {}
        self._task: asyncio.Task[None] | None = None
        self.idle = asyncio.Event()
        self.idle.set()

    def add(self, key: Key) -> None:
        self._todo[key] = None
        if self.idle.is_set():
            self.idle.clear()
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self.idle.clear()  # nothing is begun any more
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._todo:
            key = next(iter(self._todo))
            del self._todo[key]
            if alarm := self._alarms.pop(key, None):
                alarm.cancel()
            again = await self._one(key)
            if again is not None:
                self._alarms[key] = self._client.clock.call_later(max(again, 0.001), partial(self.add, key))
        self.idle.set()

    async def _one(self, key: Key) -> float | None:
        try:
            found = await self._client.get(self._kind, *key)
            if found is None or (self._kind != "Pod" and found["metadata"].get("deletionTimestamp")):
                return None
            return await self._reconcile(found)
        except StatusError as error:
            if error.reason == "Conflict":
                self._todo[key] = None
            if error.reason == "Conflict" or error.code == 404:  # what is gone needs nothing
                return None
            log.info("simulation: %s %s/%s: %s", self._kind, *key, error)
        except Exception:
            log.exception("simulation: %s %s/%s failed", self._kind, *key)
        return _PAUSE


class Simulation:
    def __init__(self, api: "DevKube") -> None:
        self._api, self._store, self._clock = api, api.store, api.clock
        scheduler = Client(api, "default-scheduler", user="system:kube-scheduler", agent="kube-scheduler")
        kubelet = Client(api, "kubelet", user="system:node:devkube", agent="kubelet")
        self._nodes = Nodes(kubelet, api.settings)
        self._kubelet = Kubelet(kubelet, Scheduler(scheduler), pull=api.settings.pull_seconds)
        self._loops = {
            "Node": Loop(kubelet, "Node", self._nodes.reconcile),
            "Pod": Loop(kubelet, "Pod", self._kubelet.reconcile),
        }
        for kind, reconcile in _CONTROLLERS.items():
            name = f"{kind.lower()}-controller"
            user = f"system:serviceaccount:kube-system:{name}"
            client = Client(api, name, user=user, agent="kube-controller-manager")
            self._loops[kind] = Loop(client, kind, partial(reconcile, client))
        self._kinds = {one.key: one.kind for one in api.catalog if one.kind in self._loops}

    async def start(self) -> None:
        """The nodes are there when it returns."""
        self._store.listen(self._heard)
        await self._nodes.register()

    async def stop(self) -> None:
        for loop in self._loops.values():
            await loop.stop()

    async def settle(self) -> None:
        """Until nobody has work at this instant. What waits for time to pass goes on waiting."""
        idle = [*(one.idle for one in self._loops.values()), self._api.lifecycle.idle]
        while not all(one.is_set() for one in idle):
            for one in idle:
                await one.wait()

    async def elapse(self, seconds: float) -> None:
        """Advance a frozen clock from one thing that is due to the next, and settle at each."""
        if not self._clock.frozen:
            raise ValueError("time passes by itself: freeze the clock before you let it elapse")
        end = self._clock.monotonic() + seconds
        await self.settle()
        while (due := self._clock.due()) is not None and self._clock.monotonic() + due <= end:
            self._clock.advance(due + _TICK)
            await self.settle()
        self._clock.advance(max(0.0, end - self._clock.monotonic()))
        await self.settle()

    def _heard(self, change: Change) -> None:
        """What changed and its owners are looked at; after a Node all Pods, and DaemonSets."""
        kind, namespace = self._kinds.get(change.after.key), change.after.namespace
        if kind is None:
            return
        if kind == "Pod" and change.type == "DELETED":
            self._kubelet.forget(change.after.uid)
        self._loops[kind].add((namespace, change.after.name))
        for owner in load(change.after)["metadata"].get("ownerReferences") or ():
            if owner["kind"] in self._loops:
                self._loops[owner["kind"]].add((namespace, owner["name"]))
        for key in ("daemonsets.apps", "pods") if kind == "Node" else ():
            for one in self._store.select(key):
                self._loops[self._kinds[key]].add((one.namespace, one.name))
