"""StatefulSets: Pods with names and an order. Rules: upstream's pkg/controller/statefulset/stateful_set_control.go.

Claims of volumeClaimTemplates are made and stay Pending: nothing here binds volumes, and the scheduler does not wait.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.simulation import owning, revisions
from devkube.simulation.client import Client
from devkube.values import clone


class StatefulSets:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> float | None:
        found = await self._client.get("StatefulSet", namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        current = (found.get("status") or {}).get("currentRevision") or ""
        update = await revisions.record(self._client, found, kept=current)
        current = current or update
        await self._step(found, await self._pods(found), current, update)
        return await self._tell(found, await self._pods(found), current, update)

    async def _pods(self, found: Object) -> dict[int, Object]:
        prefix = f"{found['metadata']['name']}-"
        pods = await owning.claim(self._client, found, "Pod")
        numbers = ((one["metadata"]["name"].removeprefix(prefix), one) for one in pods)
        return {int(text): one for text, one in numbers if text.isdecimal()}

    async def _step(self, found: Object, pods: Mapping[int, Object], current: str, update: str) -> None:
        spec, now = found["spec"], self._client.now()
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec["replicas"])
        ordered = spec["podManagementPolicy"] == "OrderedReady"
        least, old = spec.get("minReadySeconds", 0), start + _partition(spec)
        for number in wanted:
            pod = pods.get(number)
            if pod is None:
                await self._make(found, number, current if number < old else update)
            elif owning.over(pod) and not pod["metadata"].get("deletionTimestamp"):
                await owning.drop(self._client, found, pod)  # and is made anew when it is gone
            elif not pod["metadata"].get("deletionTimestamp") and owning.available_in(pod, least, now) <= 0:
                continue
            if ordered:
                return
        surplus = [pods[number] for number in sorted(pods, reverse=True) if number not in wanted]
        for pod in surplus:
            if not pod["metadata"].get("deletionTimestamp"):
                await owning.drop(self._client, found, pod)
            if ordered:
                return
        if not surplus:
            await self._update(found, [(number, pods.get(number)) for number in reversed(wanted)], update)

    async def _update(self, found: Object, pods: Sequence[tuple[int, Object | None]], update: str) -> None:
        """From the highest number down, one that is not new goes when all above it are well."""
        if found["spec"]["updateStrategy"]["type"] != "RollingUpdate":
            return
        start = (found["spec"].get("ordinals") or {}).get("start", 0)
        for number, pod in pods:
            if number - start < _partition(found["spec"]) or pod is None or pod["metadata"].get("deletionTimestamp"):
                return
            if pod["metadata"]["labels"].get(owning.REVISION) != update:
                await owning.drop(self._client, found, pod)
                return
            if not owning.ready(pod):
                return

    async def _make(self, found: Object, number: int, revision: str) -> None:
        meta, spec = found["metadata"], found["spec"]
        name = f"{meta['name']}-{number}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(number),
            owning.REVISION: revision,
        }
        pod = owning.pod_of(found, await revisions.template(self._client, found, revision), name=name, labels=labels)
        pod["spec"].update(hostname=name, subdomain=spec.get("serviceName") or "")
        for template in spec.get("volumeClaimTemplates") or ():
            claim = clone(template)
            own = claim["metadata"]["name"]
            claim["metadata"].update(name=f"{own}-{name}", namespace=meta["namespace"])
            volumes = [one for one in pod["spec"].get("volumes") or () if one["name"] != own]
            mounted = {"name": own, "persistentVolumeClaim": {"claimName": f"{own}-{name}"}}
            pod["spec"]["volumes"] = [*volumes, mounted]
            try:
                await self._client.create("PersistentVolumeClaim", {k: v for k, v in claim.items() if k != "status"})
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        await owning.make(self._client, found, pod)

    async def _tell(self, found: Object, pods: Mapping[int, Object], current: str, update: str) -> float | None:
        spec, alive = found["spec"], [one for one in pods.values() if owning.active(one)]
        available, again = owning.count_available(alive, spec.get("minReadySeconds", 0), self._client.now())
        ready = sum(map(owning.ready, alive))
        updated = _of(alive, update)
        if updated == ready == spec["replicas"] == len(pods):
            current = update
        old = found.get("status") or {}
        status: dict[str, Any] = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": available,
            "currentReplicas": _of(alive, current),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": old.get("collisionCount", 0),
            "observedGeneration": found["metadata"]["generation"],
        }
        zero = ("replicas", "availableReplicas", "collisionCount")
        await self._client.status(found, {key: value for key, value in status.items() if value or key in zero})
        return again


def _of(pods: Sequence[Object], revision: str) -> int:
    return sum(one["metadata"]["labels"].get(owning.REVISION) == revision for one in pods)


def _partition(spec: Mapping[str, Any]) -> int:
    """How many of the first Pods an update leaves as they were."""
    return int((spec["updateStrategy"].get("rollingUpdate") or {}).get("partition") or 0)
