"""What shall become of a container, as the Pod's annotations tell it; without any, it is pulled, started and well.

    devkube.io/WHAT             for every container of the Pod, or
    devkube.io/WHAT.CONTAINER   for one of them, which wins

    pull-seconds   how long the image takes, also where the node has it; pull-error: why it cannot be pulled
    run-seconds    it ends by itself after so long, with this exit-code
    ready-seconds  when it is ready, counted from its start, or `never`; stop-seconds: what it takes after SIGTERM

Annotations are read at each step: changing one changes what comes. One that makes no sense is told by an Event.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube.kinds import Object

PREFIX: Final = "devkube.io/"
INIT_SECONDS: Final = 0.5  # of an init container that says nothing
JOB_SECONDS: Final = 1.0  # of a Job's container
STOP_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Plan:
    """Times in seconds; None: never ends, never passes, no pull needed."""

    pull: float | None
    pull_error: str
    run: float | None
    code: int
    ready: float | None
    stop: float
    restart: str  # Always, OnFailure, Never


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError
    return value


def _maybe(text: str) -> float | None:
    return None if text == "never" else _seconds(text)


def _code(text: str) -> int:
    if not (text.isdecimal() and int(text) <= 255):
        raise ValueError
    return int(text)


_WHAT: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    "pull-seconds": (_seconds, "seconds"),
    "pull-error": (str, ""),
    "run-seconds": (_seconds, "seconds"),
    "exit-code": (_code, "a number up to 255"),
    "ready-seconds": (_maybe, "seconds or never"),
    "stop-seconds": (_seconds, "seconds"),
    "pod-ip": (str, ""),
}


def faults(pod: Object) -> Iterator[str]:
    """One line for each annotation of ours that means nothing."""
    spec = pod["spec"]
    names = {one["name"] for one in (*spec["containers"], *(spec.get("initContainers") or ()))}
    for key, text in sorted((pod["metadata"].get("annotations") or {}).items()):
        if not key.startswith(PREFIX):
            continue
        what, _, container = key.removeprefix(PREFIX).partition(".")
        if what not in _WHAT:
            yield f"annotation {key} is unknown; there are {', '.join(_WHAT)}"
        elif container and container not in names:
            yield f"annotation {key} names no container of this Pod"
        elif _parsed(what, text) is _WRONG:
            yield f"annotation {key} is {text!r}, which is not {_WHAT[what][1]}"


_WRONG: Final = object()


def _parsed(what: str, text: str) -> Any:
    try:
        return _WHAT[what][0](text)
    except ValueError:
        return _WRONG


def plan(pod: Object, container: Mapping[str, Any], *, init: bool, present: bool, pull: float) -> Plan:
    """`present`: the node has the image; `pull`: how long an image takes that says nothing."""
    annotations = pod["metadata"].get("annotations") or {}

    def told(what: str, usual: Any = None) -> Any:
        for key in (f"{PREFIX}{what}.{container['name']}", PREFIX + what):
            if key in annotations and (value := _parsed(what, annotations[key])) is not _WRONG:
                return value
        return usual

    own = container.get("restartPolicy")
    policy, sidecar = own or pod["spec"]["restartPolicy"], init and own == "Always"
    once = init and not sidecar
    owners = pod["metadata"].get("ownerReferences") or ()
    of_job = any(one["kind"] == "Job" for one in owners) and not init
    usual = INIT_SECONDS if once else JOB_SECONDS if of_job else None
    always, asked = container["imagePullPolicy"] == "Always", told("pull-seconds")
    return Plan(
        pull=_pull(asked, present=present, always=always, never=container["imagePullPolicy"] == "Never", usual=pull),
        pull_error=told("pull-error", ""),
        run=told("run-seconds", usual if told("exit-code") is None else usual or 0.5),
        code=told("exit-code", 0),
        ready=told("ready-seconds", float((container.get("readinessProbe") or {}).get("initialDelaySeconds") or 0)),
        stop=told("stop-seconds", STOP_SECONDS),
        restart="OnFailure" if once and policy == "Always" else policy,
    )


def _pull(asked: float | None, *, present: bool, always: bool, never: bool, usual: float) -> float | None:
    if never or (present and not always):
        return None
    return 0.0 if present else usual if asked is None else asked
