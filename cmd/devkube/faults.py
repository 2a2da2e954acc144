"""Trouble on demand, for tests of clients: requests that fail, wait or are cut off, and connections that break.

    api.faults.fail(503, verb="list", resource="pods", count=2)
    api.faults.delay(1.5, verb="update")
    api.faults.cut(verb="watch")              # the next watch's connection breaks instead of an answer
    api.faults.cut_connections()              # all of now
    api.faults.clear()

A fault meets requests that come over the network, after authentication, in the order in which faults were made; the
first of them that fits decides, delays add up. `hits` tells how often it did.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from devkube.errors import StatusError
from devkube.routes import Route

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Fault:
    """Which requests it is for (empty: any), what it does to them, and how many are left (None: no end)."""

    verb: str = ""
    resource: str = ""  # plural
    group: str | None = None
    namespace: str = ""
    name: str = ""
    subresource: str | None = None
    count: int | None = None
    error: StatusError | None = None
    seconds: float = 0.0
    cut: bool = False
    hits: int = field(default=0, init=False)

    def fits(self, route: Route) -> bool:
        return (
            (self.count is None or self.hits < self.count)
            and self.verb in ("", route.verb)
            and self.resource in ("", route.plural)
            and self.group in (None, route.group)
            and self.namespace in ("", route.namespace)
            and self.name in ("", route.name)
            and self.subresource in (None, route.subresource)
        )


class Faults:
    def __init__(self) -> None:
        self.active: list[Fault] = []
        self.cut_connections: Callable[[], int] = lambda: 0  # set when the server listens

    def fail(
        self, code: int = 500, reason: str = "", message: str = "", *, retry_after: int = 0, **which: object
    ) -> Fault:
        """`which`: the fields of Fault that tell which requests, and `count`."""
        reason = reason or _REASONS.get(code, "Unknown")
        told = message or f"a fault that was asked for: {code} {reason}"
        return self._add(error=StatusError(code, reason, told, retry_after=retry_after), **which)

    def delay(self, seconds: float, **which: object) -> Fault:
        return self._add(seconds=seconds, **which)

    def cut(self, **which: object) -> Fault:
        return self._add(cut=True, **{"count": 1, **which})

    def clear(self) -> None:
        self.active.clear()

    async def meet(self, route: Route) -> None:
        """StatusError, ConnectionAbortedError, or a moment later nothing."""
        for fault in tuple(self.active):
            if not fault.fits(route):
                continue
            fault.hits += 1
            if fault.seconds:
                await asyncio.sleep(fault.seconds)
            if fault.cut:
                raise ConnectionAbortedError("a fault that was asked for")
            if fault.error is not None:
                raise fault.error

    def _add(self, **fields: object) -> Fault:
        fault = Fault(**fields)  # type: ignore[arg-type]
        self.active.append(fault)
        return fault
