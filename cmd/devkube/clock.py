"""Time that a test may freeze and advance. Everything devkube dates or waits for goes through one `Clock`.

While the clock is frozen nothing is due but by `advance` (or `thaw`), so that a test sees minutes of cluster life in no
time and in a fixed order. Network deadlines (a watch's timeoutSeconds, a webhook's timeout) are promises to processes
outside and stay real time.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class Alarm:
    """A call that is due at some time; `cancel` makes it nothing."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback, self.cancelled = callback, False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    def __init__(self) -> None:
        self._offset = 0.0  # seconds that the clock is ahead of the machine's
        self._frozen: float | None = None  # the instant it stands at, as seconds of the machine's monotonic clock
        self._wall = time.time() - time.monotonic()
        self._order = itertools.count()
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._timer: asyncio.TimerHandle | None = None

    def monotonic(self) -> float:
        """Seconds since some instant; never goes back."""
        return self._frozen if self._frozen is not None else time.monotonic() + self._offset

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall + self.monotonic(), UTC)

    def timestamp(self) -> str:
        """metav1.Time: whole seconds."""
        return self.after(0)

    def after(self, seconds: float) -> str:
        """The timestamp that many seconds from now; beyond the calendar its last one (graces may be of any length)."""
        try:
            return (self.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        except OverflowError:
            return "9999-12-31T23:59:59Z"

    @property
    def frozen(self) -> bool:
        return self._frozen is not None

    def freeze(self) -> None:
        self._frozen = self.monotonic()
        self._arm()

    def advance(self, seconds: float) -> None:
        """Move on and wake, in order of their deadlines, who waits."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back, and it was asked to advance by {seconds} s")
        if self._frozen is not None:
            self._frozen += seconds
        else:
            self._offset += seconds
        self._wake()

    def thaw(self) -> None:
        """Go on at the usual pace from where it stands."""
        self._offset, self._frozen = self.monotonic() - time.monotonic(), None
        self._wake()

    def due(self) -> float | None:
        """Seconds until the next alarm; None: nothing waits."""
        while self._alarms and self._alarms[0][2].cancelled:
            heapq.heappop(self._alarms)
        return max(0.0, self._alarms[0][0] - self.monotonic()) if self._alarms else None

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(callback)
        heapq.heappush(self._alarms, (self.monotonic() + seconds, next(self._order), alarm))
        self._arm()
        return alarm

    def _wake(self) -> None:
        while self.due() == 0:
            heapq.heappop(self._alarms)[2].callback()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._frozen is None and (delay := self.due()) is not None:
            # A hair late rather than early: a timer that fires before its deadline would only be armed again.
            self._timer = asyncio.get_running_loop().call_later(delay + 0.0005, self._wake)
