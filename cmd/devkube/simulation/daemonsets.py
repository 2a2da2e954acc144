"""DaemonSets: one Pod on every node that fits. Rules: upstream's pkg/controller/daemon. Left out: maxSurge."""

from collections.abc import Mapping
from typing import Any, Final

from devkube.kinds import Object
from devkube.simulation import owning, revisions
from devkube.simulation.client import Client
from devkube.simulation.scheduler import chosen, tolerated

# Its Pods stay on nodes in trouble, also on cordoned ones.
_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


class DaemonSets:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> float | None:
        found = await self._client.get("DaemonSet", namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        update = await revisions.record(self._client, found)
        nodes = [one for one in await self._client.list("Node") if _eligible(found, one)]
        wanted = {one["metadata"]["name"] for one in nodes}
        pods = await owning.claim(self._client, found, "Pod")
        await self._step(found, wanted, pods, update)
        return await self._tell(found, wanted, await owning.claim(self._client, found, "Pod"), update)

    async def _step(self, found: Object, wanted: set[str], pods: list[Object], update: str) -> None:
        there: dict[str, Object] = {}
        for pod in sorted(pods, key=owning.expendable, reverse=True):
            node, going = target(pod), bool(pod["metadata"].get("deletionTimestamp"))
            if not going and (node not in wanted or node in there or owning.over(pod)):
                await owning.drop(self._client, found, pod)
            there.setdefault(node, pod)
        for node in sorted(wanted - set(there)):
            await owning.make(self._client, found, self._pod(found, node, update))
        strategy = found["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate" or wanted - set(there):
            return
        rolling = strategy.get("rollingUpdate") or {}
        spare = max(1, owning.amount(rolling.get("maxUnavailable", 1), len(wanted), up=True))
        least, now = found["spec"].get("minReadySeconds", 0), self._client.now()
        well = {
            node for node in wanted if owning.active(there[node]) and owning.available_in(there[node], least, now) <= 0
        }
        spare -= len(wanted - well)
        for node in sorted(wanted, key=lambda one: (one in well, one)):
            pod = there[node]
            if pod["metadata"]["labels"].get(owning.REVISION) == update or not owning.active(pod):
                continue
            if node in well:
                if spare <= 0:
                    return
                spare -= 1
            await owning.drop(self._client, found, pod)

    @staticmethod
    def _pod(found: Object, node: str, revision: str) -> Object:
        pod = owning.pod_of(found, found["spec"]["template"], labels={owning.REVISION: revision})
        spec = pod["spec"]
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        terms = (affinity.get(key) or {}).get("nodeSelectorTerms") or [{}]
        affinity[key] = {"nodeSelectorTerms": [{**one, "matchFields": [here]} for one in terms]}
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *_TOLERATIONS]
        return pod

    async def _tell(self, found: Object, wanted: set[str], pods: list[Object], update: str) -> float | None:
        alive = [one for one in pods if owning.active(one)]
        right = [one for one in alive if target(one) in wanted and one["spec"].get("nodeName")]
        available, again = owning.count_available(right, found["spec"].get("minReadySeconds", 0), self._client.now())
        status = {
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len({target(one) for one in right}),
            "numberMisscheduled": sum(target(one) not in wanted for one in alive),
            "numberReady": sum(map(owning.ready, right)),
            "updatedNumberScheduled": sum(one["metadata"]["labels"].get(owning.REVISION) == update for one in right),
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
            "observedGeneration": found["metadata"]["generation"],
        }
        optional = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")
        await self._client.status(found, {k: v for k, v in status.items() if v or k not in optional})
        return again


def target(pod: Object) -> str:
    """The node that a DaemonSet's Pod is on, or for."""
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one["key"] == "metadata.name" and one["values"]:
                return pod["spec"].get("nodeName") or str(one["values"][0])
    return str(pod["spec"].get("nodeName") or "")


def _eligible(found: Object, node: Object) -> bool:
    spec: Mapping[str, Any] = found["spec"]["template"]["spec"]
    tolerations = [*(spec.get("tolerations") or ()), *_TOLERATIONS]
    taints = (node.get("spec") or {}).get("taints") or ()
    return chosen(spec, node) and all(
        one["effect"] == "PreferNoSchedule" or tolerated(one, tolerations) for one in taints
    )
