"""One controller's queue: every object that may need work once, one after the other.

`reconcile(namespace, name)` returns in how many seconds it wants to look again, or None. A write that lost a race is
made again at once, anything else that fails later and later, by the clock: so time that stands still retries nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from devkube.clock import Alarm, Clock
from devkube.errors import StatusError

log = logging.getLogger("devkube")
Key = tuple[str, str]  # namespace, name
Reconcile = Callable[[str, str], Awaitable[float | None]]
_SLOWEST: Final = 60.0  # seconds between attempts at most


class Loop:
    def __init__(self, name: str, reconcile: Reconcile, clock: Clock) -> None:
        self.name, self._reconcile, self._clock = name, reconcile, clock
        self._todo: dict[Key, None] = {}
        self._work = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._alarms: dict[Key, Alarm] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        self._todo[key] = None
        self.idle.clear()
        self._work.set()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            while self._todo:
                key = next(iter(self._todo))
                del self._todo[key]
                await self._one(key)
            self._work.clear()
            self.idle.set()

    async def _one(self, key: Key) -> None:
        if alarm := self._alarms.pop(key, None):
            alarm.cancel()
        try:
            again = await self._reconcile(*key)
        except StatusError as error:
            again = self._again(key, error)
        except Exception:
            log.exception("simulation: %s of %s/%s failed", self.name, *key)
            again = self._delay(key)
        else:
            self._failures.pop(key, None)
        if again is not None:
            self._alarms[key] = self._clock.call_later(max(again, 0.001), lambda: self.add(key))

    def _again(self, key: Key, error: StatusError) -> float | None:
        if error.reason == "Conflict":
            self.add(key)
            return None
        if error.code != 404:  # what is gone needs nothing
            log.info("simulation: %s of %s/%s: %s", self.name, *key, error)
            return self._delay(key)
        return None

    def _delay(self, key: Key) -> float:
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        return min(0.5 * 2.0 ** min(failures, 10), _SLOWEST)
