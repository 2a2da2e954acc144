"""How fast one key may be written: counts at most once per 5 s, trouble with growing pauses, and no tight loop.

    lazy       a status in which only counts changed waits until 5 s after the last status write
    repeats    a body that was written three times within a minute waits: what does not converge is not written faster
    room       twenty writes at once, then one per 3 s, whatever they say
    refused    a body that the API refused is tried again after a minute; another body at once
    passing    no answer, overload, a conflict: the whole key waits, twice as long each time

Times are the loop's monotonic seconds, given by the caller. No clock, no randomness but what the caller adds.

Rules: design.md section 5; seed 004, "matchedEnginePods" (5 s).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LAZY: Final = 5.0
WINDOW: Final = 60.0
FREE_REPEATS: Final = 3
ROOM, REFILL = 20.0, 3.0
FIRST_PAUSE, CONFLICT, LONGEST_PAUSE = 0.25, 0.1, 30.0
REFUSED: Final = 60.0


class Write(NamedTuple):
    """What is to be written: where, how, and the digest of the body."""

    target: str
    verb: str
    digest: str
    lazy: bool = False


@dataclass
class Pace:
    """Of one key. `tries` counts attempts in a row that failed in passing."""

    tries: int = 0
    defect: str = ""
    room: float = ROOM
    filled: float = 0.0
    status: float = float("-inf")  # when one was last written
    recent: deque[tuple[float, Write]] = field(default_factory=deque)
    refused: dict[tuple[str, str], tuple[str, str, float]] = field(default_factory=dict)  # digest, words, until

    def wait(self, write: Write, now: float) -> float:
        """Seconds that this write has to wait, 0 = none."""
        digest, _, until = self.refused.get((write.target, write.verb), ("", "", 0.0))
        if digest == write.digest and now < until:
            return until - now
        if write.lazy and now < self.status + LAZY:
            return self.status + LAZY - now
        self._fill(now)
        if self.room < 1:
            return (1 - self.room) * REFILL
        return 0.0 if write.lazy else max(0.0, self._repeated(write, now))

    def _fill(self, now: float) -> None:
        self.room = min(ROOM, self.room + (now - self.filled) / REFILL)
        self.filled = now

    def _repeated(self, write: Write, now: float) -> float:
        while self.recent and self.recent[0][0] < now - WINDOW:
            self.recent.popleft()
        same = [at for at, one in self.recent if one[:3] == write[:3]]
        if len(same) < FREE_REPEATS:
            return 0.0
        return same[-1] + min(2.0 ** (len(same) - FREE_REPEATS + 1), LONGEST_PAUSE) - now

    def wrote(self, write: Write, now: float) -> None:
        self._fill(now)
        self.room -= 1
        self.recent.append((now, write))
        self.refused.pop((write.target, write.verb), None)
        if write.verb == "status":
            self.status = now

    def refuse(self, write: Write, words: str, now: float, *, jitter: float) -> bool:
        """Whether this refusal is new, and thus to be told. `jitter` between 0.5 and 1.5."""
        before = self.refused.get((write.target, write.verb))
        self.refused[write.target, write.verb] = (write.digest, words, now + REFUSED * jitter)
        return before is None or before[:2] != (write.digest, words)

    def next_refused(self, now: float) -> float:
        """Seconds until the first refused body may be tried again, 0 when there is none."""
        return max(min((until for *_, until in self.refused.values()), default=now) - now, 0.0)

    def passing(self, *, conflict: bool = False) -> float:
        """The next pause."""
        self.tries += 1
        first = CONFLICT if conflict else FIRST_PAUSE
        return min(first * 2.0 ** min(self.tries - 1, 12), LONGEST_PAUSE)

    def settled(self) -> None:
        """Nothing is left to do."""
        self.tries, self.defect = 0, ""
        self.refused.clear()

    def forgettable(self, now: float) -> bool:
        """Nothing in it would change an answer any more."""
        return not self.tries and not self.defect and not self.refused and now - self.filled > WINDOW
