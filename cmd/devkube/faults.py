"""Trouble on demand, for tests of clients: requests that fail, wait or are cut off, and connections that break.

    api.faults.fail(503, verb="list", resource="pods", count=2)
    api.faults.delay(1.5, verb="update")
    api.faults.cut(verb="watch")              # the next watch's connection breaks instead of an answer
    api.faults.cut_connections()              # all of now
    api.faults.clear()

A fault meets requests that come over the network, after authentication, in the order in which faults were made; the
first of them that fits decides, delays add up. `hits` tells how often it did. Which requests it meets is told by
verb, group, resource, namespace, name and subresource; `count` says how many (none: no end).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from devkube.errors import StatusError
from devkube.routes import Route

_REASONS = {410: "Expired", 422: "Invalid", 500: "InternalError", 504: "Timeout"}  # others are HTTP's own words
_WHICH = ("verb", "group", "resource", "namespace", "name", "subresource")


@dataclass
class Fault:
    """What it does, to which requests, how often it may and how often it did."""

    which: dict[str, str]
    count: int | None
    error: Exception | None
    seconds: float = 0.0
    hits: int = 0

    def fits(self, route: Route) -> bool:
        asked = {**vars(route), "resource": route.plural}
        return (self.count is None or self.hits < self.count) and self.which.items() <= asked.items()


class Faults:
    def __init__(self) -> None:
        self.active: list[Fault] = []
        self.cut_connections: Callable[[], int] = lambda: 0  # set when the server listens

    def fail(self, code: int = 500, *, count: int | None = None, retry_after: int = 0, **which: str) -> Fault:
        reason = _REASONS.get(code) or HTTPStatus(code).phrase.replace(" ", "")
        error = StatusError(code, reason, f"a fault that was asked for: {code} {reason}", retry_after=retry_after)
        return self._add(count, error, 0, which)

    def delay(self, seconds: float, *, count: int | None = None, **which: str) -> Fault:
        return self._add(count, None, seconds, which)

    def cut(self, *, count: int | None = 1, **which: str) -> Fault:
        return self._add(count, ConnectionAbortedError("a fault that was asked for"), 0, which)

    def clear(self) -> None:
        self.active.clear()

    async def meet(self, route: Route) -> None:
        """StatusError, ConnectionAbortedError, or a moment later nothing."""
        for fault in tuple(self.active):
            if fault.fits(route):
                fault.hits += 1
                await asyncio.sleep(fault.seconds)
                if fault.error is not None:
                    raise fault.error

    def _add(self, count: int | None, error: Exception | None, seconds: float, which: dict[str, str]) -> Fault:
        if unknown := which.keys() - set(_WHICH):
            raise TypeError(f"a fault is for requests of some {', '.join(_WHICH)}, not {', '.join(unknown)}")
        self.active.append(Fault(which, count, error, seconds))
        return self.active[-1]
