"""The status that a kubelet writes: phase, conditions and containers, of a Pod and its life. Pure.

Rules: upstream's pkg/kubelet/status/generate.go and kubelet_pods.go (getPhase, convertToAPIContainerStatuses).
"""

from devkube.kinds import Object
from devkube.simulation.client import conditions, stamp
from devkube.simulation.life import EARLY, Container, End, Life, backoff


def render(pod: Object, life: Life, host: str, now: float) -> Object:
    """The whole status; conditions of others and what kubelets do not write are kept."""
    unready = [one.name for one in life.containers if one.lasting and not _ready(one, now)]
    status = {
        **(pod.get("status") or {}),
        "phase": _phase(life),
        "observedGeneration": pod["metadata"].get("generation", 1),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": life.ip,
        "podIPs": [{"ip": life.ip}],
        "startTime": stamp(life.began),
        "conditions": conditions(pod, stamp(now), *_conditions(life, unready)),
        "containerStatuses": [_container(one, life, now) for one in life.mains],
    }
    if life.inits:
        status["initContainerStatuses"] = [_container(one, life, now) for one in life.inits]
    return status


def _phase(life: Life) -> str:
    if life.ended:
        return "Succeeded" if all(one.well for one in life.mains) else "Failed"
    started = all(one.state == "running" or one.end for one in life.mains)
    return "Running" if life.initialized and started else "Pending"


def _conditions(life: Life, unready: list[str]) -> list[Object]:
    ready: Object = {"status": "True"}
    if life.ended:
        ready = {"status": "False", "reason": "PodCompleted" if _phase(life) == "Succeeded" else "PodFailed"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = {"status": "False", "reason": "ContainersNotReady", "message": message}
    initialized = {"status": "True"} if life.initialized else {"status": "False", "reason": "ContainersNotInitialized"}
    return [
        {"type": "PodReadyToStartContainers", "status": str(not life.ended)},
        {"type": "Initialized", **initialized},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **ready},
        {"type": "PodScheduled", "status": "True"},
    ]


def _container(own: Container, life: Life, now: float) -> Object:
    state = _state(own, life)
    last = own.end if "terminated" not in state else None
    return {
        "name": own.name,
        "image": own.spec["image"],
        "imageID": own.spec["image"] if own.end or own.state == "running" else "",
        "state": state,
        "lastState": {"terminated": _terminated(last)} if last else {},
        "ready": _ready(own, now) if own.lasting else own.well,
        "started": own.state == "running",
        "restartCount": own.restarts,
    }


def _ready(own: Container, now: float) -> bool:
    return own.ready_at() <= now + EARLY


def _state(own: Container, life: Life) -> Object:
    if own.state == "running":
        return {"running": {"startedAt": stamp(own.since)}}
    if own.state == "ended" and own.end:
        delay = backoff(own.failures - 1)
        if life.ended or not own.again or not delay:
            return {"terminated": _terminated(own.end)}
        message = f"back-off {delay:.0f}s restarting failed container={own.name}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    if own.failures:
        message = f'Back-off pulling image "{own.spec["image"]}": ErrImagePull: {own.told("pull-error")}'
        return {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    return {"waiting": {"reason": "PodInitializing" if life.inits and not life.initialized else "ContainerCreating"}}


def _terminated(end: End) -> Object:
    return {
        "exitCode": end.code,
        "reason": "Error" if end.code else "Completed",
        "startedAt": stamp(end.started),
        "finishedAt": stamp(end.finished),
    }
