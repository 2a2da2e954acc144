"""The scheduler: every Pod that waits is given the emptiest node that fits, or a reason why none does.

Filters: a Ready node, nodeName, nodeSelector, required node affinity, taints and cordons, resource requests (also
extended ones), host ports. All that waits is decided at once, so that the room of nodes is counted once. Messages are
upstream's, without what it says of preemption.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from devkube.custom import quantity
from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.selectors import matches
from devkube.simulation.client import Client
from devkube.simulation.podstatus import condition, set_condition

Amounts = Mapping[str, Fraction]
Port = tuple[str, str, int]  # protocol, address, number
_UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass
class Room:
    """A node and what its Pods use of it."""

    node: Object
    free: dict[str, Fraction]
    pods: int = 0
    ports: set[Port] = field(default_factory=set)

    def take(self, pod: Object) -> None:
        for name, amount in requests(pod).items():
            self.free[name] = self.free.get(name, Fraction()) - amount
        self.ports |= ports(pod)
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
        set_condition(conditions, new, self._client.clock.timestamp())
        await self._client.status(pod, {**pod["status"], "conditions": conditions})
        await self._client.tell(pod, "FailedScheduling", text, warning=True)


def fault(pod: Object, room: Room) -> str:
    """Why the Pod cannot run there, empty when it can."""
    node, spec = room.node, pod["spec"]
    if condition(node, "Ready").get("status") != "True":
        return "node(s) were not ready"
    taints = list((node.get("spec") or {}).get("taints") or ())
    taints += [_UNSCHEDULABLE] if (node.get("spec") or {}).get("unschedulable") else []
    for taint in taints:
        if taint["effect"] != "PreferNoSchedule" and not tolerated(taint, spec.get("tolerations") or ()):
            if taint == _UNSCHEDULABLE:
                return "node(s) were unschedulable"
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not chosen(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if conflicts(ports(pod), room.ports):
        return "node(s) didn't have free ports for the requested pod ports"
    if room.pods >= room.free.get("pods", Fraction(110)):
        return "Too many pods"
    for name, amount in sorted(requests(pod).items()):
        if amount > room.free.get(name, Fraction()):
            return f"Insufficient {name}"
    return ""


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    return any(
        one.get("effect") in (None, "", taint["effect"])
        and one.get("key") in (None, "", taint["key"])
        and (one.get("operator") == "Exists" or (one.get("value") or "") == (taint.get("value") or ""))
        for one in tolerations
    )


def chosen(spec: Mapping[str, Any], node: Object) -> bool:
    """nodeSelector and required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return affinity is None or any(_term(one, node, labels) for one in affinity["nodeSelectorTerms"])


def _term(term: Mapping[str, Any], node: Object, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    names = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or fields) and all(
        _holds(one, found) for some, found in ((expressions, labels), (fields, names)) for one in some
    )


def _holds(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if one["operator"] in ("Gt", "Lt"):
        value, limit = labels.get(one["key"], ""), int(one["values"][0])
        return value.lstrip("-").isdecimal() and (int(value) > limit if one["operator"] == "Gt" else int(value) < limit)
    return matches({"matchExpressions": [one]}, labels)


def requests(pod: Object) -> dict[str, Fraction]:
    """What a Pod asks for: its containers and sidecars together, or the neediest init container beside the sidecars
    that run by then."""
    total: Amounts = {}
    peak: Amounts = {}
    sidecars: Amounts = {}
    for one in pod["spec"].get("initContainers") or ():
        needs = _requested(one)
        if one.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, needs)
            needs = {}
        peak = _most(peak, _sum(sidecars, needs))
    for one in pod["spec"]["containers"]:
        total = _sum(total, _requested(one))
    overhead = {name: _amount(text) for name, text in (pod["spec"].get("overhead") or {}).items()}
    return dict(_sum(_most(_sum(total, sidecars), peak), overhead))


def _requested(container: Mapping[str, Any]) -> Amounts:
    return {
        name: _amount(str(text)) for name, text in ((container.get("resources") or {}).get("requests") or {}).items()
    }


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, Fraction()) + other.get(name, Fraction()) for name in {*one, *other}}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Fraction()), other.get(name, Fraction())) for name in {*one, *other}}


@lru_cache(512)
def _amount(text: str) -> Fraction:
    return quantity.parse(text)


def ports(pod: Object) -> set[Port]:
    found = (port for one in pod["spec"]["containers"] for port in one.get("ports") or ())
    return {(p.get("protocol", "TCP"), p.get("hostIP") or "0.0.0.0", p["hostPort"]) for p in found if p.get("hostPort")}


def conflicts(wanted: set[Port], used: set[Port]) -> bool:
    return any(
        w[0] == u[0] and w[2] == u[2] and ("0.0.0.0" in (w[1], u[1]) or w[1] == u[1]) for w in wanted for u in used
    )


def _room(node: Object) -> Room:
    found = (node.get("status") or {}).get("allocatable") or {}
    return Room(node, {name: _amount(str(text)) for name, text in found.items()})


def _waits(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("schedulingGates")


def _turn(pod: Object) -> tuple[int, str, str]:
    return -(pod["spec"].get("priority") or 0), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
