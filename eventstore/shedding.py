"""A log that is nearly full gives up what is worth least first, so that what matters most still fits.

    from 85 %   summaries, moments, statistics and probes are refused: their next ones say the same
    from 95 %   everything but the reserve: objects as observed, edges of replicas, reports
    reserve     deletions, effects, decisions; and the little that keeps roles at work: leaders, settings, lists,
                contact, deadlines. Until the stream itself refuses

Here: the classes and the judgement over numbers that a store brings. Who is refused gets `store.Shed`. A stream that
discards its old end is never nearly full. One line is logged when a level is entered and when it is left.

Rules: design.md section 2, "A full stream sheds by class".
"""

import time
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import structlog

from eventstore import envelope, store

log = structlog.get_logger(__name__)

_ASK_EVERY: Final = 5.0  # seconds between two looks at how full the stream is
_ASK_AFTER: Final = 0.01  # of its room, appended by this process since the last look


class Worth(IntEnum):
    FIRST = 0  # shed first
    OTHER = 1
    RESERVE = 2


FIRST_FROM: Final = 0.85
OTHER_FROM: Final = 0.95

_FIRST: Final = frozenset(("index.summarised", "moment", "probe.completed"))
_WORTH_MOST: Final = ("object.gone", "effect.applied", "effect.failed", "admission.decided")
_AT_WORK: Final = ("leader.elected", "settings.seen", "kind.listed", "watch.contact", "timer.fired")
_RESERVE: Final = frozenset((*_WORTH_MOST, *_AT_WORK))


def worth(event: envelope.Envelope) -> Worth:
    name = event.type.removeprefix(envelope.PREFIX).rpartition(".v")[0]
    if name in _RESERVE:
        return Worth.RESERVE
    statistics = name == "replica.observed" and b'"edge":"statistics"' in bytes(event.data)
    return Worth.FIRST if name in _FIRST or statistics else Worth.OTHER


class Gate:
    """For one stream and one process. `learn` what the stream holds whenever `stale` says so, then `admit`."""

    def __init__(self, stream: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self._clock = stream, clock
        self.used, self.limit = 0, 0  # bytes; limit 0 = there is none
        self.shed: Counter[Worth] = Counter()
        self._asked = float("-inf")
        self._since = 0
        self._level = 0

    @property
    def fullness(self) -> float:
        """0 to 1; 0 where there is no limit."""
        return (self.used + self._since) / self.limit if self.limit > 0 else 0.0

    def stale(self) -> bool:
        """Whether to look again. Counts as a look: those who append meanwhile do not ask as well."""
        now = self._clock()
        grown = self.limit > 0 and self._since > self.limit * _ASK_AFTER
        if now - self._asked < _ASK_EVERY and not grown:
            return False
        self._asked = now
        return True

    def learn(self, used: int, limit: int) -> None:
        self.used, self.limit, self._since = used, limit, 0
        level = (self.fullness >= FIRST_FROM) + (self.fullness >= OTHER_FROM)
        if level > self._level:
            log.error("log-nearly-full", stream=self.stream, full=f"{self.fullness:.0%}", remedy=self.remedy)
        elif level < self._level:
            log.info("log-has-room-again", stream=self.stream, full=f"{self.fullness:.0%}")
        self._level = level

    @property
    def remedy(self) -> str:
        return f"nats stream edit {self.stream} --max-bytes={self.limit * 2}"

    def appended(self, size: int) -> None:
        self._since += size

    def admit(self, event: envelope.Envelope) -> None:
        """Raises Shed."""
        value = worth(event)
        limit = {Worth.FIRST: FIRST_FROM, Worth.OTHER: OTHER_FROM, Worth.RESERVE: float("inf")}[value]
        if self.fullness < limit:
            return
        self.shed[value] += 1
        raise store.Shed(
            f"stream {self.stream} is {self.fullness:.0%} full and takes no more {event.type}; "
            f"give it room: {self.remedy}"
        )
