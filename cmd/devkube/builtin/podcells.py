"""What a Pod's state comes to in a few words, and ages as people read them.

Rule: upstream's printPod and `apimachinery/pkg/util/duration`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from devkube.kinds import Object

Json = Mapping[str, Any]
# Unit, its seconds, from how many of it on it is used, and below how many the next smaller one is told too.
_UNITS = (("y", 365 * 86400, 2, 8), ("d", 86400, 2, 8), ("h", 3600, 3, 8), ("m", 60, 2, 10), ("s", 1, 0, 0))


def human(seconds: int) -> str:
    """Two or three significant figures: 90s, 3m20s, 47m, 5h3m, 30h, 3d4h, 40d, 2y5d."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    at = next(index for index, (_, size, least, _) in enumerate(_UNITS) if seconds >= least * size)
    unit, size, _, both = _UNITS[at]
    count, rest = divmod(seconds, size)
    smaller, small, *_ = _UNITS[min(at + 1, len(_UNITS) - 1)]
    return f"{count}{unit}{rest // small}{smaller}" if count < both and rest >= small else f"{count}{unit}"


def since(moment: str | None, now: float) -> str:
    """The time from `moment` to `now` (Unix seconds)."""
    return human(int(now - datetime.fromisoformat(moment).timestamp())) if moment else "<unknown>"


def condition(status: Json, kind: str) -> Json:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})


def summary(pod: Object) -> tuple[str, str, int, str]:
    """Ready (`1/2`), status, restarts, and when the last restart was (RFC 3339, may be empty)."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    stays = {one.get("name") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    first, main = status.get("initContainerStatuses") or [], status.get("containerStatuses") or []
    sidecars = [one for one in first if one.get("name") in stays]
    ready = sum(bool(one.get("ready")) and "running" in (one.get("state") or {}) for one in (*main, *sidecars))
    gated = condition(status, "PodScheduled").get("reason") == "SchedulingGated"
    reason = "SchedulingGated" if gated else status.get("reason") or status.get("phase") or ""
    waiting, counted = _initial(len(spec.get("initContainers") or ()), first, stays), first
    if not waiting or condition(status, "Initialized").get("status") == "True":
        reason, counted = _main(status, main, reason), [*main, *sidecars]
    else:
        reason = waiting
    if (pod.get("metadata") or {}).get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        reason = "Terminating"
    ends = (((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "" for one in counted)
    restarts = sum(one.get("restartCount", 0) for one in counted)
    return f"{ready}/{len(spec.get('containers') or ()) + len(stays)}", reason, restarts, max(ends, default="")


def _ended(state: Json) -> str:
    return str(state.get("reason") or f"ExitCode:{state.get('exitCode', 0)}")


def _initial(total: int, first: Sequence[Json], stays: set[Any]) -> str:
    """What the Pod's initialisation waits for; empty if for nothing."""
    for index, one in enumerate(first):
        state = one.get("state") or {}
        ended, waits = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if (one.get("started") and one.get("name") in stays) or (ended is not None and not ended.get("exitCode")):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        return f"Init:{waits}" if waits and waits != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _main(status: Json, main: Sequence[Json], reason: str) -> str:
    running, failed = False, ""
    for one in reversed(main):
        state = one.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif (ended := state.get("terminated")) is not None:
            reason = _ended(ended)
            failed = reason if ended.get("exitCode") else failed
        elif one.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        return "Running" if condition(status, "Ready").get("status") == "True" else "NotReady"
    return failed or reason if reason == "Completed" else reason
