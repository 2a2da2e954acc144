"""The status that a kubelet writes: phase, conditions and containers, of a Pod and its life. Pure.

Rules: upstream's pkg/kubelet/status/generate.go and kubelet_pods.go (getPhase, convertToAPIContainerStatuses).
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from devkube.kinds import Object
from devkube.simulation.client import set_condition, stamp
from devkube.simulation.lives import FRESH, HAIR, Container, End, Life, backoff, failed

Json = dict[str, Any]


def render(pod: Object, life: Life, host: str, now: float) -> Json:
    """The whole status; conditions of others and what kubelets do not write are kept."""
    spec, old = pod["spec"], pod.get("status") or {}
    inits, mains = spec.get("initContainers") or (), spec["containers"]
    sidecars = {one["name"] for one in inits if one.get("restartPolicy") == "Always"}
    told = {one["name"]: _container(one, pod, life, now, init=one in inits) for one in (*inits, *mains)}
    phase = _phase(life, mains, spec)
    status = {
        **old,
        "phase": phase,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": life.ip,
        "podIPs": [{"ip": life.ip}],
        "startTime": stamp(life.began),
        "conditions": _conditions(pod, life, told, sidecars, phase, stamp(now)),
        "containerStatuses": [told[one["name"]] for one in mains],
    }
    if inits:
        status["initContainerStatuses"] = [told[one["name"]] for one in inits]
    return status


def _phase(life: Life, mains: Any, spec: Mapping[str, Any]) -> str:
    if life.ended:
        return "Failed" if failed(life, spec) else "Succeeded"
    fresh = any(
        life.containers[one["name"]].end is None and life.containers[one["name"]].state != "running" for one in mains
    )
    return "Pending" if not life.initialized or fresh else "Running"


def _conditions(
    pod: Object, life: Life, told: Mapping[str, Json], sidecars: set[str], phase: str, now: str
) -> list[Json]:
    conditions = [dict(one) for one in (pod.get("status") or {}).get("conditions") or ()]
    over = phase in ("Succeeded", "Failed")
    inits = [one["name"] for one in pod["spec"].get("initContainers") or () if one["name"] not in sidecars]
    left = [n for n in inits if not ((end := life.containers[n].end) and not end.code)]
    left += [name for name in sidecars if not told[name]["started"]]
    unready = [n for n in (*sidecars, *(one["name"] for one in pod["spec"]["containers"])) if not told[n]["ready"]]
    done = "PodCompleted" if phase == "Succeeded" else "PodFailed" if over else ""
    init: Json = {"type": "Initialized", "status": "True"}
    if left and not life.initialized:
        message = f"containers with incomplete status: [{' '.join(left)}]"
        init = {**init, "status": "False", "reason": "ContainersNotInitialized", "message": message}
    ready: Json = {"type": "ContainersReady", "status": "True"}
    if over:
        ready = {**ready, "status": "False", "reason": done}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = {**ready, "status": "False", "reason": "ContainersNotReady", "message": message}
    whole = {**ready, "type": "Ready"}
    sandbox = {"type": "PodReadyToStartContainers", "status": "False" if over else "True"}
    for one in (sandbox, init, whole, ready, {"type": "PodScheduled", "status": "True"}):
        set_condition(conditions, one, now)
    return conditions


def _container(one: Mapping[str, Any], pod: Object, life: Life, now: float, *, init: bool) -> Json:
    own, told = life.containers[one["name"]], life.plans[one["name"]]
    ready = own.ready_at(told)
    sidecar = init and one.get("restartPolicy") == "Always"
    once = init and not sidecar
    identity = f"containerd://{_digest(f'{life.uid} {own.name} {own.restarts}')}"
    known = own.state == "running" or own.end is not None
    state = _state(own, pod, life, now, identity)
    last = own.end if own.end and "terminated" not in state else None
    return {
        "name": own.name,
        "state": state,
        "lastState": {"terminated": _terminated(last, identity)} if last else {},
        "ready": bool(own.end and not own.end.code and own.state == "ended")
        if once
        else ready is not None and ready <= now + HAIR,
        "restartCount": own.restarts,
        "image": own.image,
        "imageID": f"{own.image.partition('@')[0]}@sha256:{_digest(own.image)}" if known else "",
        **({"containerID": identity} if known else {}),
        "started": own.state == "running",
    }


def _state(own: Container, pod: Object, life: Life, now: float, identity: str) -> Json:
    if own.state == "running":
        return {"running": {"startedAt": stamp(own.at)}}
    if own.state == "ended" and own.end is not None:
        delay = backoff(own.streak - 1)
        if life.ended or not own.again(life.plans[own.name]) or not delay:
            return {"terminated": _terminated(own.end, identity)}
        meta = pod["metadata"]
        where = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
        message = f"back-off {_duration(delay)} restarting failed container={own.name} pod={where}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    error = life.plans[own.name].pull_error
    if own.state == "unpulled" or (own.state == "pulling" and own.streak):
        if own.state == "unpulled" and now - own.at < FRESH - HAIR:
            text = f'failed to pull and unpack image "{own.image}": {error}'
            return {"waiting": {"reason": "ErrImagePull", "message": text}}
        text = f'Back-off pulling image "{own.image}": ErrImagePull: {error}'
        return {"waiting": {"reason": "ImagePullBackOff", "message": text}}
    waits = pod["spec"].get("initContainers") and not life.initialized
    return {"waiting": {"reason": "PodInitializing" if waits else "ContainerCreating"}}


def _terminated(end: End, identity: str) -> Json:
    return {
        "exitCode": end.code,
        "reason": end.reason,
        "startedAt": stamp(end.started),
        "finishedAt": stamp(end.finished),
        "containerID": identity,
    }


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
