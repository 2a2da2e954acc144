"""ReplicaSets: as many Pods of the template as are wanted."""

from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.simulation import owning
from devkube.simulation.client import Client
from devkube.simulation.podstatus import set_condition


class ReplicaSets:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> float | None:
        found = await self._client.get("ReplicaSet", namespace, name)
        if found is None:
            return None
        failure: StatusError | None = None
        try:
            if not found["metadata"].get("deletionTimestamp"):
                await self._count(found)
        except StatusError as error:
            failure = error
        again = await self._tell(found, failure)
        if failure is not None:
            raise failure
        return again

    async def _count(self, found: Object) -> None:
        wanted = found["spec"].get("replicas", 1)
        pods = [one for one in await owning.claim(self._client, found, "Pod") if owning.active(one)]
        for _ in range(wanted - len(pods)):
            await owning.make(self._client, found, owning.pod_of(found, found["spec"]["template"]))
        if len(pods) > wanted:
            for pod in sorted(pods, key=owning.expendable)[: len(pods) - wanted]:
                await owning.drop(self._client, found, pod)

    async def _tell(self, found: Object, failure: StatusError | None) -> float | None:
        spec, now = found["spec"], self._client.now()
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        pods = [one for one in await owning.claim(self._client, found, "Pod") if owning.active(one)]
        available, again = owning.count_available(pods, spec.get("minReadySeconds", 0), now)
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(labels.items() <= one["metadata"]["labels"].items() for one in pods),
            "readyReplicas": sum(map(owning.ready, pods)),
            "availableReplicas": available,
        }
        status = {key: value for key, value in status.items() if value or key == "replicas"}
        status["observedGeneration"] = found["metadata"]["generation"]
        if failure is not None:
            conditions = [dict(one) for one in (found.get("status") or {}).get("conditions") or ()]
            told = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": str(failure)}
            set_condition(conditions, told, self._client.clock.timestamp())
            status["conditions"] = conditions
        await self._client.status(found, status)
        return again
