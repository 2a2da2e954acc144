"""StatefulSets and DaemonSets: Pods with a number, and one Pod on every node. Updates replace one Pod at a time.

A Pod carries the fingerprint of its template. Left out: ControllerRevisions (so `rollout undo` of these two kinds),
partitions, ordinals, minReadySeconds; claims of volumeClaimTemplates are made and stay Pending.
"""

from collections.abc import Iterable
from typing import Any

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.simulation import owning
from devkube.simulation.client import Client
from devkube.simulation.scheduler import chosen
from devkube.values import clone


async def replace_one(client: Client, found: Object, pods: Iterable[Object], update: str) -> None:
    """Delete the first Pod of another template, unless one is not ready yet. OnDelete waits for people."""
    if found["spec"]["updateStrategy"]["type"] != "RollingUpdate":
        return
    pods = list(pods)
    stale = [one for one in pods if one["metadata"]["labels"].get(owning.REVISION) != update]
    sick = [one for one in pods if not owning.active(one) or not owning.ready(one)]
    if going := [one for one in stale if one in sick and owning.active(one)] or ([] if sick else stale):
        await owning.drop(client, found, going[0])


class StatefulSets:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> None:
        found = await self._client.get("StatefulSet", namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        update = f"{name}-{owning.fingerprint(found['spec']['template'])}"
        await self._step(found, await self._pods(found), update)
        pods = [one for one in (await self._pods(found)).values() if owning.active(one)]
        updated = sum(one["metadata"]["labels"].get(owning.REVISION) == update for one in pods)
        ready = sum(map(owning.ready, pods))
        old = (found.get("status") or {}).get("currentRevision") or update
        counts = {"readyReplicas": ready, "currentReplicas": len(pods) - updated, "updatedReplicas": updated}
        status: dict[str, Any] = {
            "replicas": len(pods),
            "availableReplicas": ready,
            **{key: value for key, value in counts.items() if value},
            "currentRevision": update if updated == ready == found["spec"]["replicas"] else old,
            "updateRevision": update,
            "observedGeneration": found["metadata"]["generation"],
        }
        await self._client.status(found, status)

    async def _pods(self, found: Object) -> dict[int, Object]:
        prefix = f"{found['metadata']['name']}-"
        pods = await owning.claim(self._client, found, "Pod")
        numbers = ((one["metadata"]["name"].removeprefix(prefix), one) for one in pods)
        return {int(text): one for text, one in numbers if text.isdecimal()}

    async def _step(self, found: Object, pods: dict[int, Object], update: str) -> None:
        """In order: each number waits until those before it are ready, and goes before them."""
        ordered, wanted = found["spec"]["podManagementPolicy"] == "OrderedReady", range(found["spec"]["replicas"])
        for number in wanted:
            pod = pods.get(number)
            if pod is None:
                await self._make(found, number, update)
            elif owning.over(pod) and not pod["metadata"].get("deletionTimestamp"):
                await owning.drop(self._client, found, pod)  # and is made anew when it is gone
            elif owning.active(pod) and owning.ready(pod):
                continue
            elif pod["metadata"]["labels"].get(owning.REVISION) != update:
                break  # a newer template may heal it
            if ordered:
                return
        surplus = [number for number in sorted(pods, reverse=True) if number not in wanted]
        for number in surplus[:1] if ordered else surplus:
            if not pods[number]["metadata"].get("deletionTimestamp"):
                await owning.drop(self._client, found, pods[number])
        if not surplus:
            await replace_one(self._client, found, [pods[n] for n in reversed(wanted) if n in pods], update)

    async def _make(self, found: Object, number: int, update: str) -> None:
        meta, spec = found["metadata"], found["spec"]
        name = f"{meta['name']}-{number}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
        pod = owning.pod_of(found, name=name, labels={**labels, owning.REVISION: update})
        pod["spec"].update(hostname=name, subdomain=spec.get("serviceName") or "")
        for template in spec.get("volumeClaimTemplates") or ():
            claim = clone(template)
            own = claim["metadata"]["name"]
            claim["metadata"].update(name=f"{own}-{name}", namespace=meta["namespace"])
            mounted = {"name": own, "persistentVolumeClaim": {"claimName": f"{own}-{name}"}}
            pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), mounted]
            try:
                await self._client.create("PersistentVolumeClaim", {k: v for k, v in claim.items() if k != "status"})
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        await owning.make(self._client, found, pod)


class DaemonSets:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> None:
        found = await self._client.get("DaemonSet", namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        template = found["spec"]["template"]
        update = owning.fingerprint(template)
        nodes = [one for one in await self._client.list("Node") if chosen(template["spec"], one)]
        wanted = {one["metadata"]["name"] for one in nodes}
        there: dict[str, Object] = {}
        for pod in await owning.claim(self._client, found, "Pod"):
            node = str(pod["spec"].get("nodeName") or "")
            if owning.active(pod) and node in wanted and node not in there:
                there[node] = pod
            elif not pod["metadata"].get("deletionTimestamp"):
                await owning.drop(self._client, found, pod)
            elif node in wanted:
                there.setdefault(node, pod)  # its successor waits until it is gone
        for node in sorted(wanted - set(there)):
            pod = owning.pod_of(found, labels={owning.REVISION: update})
            pod["spec"]["nodeName"] = node  # upstream leaves that to the scheduler; cordons are not for daemons anyhow
            await owning.make(self._client, found, pod)
        if wanted == set(there):
            await replace_one(self._client, found, there.values(), update)
        pods = [one for one in await owning.claim(self._client, found, "Pod") if owning.active(one)]
        ready = sum(map(owning.ready, pods))
        status = {
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len(pods),
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberAvailable": ready,
            "updatedNumberScheduled": sum(one["metadata"]["labels"].get(owning.REVISION) == update for one in pods),
            "observedGeneration": found["metadata"]["generation"],
        }
        await self._client.status(found, status)
