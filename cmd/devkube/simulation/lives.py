"""The life of one Pod on its node, and of each of its containers. No I/O and no clock: time is handed in.

    new ─► waiting ─► pulling ─► running ─► ended ─► waiting …
                        │  ▲                  (CrashLoopBackOff: at once, then after 10 s, 20 s … 5 min)
                        ▼  │
                      unpulled   (ErrImagePull, ImagePullBackOff: 10 s, 20 s … 5 min)

Each turn happens at the instant at which it was due and not at which somebody looked, so that a clock may be advanced
by an hour at once and every time in a status is right. `Life.advance` brings a Pod up to now and tells what happened;
`podstatus` makes a status of it. Rules: upstream's pkg/kubelet (delays) and kuberuntime_manager.go (computePodActions).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from devkube.kinds import Object
from devkube.simulation.plans import PREFIX, Plan, plan

State = Literal["new", "waiting", "pulling", "unpulled", "running", "ended"]
HAIR: Final = 0.001  # seconds that an alarm may be early
_CALM: Final = 600.0  # a container that ran so long starts over without delay
FRESH: Final = 2.0  # seconds that ErrImagePull is told before ImagePullBackOff


@dataclass(frozen=True)
class Happening:
    """What becomes an Event about a container, or about its Pod where `container` is empty."""

    reason: str
    message: str
    warning: bool = False
    container: str = ""


@dataclass(frozen=True)
class End:
    code: int
    reason: str
    started: float
    finished: float


def backoff(failures: int) -> float:
    """Seconds after so many failures in a row."""
    return min(10.0 * 2.0 ** min(failures - 1, 10), 300.0) if failures > 0 else 0.0


@dataclass
class Container:
    name: str
    image: str
    state: State = "new"
    at: float = 0.0  # since when it is in this state
    restarts: int = 0
    streak: int = 0  # ends or failed pulls in a row
    pulled: bool = False
    end: End | None = None  # the last one

    def begin(self, at: float) -> None:
        if self.state == "new":
            self.state, self.at = "waiting", at

    def step(self, plan: Plan, now: float) -> Iterator[Happening]:
        while (due := self._until(plan)) is not None and due <= now + HAIR:
            yield from self._turn(plan, due)

    def stop(self, at: float, code: int, reason: str) -> None:
        """Somebody ended it."""
        if self.state == "running":
            self._end(at, code, reason)
        else:
            self.state, self.at = "ended" if self.end else "new", at

    def due(self, plan: Plan, now: float) -> float | None:
        """When to look again."""
        found = [self._until(plan)]
        if self.state == "unpulled":
            found.append(self.at + FRESH)
        elif self.state == "running":
            found.append(self.ready_at(plan))
        return min((one for one in found if one is not None and one > now + HAIR), default=None)

    def ready_at(self, plan: Plan) -> float | None:
        """Now or in future; None: not running, or never."""
        return None if self.state != "running" or plan.ready is None else self.at + plan.ready

    def again(self, plan: Plan) -> bool:
        """Whether it is started again after the end that it had."""
        failed = self.end is not None and self.end.code != 0
        return plan.restart == "Always" or (plan.restart == "OnFailure" and failed)

    def _until(self, plan: Plan) -> float | None:
        if self.state == "waiting":
            return self.at
        if self.state == "pulling":
            return self.at + (plan.pull or 0.0)
        if self.state == "unpulled":
            return self.at + backoff(self.streak)
        if self.state == "running":
            return None if plan.run is None else self.at + plan.run
        return self.at + backoff(self.streak - 1) if self.state == "ended" and self.again(plan) else None

    def _turn(self, plan: Plan, at: float) -> Iterator[Happening]:
        if self.state == "waiting":
            if self.pulled or plan.pull is None:
                text = f'Container image "{self.image}" already present on machine and can be accessed by the pod'
                yield self._happening("Pulled", text)
                yield from self._start(at)
            else:
                yield self._happening("Pulling", f'Pulling image "{self.image}"')
                self.state, self.at = "pulling", at
        elif self.state == "pulling" and plan.pull_error:
            yield self._happening("Failed", f'Failed to pull image "{self.image}": {plan.pull_error}', warning=True)
            yield self._happening("Failed", "Error: ErrImagePull", warning=True)
            self.state, self.at, self.streak = "unpulled", at, self.streak + 1
        elif self.state == "pulling":
            took = f"{at - self.at:.3g}s"
            yield self._happening("Pulled", f'Successfully pulled image "{self.image}" in {took}')
            self.pulled, self.streak = True, 0
            yield from self._start(at)
        elif self.state == "unpulled":
            yield self._happening("BackOff", f'Back-off pulling image "{self.image}"')
            yield self._happening("Pulling", f'Pulling image "{self.image}"')
            self.state, self.at = "pulling", at
        elif self.state == "running":
            self._end(at, plan.code, "Error" if plan.code else "Completed")
            if self.streak > 1 and self.again(plan):
                text = f"Back-off restarting failed container {self.name}"
                yield self._happening("BackOff", text, warning=True)
        else:
            self.restarts, self.state, self.at = self.restarts + 1, "waiting", at

    def _start(self, at: float) -> Iterator[Happening]:
        yield self._happening("Created", "Container created")
        yield self._happening("Started", "Container started")
        self.state, self.at = "running", at

    def _end(self, at: float, code: int, reason: str) -> None:
        self.streak = 1 if at - self.at >= _CALM else self.streak + 1
        self.end = End(code, reason, self.at, at)
        self.state, self.at = "ended", at

    def _happening(self, reason: str, message: str, *, warning: bool = False) -> Happening:
        return Happening(reason, message, warning, self.name)


ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Image:
    """What the node knows of images, and how long one takes to pull (seconds) that it does not have."""

    present: frozenset[str] = frozenset()
    seconds: float = 1.0


@dataclass
class Life:
    uid: str
    began: float
    ip: str
    containers: dict[str, Container] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    initialized: bool = False
    ended: bool = False  # no container is started again
    killed: bool = False  # it was told to stop, and did
    asked: float | None = None  # when it was told to stop
    due: float | None = None

    def advance(self, pod: Object, images: Image, now: float) -> list[Happening]:
        """What happened since the last time, in order. `due` is when to look again (None: when something changes)."""
        self._plan(pod, images)
        if pod["metadata"].get("deletionTimestamp"):
            happened = list(self._stop(pod, now))
        elif self.ended:
            happened = []
        else:
            happened = list(self._live(pod, now))
        if self.asked is None:
            dues = [one.due(self.plans[name], now) for name, one in self.containers.items()]
            self.due = None if self.ended else min((d for d in dues if d is not None), default=None)
        return happened

    def _plan(self, pod: Object, images: Image) -> None:
        spec = pod["spec"]
        for init, found in ((True, spec.get("initContainers") or ()), (False, spec["containers"])):
            for one in found:
                name, image = one["name"], one.get("image", "")
                own = self.containers.setdefault(name, Container(name, image))
                if own.image != image:
                    own.image, own.pulled = image, False
                asked = any(key.startswith(f"{PREFIX}pull-") for key in pod["metadata"].get("annotations") or ())
                present = own.pulled or (image in images.present and not asked)
                self.plans[name] = plan(pod, one, init=init, present=present, pull=images.seconds)

    def _live(self, pod: Object, now: float) -> Iterator[Happening]:
        spec, at, waits = pod["spec"], self.began, False
        for one in spec.get("initContainers") or ():
            own, told = self.containers[one["name"]], self.plans[one["name"]]
            if waits and own.state == "new":
                break
            own.begin(at)
            yield from own.step(told, now)
            if one.get("restartPolicy") == "Always":
                waits = waits or own.state != "running"
                at = max(at, own.at)
            elif own.state != "ended" or own.end is None or own.end.code:
                waits = True
                if own.state == "ended" and not own.again(told):
                    yield from self._end(own.at, 0, "Completed")
                    return
            else:
                at = max(at, own.at)
        if waits and not self.initialized:
            return
        self.initialized = True
        for one in spec["containers"]:
            own, told = self.containers[one["name"]], self.plans[one["name"]]
            own.begin(at)
            yield from own.step(told, now)
        mains = [one["name"] for one in spec["containers"]]
        if all(self.containers[m].state == "ended" and not self.containers[m].again(self.plans[m]) for m in mains):
            yield from self._end(max(self.containers[m].at for m in mains), 0, "Completed")

    def _stop(self, pod: Object, now: float) -> Iterator[Happening]:
        """SIGTERM at the beginning of the grace period; who takes longer than that is killed."""
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if self.asked is None:
            self.asked = now
            yield from self._killing()
        stop = max(self.plans[name].stop for name in self.plans)
        end = self.asked + min(stop, grace)
        if end > now + HAIR and any(one.state == "running" for one in self.containers.values()):
            self.due = end
            return
        for one in self.containers.values():
            one.stop(max(min(end, now), one.at), 0 if stop <= grace else 137, "Completed" if stop <= grace else "Error")
        self.killed = self.ended = True
        self.due = None

    def _end(self, at: float, code: int, reason: str) -> Iterator[Happening]:
        """What still runs (sidecars) is stopped: nothing is started again."""
        self.ended = True
        yield from self._killing()
        for one in self.containers.values():
            one.stop(max(at, one.at), code, reason)

    def _killing(self) -> Iterator[Happening]:
        for name, one in self.containers.items():
            if one.state == "running":
                yield Happening("Killing", f"Stopping container {name}", container=name)


def failed(life: Life, spec: Mapping[str, Any]) -> bool:
    """Whether a Pod that ended did so badly."""
    names = [one["name"] for one in spec["containers"]]
    return any((end := life.containers[name].end) is None or end.code for name in names)
