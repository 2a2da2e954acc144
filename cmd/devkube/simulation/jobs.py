"""Jobs: Pods until enough of them succeeded, or too many failed. Rules: upstream's pkg/controller/job.

A Pod that ended is counted once, also after somebody deleted it: what was counted is remembered here, where upstream
uses finalizers. Left out: podFailurePolicy, successPolicy, backoffLimitPerIndex, managedBy.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from devkube.kinds import Object
from devkube.simulation import owning
from devkube.simulation.client import Client, stamp, unix
from devkube.simulation.containers import HAIR
from devkube.simulation.podstatus import condition

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_SLOWEST: Final = 600.0
Words = tuple[str, str]  # reason, message


class Jobs:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: dict[str, dict[str, tuple[bool, str, float]]] = {}  # Job's uid -> Pod's: succeeded, index, when

    async def reconcile(self, namespace: str, name: str) -> float | None:
        job = await self._client.get("Job", namespace, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return None
        if condition(job, "Complete") or condition(job, "Failed"):
            return await self._after(job)
        spec, now, uid = job["spec"], self._client.now(), job["metadata"]["uid"]
        status: Object = dict(job.get("status") or {})
        pods = await owning.claim(self._client, job, "Pod")
        ended = self._ended.setdefault(uid, {})
        for pod in pods:
            if owning.over(pod):
                index = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
                known = pod["metadata"]["uid"] in ended
                if not known:
                    ended[pod["metadata"]["uid"]] = owning.phase(pod) == "Succeeded", index, _finished(pod) or now
        alive = [one for one in pods if owning.active(one)]
        if spec.get("suspend"):
            for pod in alive:
                await owning.drop(self._client, job, pod)
            status.pop("startTime", None)
            await self._tell(job, status, [], ("Suspended", "JobSuspended", "Job suspended"))
            return None
        status.setdefault("startTime", stamp(now))
        started, limit = unix(status["startTime"]), spec.get("activeDeadlineSeconds")
        if failure := _failure(job, ended, alive, now - started):
            await self._close(job, status, alive, "Failed", failure)
            return None
        if self._complete(job, ended, alive):
            words = ("CompletionsReached", "Reached expected number of succeeded pods")
            await self._close(job, status, alive, "Complete", words)
            return None
        again = await self._fill(job, alive, ended, now)
        alive = [one for one in await owning.claim(self._client, job, "Pod") if owning.active(one)]
        await self._tell(job, status, alive)
        left = [again, None if limit is None else max(0.0, started + limit - now)]
        return min((one for one in left if one is not None), default=None)

    async def _fill(
        self, job: Object, alive: Sequence[Object], ended: dict[str, tuple[bool, str, float]], now: float
    ) -> float | None:
        """Pods up to what may run side by side; after a failure later and later."""
        spec = job["spec"]
        wants = list(_missing(job, alive, ended))[: max(0, spec["parallelism"] - len(alive))]
        failures = sorted(at for well, _, at in ended.values() if not well)
        last = max((at for well, _, at in ended.values() if well), default=0.0)
        recent = [at for at in failures if at > last]
        if wants and recent:
            left = recent[-1] + min(10.0 * 2.0 ** min(len(recent) - 1, 10), _SLOWEST) - now
            if left > HAIR:
                return left
        for index in wants:
            pod = owning.pod_of(job, spec["template"])
            if index is not None:
                _indexed(job, pod, index)
            await owning.make(self._client, job, pod)
        for pod in sorted(alive, key=owning.expendable)[: max(0, len(alive) - spec["parallelism"])]:
            await owning.drop(self._client, job, pod)
        return None

    @staticmethod
    def _complete(job: Object, ended: dict[str, tuple[bool, str, float]], alive: Sequence[Object]) -> bool:
        wanted: int | None = job["spec"].get("completions")
        well = [index for good, index, _ in ended.values() if good]
        if wanted is None:  # a work queue: one success and nobody at work
            return bool(well) and not alive
        return len(set(well) if job["spec"]["completionMode"] == "Indexed" else well) >= wanted

    async def _close(self, job: Object, status: Object, alive: Sequence[Object], kind: str, words: Words) -> None:
        for pod in alive:
            await owning.drop(self._client, job, pod)
        if kind == "Complete":
            status["completionTime"] = self._client.clock.timestamp()
        await self._tell(job, status, [], *((one, *words) for one in (_BEFORE[kind], kind)))
        if kind == "Complete":
            await self._client.tell(job, "Completed", "Job completed")
        else:
            await self._client.tell(job, *words, warning=True)

    async def _tell(
        self, job: Object, status: Object, alive: Sequence[Object], *conditions: tuple[str, str, str]
    ) -> None:
        ended, now = self._ended.get(job["metadata"]["uid"], {}), self._client.clock.timestamp()
        counts = {
            "active": len(alive),
            "succeeded": len({i if i else u for u, (good, i, _) in ended.items() if good}),
            "failed": sum(not good for good, _, _ in ended.values()),
        }
        for key, value in counts.items():
            status.pop(key, None)
            if value:
                status[key] = value
        status["ready"] = sum(map(owning.ready, alive))
        status["terminating"] = 0
        status["uncountedTerminatedPods"] = {}
        if job["spec"]["completionMode"] == "Indexed":
            status["completedIndexes"] = _ranges(sorted({int(i) for good, i, _ in ended.values() if good and i}))
        kept = [one for one in status.get("conditions") or () if one["type"] != "Suspended"]
        for kind, reason, message in conditions:
            old = condition(job, kind)
            new = {"type": kind, "status": "True", "reason": reason, "message": message}
            kept.append(old or {**new, "lastProbeTime": now, "lastTransitionTime": now})
        if kept or "conditions" in status:
            status["conditions"] = kept
        await self._client.status(job, status)

    async def _after(self, job: Object) -> float | None:
        """A finished Job goes ttlSecondsAfterFinished later, if it says so."""
        self._ended.pop(job["metadata"]["uid"], None)
        limit = job["spec"].get("ttlSecondsAfterFinished")
        if limit is None:
            return None
        end = condition(job, "Complete") or condition(job, "Failed")
        left: float = unix(end["lastTransitionTime"]) + limit - self._client.now()
        if left > HAIR:
            return left
        await self._client.delete(job)
        return None


_BEFORE: Final = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}


def _failure(
    job: Object, ended: dict[str, tuple[bool, str, float]], alive: Sequence[Object], running: float
) -> Words | None:
    spec = job["spec"]
    limit = spec.get("activeDeadlineSeconds")
    if limit is not None and running + HAIR >= limit:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    failures = sum(not good for good, _, _ in ended.values())
    restarts = 0
    if spec["template"]["spec"]["restartPolicy"] == "OnFailure":
        statuses = [one.get("status") or {} for one in alive]
        kinds = ("initContainerStatuses", "containerStatuses")
        restarts = sum(c.get("restartCount", 0) for one in statuses for kind in kinds for c in one.get(kind) or ())
    allowed = spec["backoffLimit"]
    if failures > allowed or (restarts and restarts >= max(allowed, 1)):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    return None


def _missing(job: Object, alive: Sequence[Object], ended: dict[str, tuple[bool, str, float]]) -> Iterator[int | None]:
    """One for each Pod that is still needed, with its index in an indexed Job."""
    spec = job["spec"]
    wanted, well = spec.get("completions"), [index for good, index, _ in ended.values() if good]
    if spec["completionMode"] == "Indexed":
        taken = {*well, *((one["metadata"].get("annotations") or {}).get(INDEX, "") for one in alive)}
        yield from (number for number in range(wanted) if str(number) not in taken)
    elif wanted is not None:
        yield from [None] * (wanted - len(well) - len(alive))
    elif not well:
        yield from [None] * (spec["parallelism"] - len(alive))


def _indexed(job: Object, pod: Object, index: int) -> None:
    meta: dict[str, Any] = pod["metadata"]
    meta.setdefault("annotations", {})[INDEX] = str(index)
    meta.setdefault("labels", {})[INDEX] = str(index)
    meta["generateName"] = f"{job['metadata']['name']}-{index}-"
    pod["spec"]["hostname"] = f"{job['metadata']['name']}-{index}"
    for one in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        path = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        if all(env["name"] != "JOB_COMPLETION_INDEX" for env in one.get("env") or ()):
            one["env"] = [*(one.get("env") or ()), {"name": "JOB_COMPLETION_INDEX", "valueFrom": path}]


def _finished(pod: Object) -> float:
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = (((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in found)
    return max((unix(one) for one in ends if one), default=0.0)


def _ranges(numbers: Sequence[int]) -> str:
    """`0-2,5` of the indexes that are done."""
    found: list[list[int]] = []
    for one in numbers:
        if found and one == found[-1][1] + 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    return ",".join(str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a},{b}" for a, b in found)
