"""The life of one Pod on its node, and of each of its containers. No I/O and no clock: time is handed in.

    waiting ─► pulling ─► running ─► ended ─► …   again at once, then after 10 s, 20 s … 5 min: CrashLoopBackOff
        ▲         │
        └─────────┘                               after 10 s, 20 s … 5 min: ImagePullBackOff

Without annotations an image is pulled, containers start and are well. The Pod's annotations tell otherwise, read again
at each step: `devkube.io/WHAT` for every container, or `devkube.io/WHAT.CONTAINER` for one of them, which wins.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from devkube.kinds import Object

PREFIX: Final = "devkube.io/"
_NUMBERS: Final = ("pull-seconds", "run-seconds", "exit-code", "ready-seconds")
_KNOWN: Final = (*_NUMBERS, "pull-error", "pod-ip")
BRIEF: Final = 0.5  # seconds of a container that is to end and says nothing: of Jobs, and those that come first
EARLY: Final = 0.001  # seconds that an alarm may be

State = Literal["waiting", "pulling", "running", "ended"]


def annotations(pod: Object) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def faults(pod: Object) -> Iterator[str]:
    """One line for each annotation of ours that means nothing."""
    for key, value in annotations(pod).items():
        what = key.removeprefix(PREFIX).partition(".")[0]
        if key.startswith(PREFIX) and what not in _KNOWN:
            yield f"annotation {key} is unknown; there are {', '.join(_KNOWN)}"
        elif key.startswith(PREFIX) and what in _NUMBERS and _number(value) is None:
            yield f"annotation {key} is {value!r}, which is neither a number of 0 or more nor never"


def _number(value: str) -> float | None:
    try:
        found = math.inf if value == "never" else float(value)
    except ValueError:
        return None
    return found if found >= 0 else None


def backoff(failures: int) -> float:
    """Seconds after so many failures in a row."""
    return min(10.0 * 2.0 ** min(failures - 1, 10), 300.0) if failures > 0 else 0.0


class End(NamedTuple):
    code: int
    started: float
    finished: float


@dataclass
class Container:
    init: bool  # sidecars too
    restart: str  # Always, OnFailure, Never
    run: float  # seconds until it ends by itself, if nothing else is told
    spec: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    state: State = "waiting"
    since: float = math.inf  # of one that has to wait for others
    restarts: int = 0
    failures: int = 0  # ends or failed pulls in a row
    end: End | None = None  # the last one

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def lasting(self) -> bool:
        """It is to run beside others, and not to its end before them."""
        return not self.init or self.restart == "Always"

    @property
    def well(self) -> bool:
        return self.state == "ended" and self.end is not None and not self.end.code

    @property
    def again(self) -> bool:
        """Whether it is started again after the end that it had."""
        failed = self.end is not None and self.end.code != 0
        return self.restart == "Always" or (self.restart == "OnFailure" and failed)

    def told(self, what: str) -> str:
        return self.annotations.get(f"{PREFIX}{what}.{self.name}", self.annotations.get(PREFIX + what, ""))

    def number(self, what: str, usual: float) -> float:
        found = _number(self.told(what))
        return usual if found is None else found

    def turn(self, state: State, at: float) -> None:
        self.state, self.since = state, at

    def stop(self, at: float, code: int = 0) -> None:
        self.end = End(code, self.since, at)
        self.turn("ended", at)

    def ready_at(self) -> float:
        usual = (self.spec.get("readinessProbe") or {}).get("initialDelaySeconds") or 0.0
        return self.since + self.number("ready-seconds", usual) if self.state == "running" else math.inf

    def over_at(self, pull: float) -> float:
        """When it leaves its state by itself; `pull` is what an image takes that says nothing."""
        if self.state == "waiting":
            lasts = backoff(self.failures)
        elif self.state == "pulling":
            lasts = self.number("pull-seconds", pull)
        elif self.state == "running":
            lasts = self.number("run-seconds", min(self.run, BRIEF if self.told("exit-code") else math.inf))
        else:
            lasts = backoff(self.failures - 1) if self.again else math.inf
        return self.since + lasts


class Life:
    """`images` are those of the node, to which it adds; `pull` is how long another one takes."""

    def __init__(self, pod: Object, images: set[str], pull: float, ip: str, now: float) -> None:
        self.began, self.ip = now, ip
        self._images, self._pull = images, pull
        spec, of_job = pod["spec"], any(one["kind"] == "Job" for one in pod["metadata"].get("ownerReferences") or ())
        policy = spec["restartPolicy"]
        self.mains = [Container(False, policy, BRIEF if of_job else math.inf) for _ in spec["containers"]]
        self.inits = [
            Container(True, "Always", math.inf)
            if one.get("restartPolicy") == "Always"
            else Container(True, "Never" if policy == "Never" else "OnFailure", BRIEF)
            for one in spec.get("initContainers") or ()
        ]
        self.initialized = self.ended = False  # ended: no container is started again
        self.due = math.inf  # when to look again, if nothing changes before
        self.stops = math.inf  # when it is over, because it was deleted
        self.happened: list[tuple[Container, str, str, bool]] = []  # reason, message, whether it is a warning

    @property
    def containers(self) -> list[Container]:
        return [*self.inits, *self.mains]

    def advance(self, pod: Object, now: float) -> None:
        """Bring the Pod up to now. Each turn happens at the instant at which it was due."""
        self.due = math.inf
        specs = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        for own, spec in zip(self.containers, specs, strict=True):
            own.spec, own.annotations = spec, annotations(pod)
        if not self.ended and self._live(now):
            self.ended, self.due = True, math.inf
            for own in self.containers:
                if own.state == "running":  # sidecars
                    own.stop(now)

    def _live(self, now: float) -> bool:
        """Whether the Pod is over."""
        at = self.began
        for own in self.inits:
            self._step(own, at, now)
            passed = own.state == "running" if own.lasting else own.well
            if own.state == "ended" and not passed and not own.again:
                return True
            if not passed and not self.initialized:
                return False
            at = max(at, own.since)
        self.initialized = True
        for own in self.mains:
            self._step(own, at, now)
        return all(own.state == "ended" and not own.again for own in self.mains)

    def _step(self, own: Container, began: float, now: float) -> None:
        if own.since == math.inf:
            own.since = began
        while (due := own.over_at(self._pull)) <= now + EARLY:
            self._turn(own, due)
        ready = own.ready_at()
        self.due = min(self.due, due, ready if ready > now + EARLY else math.inf)

    def _turn(self, own: Container, at: float) -> None:
        image = own.spec["image"]
        if own.state == "pulling" and (error := own.told("pull-error")):
            self._say(own, "Failed", f'Failed to pull image "{image}": ErrImagePull: {error}', warning=True)
            own.turn("waiting", at)
            own.failures += 1
        elif own.state == "pulling":
            self._images.add(image)
            own.failures = 0
            self._start(own, at, f'Successfully pulled image "{image}" in {at - own.since:.3g}s')
        elif own.state == "running":
            own.stop(at, int(min(own.number("exit-code", 0), 255)))
            own.failures += 1
            if own.failures > 1:
                self._say(own, "BackOff", f"Back-off restarting failed container {own.name}", warning=True)
        elif own.end or (image in self._images and not own.told("pull-seconds") and not own.told("pull-error")):
            own.restarts += own.end is not None
            self._start(own, at, f'Container image "{image}" already present on machine')
        else:
            self._say(own, "Pulling", f'Pulling image "{image}"')
            own.turn("pulling", at)

    def _start(self, own: Container, at: float, pulled: str) -> None:
        self._say(own, "Pulled", pulled)
        self._say(own, "Created", "Container created")
        self._say(own, "Started", "Container started")
        own.turn("running", at)

    def _say(self, own: Container, reason: str, message: str, *, warning: bool = False) -> None:
        self.happened.append((own, reason, message, warning))
