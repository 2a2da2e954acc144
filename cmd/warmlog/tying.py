"""Which recorded decision is a Pod's.

A decision is told under the Pod's name, or under its generateName when the API server had not made the name yet. Those
are tied to the Pod by what both show: the same controlling owner, every mark and container that the patch added, and
time: the newest decision before the Pod was made. Others that agree in all of it say the same; they are named too.

Rules: design.md section 2 ("admission.decided").
"""

from typing import NamedTuple

from crds import core
from eventstore import events, store, subjects
from handlers import canonical, moments
from handlers.cachebackend import admit, names
from handlers.outcome import Key

_MARKS = (names.INJECTED_BY, names.INJECTED_BY_UID, names.INJECT_SKIPPED)


class Decided(NamedTuple):
    stored: store.Stored
    data: events.AdmissionDecided


class Chosen(NamedTuple):
    """`tied` says by what; `alike` are sequences of others that fit as well."""

    decided: Decided
    tied: list[str]
    alike: list[int]

    @property
    def sequence(self) -> int:
        return self.decided.stored.sequence


def by_webhook(found: list[Decided]) -> list[list[Decided]]:
    """Each webhook answers for itself."""
    return [[one for one in found if one.data.webhook == name] for name in {one.data.webhook: None for one in found}]


async def decisions(control: store.EventStore, key: Key, pod: core.Pod | None, until: int) -> list[Decided]:
    """Told under its name, or the prefix that its name was generated from; oldest first."""
    prefix = pod.metadata.generate_name if pod is not None else ""
    told = dict.fromkeys((key.name, prefix or f"{key.name.rpartition('-')[0]}-" if "-" in key.name else prefix))
    found = []
    for name in filter(None, told):
        subject = subjects.admission_subject("*", key.namespace, name)
        async for batch in control.read(subject=subject):
            for stored in batch:
                decoded = events.decode(stored)
                data = decoded.data if isinstance(decoded, events.Decoded) else None
                if isinstance(data, events.AdmissionDecided) and data.kind == core.PODS and stored.sequence <= until:
                    found.append(Decided(stored, data))
    return sorted(found, key=lambda one: one.stored.sequence)


async def first_seen(control: store.EventStore, key: Key, uid: str) -> store.Stored | None:
    async for batch in control.read(subject=subjects.object_subject(*key)):
        for stored in batch:
            decoded = events.decode(stored)
            data = decoded.data if isinstance(decoded, events.Decoded) else None
            if isinstance(data, events.ObjectSeen) and data.uid == uid:
                return stored
    return None


def _owner(pod: core.Pod) -> str:
    owner = pod.metadata.controller
    return "" if owner is None else f"{owner.kind}/{owner.name}/{owner.uid}"


def choose(found: list[Decided], key: Key, pod: core.Pod | None, first: store.Stored | None) -> Chosen | None:
    """The Pod's decision among those of one webhook, oldest first."""
    fits = [one for one in found if fitting(one, key, pod, first)]
    if not fits:
        return None
    named = [one for one in fits if one.data.name == key.name]
    if named:
        return Chosen(named[-1], ["name", *_tied(pod)], [])
    if pod is None:
        others = [one.stored.sequence for one in fits[:-1]]
        return Chosen(fits[-1], ["generateName only: the Pod itself is not known"], others)
    chosen, said = fits[-1], _template(fits[-1])
    alike = [one.stored.sequence for one in fits[:-1] if _template(one) == said]
    return Chosen(chosen, ["generateName", "owner", *_tied(pod), "time"], alike)


def _tied(pod: core.Pod | None) -> list[str]:
    return ["what the patch added"] if pod is not None else []


def _template(one: Decided) -> str:
    return canonical.digest([one.data.view, one.data.patch])


def _too_late(one: Decided, pod: core.Pod) -> bool:
    """A second later than the Pod was made: creationTimestamp has whole seconds."""
    made = moments.seconds(pod.metadata.creation_timestamp)
    return made is not None and one.stored.time_ns >= (made + 1) * 10**9


def fitting(one: Decided, key: Key, pod: core.Pod | None, first: store.Stored | None) -> bool:
    if one.data.name not in ("", key.name):
        return False
    if pod is None:
        return True
    if first is not None and one.stored.sequence > first.sequence:
        # Appended after the Pod was seen: while NATS was away decisions wait, so only its own name ties it.
        return one.data.name == key.name
    return one.data.owner == _owner(pod) and not _too_late(one, pod) and _shows(pod, one.data)


def _shows(pod: core.Pod, data: events.AdmissionDecided) -> bool:
    """Whether the Pod has what the decision left it with: marks and containers, for that is what is kept of it."""
    annotations = dict((data.view.get("metadata") or {}).get("annotations") or {})
    wanted = {mark: annotations[mark] for mark in _MARKS if mark in annotations}
    containers = {one["name"] for one in (data.view.get("spec") or {}).get("containers") or () if "name" in one}
    for op in data.patch:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:]]
        if parts[:2] == ["metadata", "annotations"]:
            given = op.get("value") if len(parts) == 2 else {parts[2]: op.get("value")}
            for mark in _MARKS if len(parts) == 2 else (parts[2],):
                if mark not in _MARKS:
                    continue
                if op["op"] == "remove" or not isinstance(given, dict) or given.get(mark) is None:
                    wanted.pop(mark, None)
                else:
                    wanted[mark] = given[mark]
        if parts[:2] == ["spec", "containers"] and len(parts) == 3 and op["op"] == "add":
            containers.add(str((op.get("value") or {}).get("name", "")))
    marks = {mark: value for mark, value in pod.metadata.annotations.items() if mark in _MARKS}
    if data.webhook != admit.Pods.name:  # another webhook answers before or after it, and leaves no marks of its own
        marks = wanted
    return marks == wanted and containers <= {one.name for one in pod.spec.containers}
