"""The scheduler: every Pod that waits is given the emptiest node that fits, or a reason why none does.

Filters: nodeSelector, cordons, resource requests (also extended ones). All that waits is decided at once, so that the
room of nodes is counted once. Messages are upstream's, without what it says of preemption.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from devkube.builtin.scalars import quantity_value
from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.simulation.client import Client, condition, set_condition

Amounts = Mapping[str, Fraction]


@dataclass
class Room:
    """A node and what its Pods use of it."""

    node: Object
    free: dict[str, Fraction]
    pods: int = 0

    def take(self, pod: Object) -> None:
        for name, amount in requests(pod).items():
            self.free[name] = self.free.get(name, Fraction()) - amount
        self.pods += 1


class Scheduler:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> None:
        fields = "spec.nodeName=,spec.schedulerName=default-scheduler,status.phase=Pending"
        waiting = [one for one in await self._client.list("Pod", fields=fields) if _waits(one)]
        if not waiting:
            return
        rooms = {one["metadata"]["name"]: _room(one) for one in await self._client.list("Node")}
        for pod in await self._client.list(
            "Pod", fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        ):
            if room := rooms.get(pod["spec"]["nodeName"]):
                room.take(pod)
        for pod in sorted(waiting, key=_turn):
            await self._place(pod, rooms)

    async def _place(self, pod: Object, rooms: Mapping[str, Room]) -> None:
        faults = {name: fault(pod, room) for name, room in rooms.items()}
        fitting = [name for name, told in faults.items() if not told]
        if not fitting:
            await self._refuse(pod, Counter(told for told in faults.values() if told), len(rooms))
            return
        name = min(fitting, key=lambda one: (rooms[one].pods, one))
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": name}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
        try:
            await self._client.ask("POST", path, binding)
        except StatusError as error:
            if error.code not in (404, 409):  # it is gone or placed: no matter
                raise
            return
        rooms[name].take(pod)
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {name}"
        await self._client.tell(pod, "Scheduled", text)

    async def _refuse(self, pod: Object, why: Mapping[str, int], nodes: int) -> None:
        reasons = ", ".join(sorted(f"{count} {told}" for told, count in why.items()))
        text = f"0/{nodes} nodes are available: {reasons}." if nodes else "no nodes available to schedule pods"
        old = condition(pod, "PodScheduled")
        if old.get("message") == text:
            return
        conditions = [dict(one) for one in pod["status"].get("conditions") or ()]
        new = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
        set_condition(conditions, new, self._client.timestamp())
        await self._client.status(pod, {**pod["status"], "conditions": conditions})
        await self._client.tell(pod, "FailedScheduling", text, warning=True)


def fault(pod: Object, room: Room) -> str:
    """Why the Pod cannot run there, empty when it can."""
    if (room.node.get("spec") or {}).get("unschedulable"):
        return "node(s) were unschedulable"
    if not chosen(pod["spec"], room.node):
        return "node(s) didn't match Pod's node affinity/selector"
    if room.pods >= room.free.get("pods", Fraction(110)):
        return "Too many pods"
    for name, amount in sorted(requests(pod).items()):
        if amount > room.free.get(name, Fraction()):
            return f"Insufficient {name}"
    return ""


def chosen(spec: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())


def requests(pod: Object) -> dict[str, Fraction]:
    """What a Pod asks for: its containers and sidecars together, or its neediest init container if that is more."""
    spec, total = pod["spec"], dict[str, Fraction]()
    inits = spec.get("initContainers") or ()
    for one in (*spec["containers"], *(one for one in inits if one.get("restartPolicy") == "Always")):
        for name, amount in _requested(one).items():
            total[name] = total.get(name, Fraction()) + amount
    for one in inits:
        for name, amount in _requested(one).items():
            total[name] = max(total.get(name, Fraction()), amount)
    return total


def _requested(container: Mapping[str, Any]) -> Amounts:
    found = (container.get("resources") or {}).get("requests") or {}
    return {name: _amount(str(text)) for name, text in found.items()}


@lru_cache(512)
def _amount(text: str) -> Fraction:
    return Fraction(quantity_value(text))


def _room(node: Object) -> Room:
    found = (node.get("status") or {}).get("allocatable") or {}
    return Room(node, {name: _amount(str(text)) for name, text in found.items()})


def _waits(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("schedulingGates")


def _turn(pod: Object) -> tuple[int, str, str]:
    return -(pod["spec"].get("priority") or 0), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
