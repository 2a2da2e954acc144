"""Jobs: Pods until enough of them succeeded, or too many failed. Rules: upstream's pkg/controller/job.

Left out: indexes, suspension, deadlines, ttlSecondsAfterFinished, policies; a Pod that somebody deletes after it ended
counts no more (upstream holds such Pods with finalizers).
"""

from typing import Any

from devkube.kinds import Object
from devkube.simulation import owning
from devkube.simulation.client import Client, condition, unix

_SLOWEST = 600.0  # seconds between failures at most


class Jobs:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, namespace: str, name: str) -> float | None:
        job = await self._client.get("Job", namespace, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return None
        if condition(job, "Complete") or condition(job, "Failed"):
            return None
        spec, again = job["spec"], None
        pods = await owning.claim(self._client, job, "Pod")
        good = [one for one in pods if owning.phase(one) == "Succeeded"]
        bad = [one for one in pods if owning.phase(one) == "Failed"]
        alive = [one for one in pods if owning.active(one)]
        wanted = spec.get("completions")
        if len(bad) + _restarts(alive) > spec["backoffLimit"]:
            await self._close(
                job, pods, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            )
            return None
        if (good and not alive) if wanted is None else len(good) >= wanted:
            await self._close(job, pods, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
            return None
        missing = spec["parallelism"] - len(alive)
        missing = min(missing, wanted - len(good) - len(alive)) if wanted is not None else 0 if good else missing
        if missing > 0 and bad:
            delay = min(10.0 * 2.0 ** min(len(bad) - 1, 10), _SLOWEST)
            left = max(map(_finished, bad)) + delay - self._client.now()
            missing, again = (0, left) if left > 0 else (missing, None)
        for _ in range(missing):
            await owning.make(self._client, job, owning.pod_of(job))
        await self._tell(job, await owning.claim(self._client, job, "Pod"))
        return again

    async def _close(self, job: Object, pods: list[Object], kind: str, reason: str, message: str) -> None:
        for pod in pods:
            if owning.active(pod):
                await owning.drop(self._client, job, pod)
        now = self._client.timestamp()
        told = {"type": kind, "status": "True", "reason": reason, "message": message}
        more: dict[str, Any] = {"conditions": [{**told, "lastProbeTime": now, "lastTransitionTime": now}]}
        if kind == "Complete":
            more["completionTime"] = now
        await self._tell(job, [one for one in pods if owning.over(one)], **more)
        await self._client.tell(job, "Completed" if kind == "Complete" else reason, message, warning=kind == "Failed")

    async def _tell(self, job: Object, pods: list[Object], **more: Any) -> None:
        counts = {
            "active": sum(map(owning.active, pods)),
            "succeeded": sum(owning.phase(one) == "Succeeded" for one in pods),
            "failed": sum(owning.phase(one) == "Failed" for one in pods),
        }
        started = (job.get("status") or {}).get("startTime") or self._client.timestamp()
        status = {"startTime": started, **{key: value for key, value in counts.items() if value}, **more}
        await self._client.status(job, status)


def _restarts(pods: list[Object]) -> int:
    found = [one for pod in pods for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    return sum(one.get("restartCount", 0) for one in found)


def _finished(pod: Object) -> float:
    ended = [(one.get("state") or {}).get("terminated") or {} for one in pod["status"].get("containerStatuses") or ()]
    return max((unix(one["finishedAt"]) for one in ended if one.get("finishedAt")), default=0.0)
