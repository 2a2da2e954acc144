"""The life of one Pod on its node: init containers in their order, sidecars, the others, and the end of all.

`advance` brings it up to now and tells what happened; `podstatus` makes a status of it. Rules: upstream's
pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodActions). No I/O and no clock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from devkube.kinds import Object
from devkube.simulation.containers import HAIR, Container, Happening
from devkube.simulation.plans import PREFIX, Plan, plan

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
