"""Jobs: Pods until enough of them succeeded, or too many failed. A Pod that failed is followed by another at once."""

from typing import Any

from devkube.kinds import Object
from devkube.simulation import workloads
from devkube.simulation.client import Client, condition


async def job(client: Client, found: Object) -> None:
    if condition(found, "Complete") or condition(found, "Failed"):
        return
    spec, pods = found["spec"], await workloads.owned(client, found)
    wanted = spec.get("completions") or spec["parallelism"]
    good, bad = (sum(workloads.phase(one) == phase for one in pods) for phase in ("Succeeded", "Failed"))
    alive = list(filter(workloads.active, pods))
    if bad + sum(map(_restarts, alive)) > spec["backoffLimit"]:
        await _close(client, found, alive, "Failed", "BackoffLimitExceeded")
    elif good >= wanted:
        await _close(client, found, alive, "Complete", "CompletionsReached")
    else:
        for _ in range(min(spec["parallelism"], wanted - good) - len(alive)):
            await workloads.make(client, found, workloads.pod_of(found))
        await _tell(client, found)


async def _close(client: Client, found: Object, alive: list[Object], kind: str, reason: str) -> None:
    for pod in alive:
        await workloads.drop(client, found, pod)
    now = client.clock.timestamp()
    told = {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
    await _tell(client, found, conditions=[told], **({"completionTime": now} if kind == "Complete" else {}))
    await client.tell(found, reason, f"Job is {kind}", warning=kind == "Failed")


async def _tell(client: Client, found: Object, **more: Any) -> None:
    pods = await workloads.owned(client, found)
    counts = {
        "active": sum(map(workloads.active, pods)),
        "succeeded": sum(workloads.phase(one) == "Succeeded" for one in pods),
        "failed": sum(workloads.phase(one) == "Failed" for one in pods),
    }
    started = (found.get("status") or {}).get("startTime") or client.clock.timestamp()
    await client.status(found, {"startTime": started, **counts, **more})


def _restarts(pod: Object) -> int:
    return sum(one["restartCount"] for one in (pod.get("status") or {}).get("containerStatuses") or ())
