"""What an Event must say, by the group it is written through. Rule: upstream's `core/validation/events.go`."""

from collections.abc import Iterator
from typing import Any

from devkube import events
from devkube.builtin import names
from devkube.builtin.causes import invalid, required, unchanged
from devkube.errors import Cause
from devkube.kinds import Object

_UNSET = ("firstTimestamp", "lastTimestamp", "count")
_FIXED = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
# Fields of an Event with eventTime, and how long each may be.
_LIMITS = (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024))


def event(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    strict = new.get("apiVersion") == events.NEW
    new = events.turned(new, events.CORE)
    yield from _either(new, "reportingController" if strict else "reportingComponent")
    if not strict:
        return
    series, before = new.get("series"), None
    if old is not None:
        old = events.turned(old, events.CORE)
        before = old.get("series")
        for key in _FIXED:
            yield from unchanged(_shown(key), new.get(key), old.get(key))
    if series and series != before and series.get("count", 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if old is None:
        if new.get("type") not in ("Normal", "Warning"):
            yield invalid("type", "", f"has invalid value: {new.get('type') or ''}")
        for key in _UNSET:
            if new.get(key):
                yield invalid(key, "", "needs to be unset")
        if any((new.get("source") or {}).values()):
            yield invalid("source", "", "needs to be unset")


def _shown(key: str) -> str:
    return "reportingController" if key == "reportingComponent" else key


def _either(new: Object, reporter: str) -> Iterator[Cause]:
    """What holds in both groups; `reporter` is the controller's field as the writer calls it."""
    namespace = (new.get("metadata") or {}).get("namespace") or ""
    about: Any = (new.get("involvedObject") or {}).get("namespace") or ""
    if not new.get("eventTime"):
        if namespace != about and (about or namespace != "default"):
            yield invalid("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not about and namespace not in ("default", "kube-system"):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    controller = new.get("reportingComponent") or ""
    if not controller:
        yield required(reporter)
    yield from names.check(reporter, controller, names.qualified)
    for key, limit in _LIMITS:
        value = new.get(key) or ""
        if not value and key != "message":
            yield required(key)
        if len(value.encode()) > limit:
            yield invalid(key, "", f"can have at most {limit} characters")
