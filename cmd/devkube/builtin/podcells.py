"""The cells of a Pod, and ages as people read them. Rule: upstream's printPod and `apimachinery/pkg/util/duration`."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from devkube.kinds import Object

Json = Mapping[str, Any]
NONE = "<none>"


def since(moment: str | None, now: float, until: str | None = None, none: str = "<unknown>") -> str:
    """The time from `moment` to `until` or `now` (Unix seconds)."""
    if not moment:
        return none
    end = datetime.fromisoformat(until).timestamp() if until else now
    return human(int(end - datetime.fromisoformat(moment).timestamp()))


def age(obj: Object, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def human(seconds: int) -> str:
    """Two or three significant figures: 90s, 3m20s, 47m, 5h3m, 30h, 3d4h, 40d, 2y5d."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, rest: str) -> str:
    return f"{large}{unit}{small}{rest}" if small else f"{large}{unit}"


def _ended(state: Json) -> str:
    if state.get("reason"):
        return str(state["reason"])
    signal = state.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{state.get('exitCode', 0)}"


def _condition(status: Json, kind: str) -> Json:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})


def summary(pod: Object) -> tuple[str, str, int, str]:
    """Ready (`1/2`), status, restarts, and when the last restart was (RFC 3339, may be empty)."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {one.get("name") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    gated = _condition(status, "PodScheduled").get("reason") == "SchedulingGated"
    reason = "SchedulingGated" if gated else status.get("reason") or status.get("phase") or ""
    waiting, ready, restarts, ends = _initial(spec, status, sidecars)
    if waiting:
        reason = waiting
    if not waiting or _condition(status, "Initialized").get("status") == "True":
        counted = [one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars]
        counted += status.get("containerStatuses") or ()
        restarts = sum(one.get("restartCount", 0) for one in counted)
        ends = [_last(one) for one in counted]
        reason, more = _main(status, reason)
        ready += more
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return f"{ready}/{total}", reason, restarts, max(ends, default="")


def _last(one: Json) -> str:
    return str(((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "")


def _initial(spec: Json, status: Json, sidecars: set[Any]) -> tuple[str, int, int, list[str]]:
    """Of init containers: what is waited for (empty if nothing), ready sidecars, restarts, last ends."""
    ready, restarts, ends = 0, 0, []
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        state, sidecar = one.get("state") or {}, one.get("name") in sidecars
        restarts += one.get("restartCount", 0)
        ends.append(_last(one))
        ended, waits = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and one.get("started"):
            ready += bool(one.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}", ready, restarts, ends
        if waits and waits != "PodInitializing":
            return f"Init:{waits}", ready, restarts, ends
        return f"Init:{index}/{len(spec.get('initContainers') or ())}", ready, restarts, ends
    return "", ready, restarts, ends


def _main(status: Json, reason: str) -> tuple[str, int]:
    ready, running, failed = 0, False, ""
    for one in reversed(status.get("containerStatuses") or ()):
        state = one.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
            failed = reason if state["terminated"].get("exitCode") else failed
        elif one.get("ready") and state.get("running") is not None:
            ready, running = ready + 1, True
    if reason == "Completed":
        if running and _condition(status, "Ready").get("status") == "True":
            reason = "Running"
        elif failed:
            reason = failed
        elif running:
            reason = "NotReady"
    return reason, ready


def _restarts(pod: Object, now: float) -> str:
    _, _, count, last = summary(pod)
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _gates(pod: Object) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    status = pod.get("status") or {}
    true = [one for one in gates if _condition(status, one.get("conditionType", "")).get("status") == "True"]
    return f"{len(true)}/{len(gates)}" if gates else NONE


def _address(pod: Object) -> str:
    found = (pod.get("status") or {}).get("podIPs") or ()
    return str(found[0].get("ip") or NONE) if found else NONE


def _of(part: str, key: str) -> Callable[[Object, float], str]:
    return lambda pod, now: str((pod.get(part) or {}).get(key) or NONE)


POD: tuple[tuple[str, str, int, Callable[[Object, float], Any]], ...] = (
    ("Ready", "string", 0, lambda pod, now: summary(pod)[0]),
    ("Status", "string", 0, lambda pod, now: summary(pod)[1]),
    ("Restarts", "string", 0, _restarts),
    ("Age", "string", 0, age),
    ("IP", "string", 1, lambda pod, now: _address(pod)),
    ("Node", "string", 1, _of("spec", "nodeName")),
    ("Nominated Node", "string", 1, _of("status", "nominatedNodeName")),
    ("Readiness Gates", "string", 1, lambda pod, now: _gates(pod)),
)
