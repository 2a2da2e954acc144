"""The parts together: who looks again after which write. Started by `server` when it is asked to simulate.

    async with DevKube(Settings(simulate=True)) as api:
        api.clock.freeze()
        await api.request("POST", …)
        await api.simulation.settle()      # until nobody has anything left to do at this instant
        await api.simulation.elapse(30)    # half a minute of cluster life, event by event

Without a frozen clock it runs by itself, in real time.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from devkube.clock import Clock
from devkube.options import Settings
from devkube.simulation.client import Api, Client
from devkube.simulation.deployments import Deployments, ReplicaSets
from devkube.simulation.jobs import Jobs
from devkube.simulation.kubelet import Kubelet
from devkube.simulation.loops import Key, Loop
from devkube.simulation.nodes import Nodes
from devkube.simulation.scheduler import Scheduler
from devkube.simulation.sets import DaemonSets, StatefulSets
from devkube.store import Change, Store


class Controller(Protocol):
    async def reconcile(self, namespace: str, name: str) -> float | None: ...


_CONTROLLERS: Final[Mapping[str, tuple[str, Callable[[Client], Controller]]]] = {
    # storage key -> its name in Events, what it does
    "deployments.apps": ("deployment-controller", Deployments),
    "replicasets.apps": ("replicaset-controller", ReplicaSets),
    "statefulsets.apps": ("statefulset-controller", StatefulSets),
    "daemonsets.apps": ("daemonset-controller", DaemonSets),
    "jobs.batch": ("job-controller", Jobs),
}
_ALL: Final[Key] = ("", "")
_TICK: Final = 1e-6  # seconds beyond an alarm's instant, so that no rounding keeps it from ringing


class Simulation:
    """`others` are events of whoever else acts on what is written, waited for by `settle` too."""

    def __init__(self, api: Api, store: Store, clock: Clock, settings: Settings, *others: asyncio.Event) -> None:
        self._api, self._store, self._clock = api, store, clock
        self._others = others
        self._owners: dict[str, tuple[Loop, Key]] = {}  # uid of a workload -> who looks after it
        self._kubelets: dict[str, Client] = {}  # by node
        self._tasks: list[asyncio.Task[None]] = []
        kubelet = Kubelet(self._kubelet, self._controller("pod-garbage-collector"), pull=settings.pull_seconds)
        self._nodes = Nodes(
            self._kubelet("admin"),
            count=settings.nodes,
            labels=settings.node_labels,
            capacity=settings.node_capacity,
        )
        scheduler = Client(api, clock, "default-scheduler", user="system:kube-scheduler", agent="kube-scheduler")
        self._loops = {
            key: Loop(key, made(self._controller(name)).reconcile, clock) for key, (name, made) in _CONTROLLERS.items()
        }
        self._loops["nodes"] = Loop("nodes", self._nodes.reconcile, clock)
        self._loops["pods"] = Loop("kubelet", kubelet.reconcile, clock)
        self._scheduler = self._loops["scheduler"] = Loop("scheduler", Scheduler(scheduler).reconcile, clock)

    def _controller(self, name: str) -> Client:
        user = f"system:serviceaccount:kube-system:{name}"
        return Client(self._api, self._clock, name, user=user, agent="kube-controller-manager")

    def _kubelet(self, node: str) -> Client:
        found = self._kubelets.get(node)
        if found is None:
            found = Client(self._api, self._clock, "kubelet", user=f"system:node:{node}", agent="kubelet")
            self._kubelets[node] = found
        return found

    # ------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """The nodes are there when it returns."""
        self._store.listen(self._heard)
        self._tasks = [
            asyncio.create_task(one.run(), name=f"devkube simulation {one.name}") for one in self._loops.values()
        ]
        await self._nodes.register()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settle(self) -> None:
        """Until nobody has work at this instant. What waits for time to pass goes on waiting."""
        idle = [*(one.idle for one in self._loops.values()), *self._others]
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

    # ------------------------------------------------------------------------------------- hearing

    def _heard(self, change: Change) -> None:
        after, key = change.after, (change.after.namespace, change.after.name)
        gone = change.type == "DELETED"
        if after.key in _CONTROLLERS and not gone:
            self._owners[after.uid] = self._loops[after.key], key
        elif gone:
            self._owners.pop(after.uid, None)
        if after.key in self._loops:
            self._loops[after.key].add(key)
        for uid in {*after.owners, *(change.before.owners if change.before else ())}:
            self._own(uid, above=gone)
        if after.key == "pods":
            self._scheduler.add(_ALL)
        elif after.key == "nodes":
            self._scheduler.add(_ALL)
            for one in self._store.select("daemonsets.apps"):
                self._loops["daemonsets.apps"].add((one.namespace, one.name))
            for one in self._store.select("pods", "", lambda pod: pod.fields.get("spec.nodeName") == after.name):
                self._loops["pods"].add((one.namespace, one.name))

    def _own(self, uid: str, *, above: bool) -> None:
        """`above`: its owner too; Recreate waits for Pods that no ReplicaSet counts any more."""
        if owner := self._owners.get(uid):
            loop, key = owner
            loop.add(key)
            if above and (found := self._store.get(loop.name, *key)):
                for one in found.owners:
                    self._own(one, above=False)
