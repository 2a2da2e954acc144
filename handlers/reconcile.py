"""The reconcile loop without its hands: which keys to look at, what is still to be done for each.

Events name keys (`System.concerns`); a key is looked at once however many events named it, never while its last writes
have not come back through the log (`hold`), again when its time has come (`again_ns`), and again when a kind that it
waits for was listed. What an Outcome wants and the world shows already is left out.

Excluded: carrying anything out (handlers.effects), reading the log (cmd).

Rules: design.md section 1; "level-based, triggered by events, replayable".
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eventstore import events
from handlers import canonical
from handlers.outcome import Apply, Intent, Key, Outcome, Told
from handlers.system import System
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World


class Work(NamedTuple):
    """What to carry out for a key, in order, wanted at `position`."""

    system: System
    key: Key
    intents: tuple[Intent, ...]
    position: str


class Timer(NamedTuple):
    due_ns: int
    handler: str
    key: Key


class Loop:
    """The queue of one leader. Keys of one system are looked at in the order in which they were named first."""

    def __init__(self, systems: Sequence[System], world: World) -> None:
        self.systems, self.world = {one.name: one for one in systems}, world
        self.kinds = frozenset(kind for one in systems for kind in one.kinds)
        self._queued: dict[tuple[str, Key], None] = {}
        self._held: dict[tuple[str, Key], int] = {}  # until this sequence was folded
        self._timers: dict[tuple[str, Key], int] = {}
        self._heap: list[Timer] = []
        self._defects: dict[tuple[str, Key], str] = {}

    def begin(self) -> None:
        """Look at everything: a leader that has just folded the log knows nothing of what was done."""
        for name, system in self.systems.items():
            for key in system.keys(self.world):
                self.add(name, key)

    def add(self, system: str, key: Key) -> None:
        self._queued.setdefault((system, key))

    def folded(self, event: events.Decoded) -> None:
        """An event that the world has folded just now."""
        for name, system in self.systems.items():
            for key in system.concerns(event, self.world):
                self.add(name, key)

    def hold(self, system: str, key: Key, sequence: int) -> None:
        """Writes for this key were appended up to `sequence`: look again when they are folded."""
        self._held[system, key] = sequence
        self.add(system, key)

    @property
    def ready(self) -> bool:
        """Whether every kind was listed: before that nothing is decided, absence would mean nothing."""
        return all(kind in self.world.listed for kind in self.kinds)

    def work(self, most: int) -> list[Work]:
        """Up to `most` keys that have something to do, out of at most four times as many that were looked at."""
        found: list[Work] = []
        if not self.ready:
            return found
        for name, key in self._free(most * 4):
            del self._queued[name, key]
            self._held.pop((name, key), None)
            made = self._look(self.systems[name], key)
            if made is not None:
                found.append(made)
            if len(found) >= most:
                break
        return found

    def _free(self, most: int) -> list[tuple[str, Key]]:
        found = []
        for entry in self._queued:
            if self._held.get(entry, 0) <= self.world.sequence:
                found.append(entry)
                if len(found) >= most:
                    break
        return found

    def _look(self, system: System, key: Key) -> Work | None:
        reader = Reader(self.world)
        try:
            outcome = system.desired(reader, key)
        except Unlisted:
            return None  # listed kinds name their keys again
        self._time(system.name, key, outcome)
        left = tuple(pending(outcome, self.world, key))
        return Work(system, key, left, reader.position) if left else None

    def _time(self, name: str, key: Key, outcome: Outcome) -> None:
        if outcome.again_ns:
            self._timers[name, key] = outcome.again_ns
            heapq.heappush(self._heap, Timer(outcome.again_ns, name, key))
        else:
            self._timers.pop((name, key), None)

    def due(self, now_ns: int) -> list[Timer]:
        """Deadlines that have passed on the leader's clock: each is appended as `timer.fired`, which names the key."""
        found = []
        while self._heap and self._heap[0].due_ns <= now_ns:
            timer = heapq.heappop(self._heap)
            if self._timers.get((timer.handler, timer.key)) == timer.due_ns:
                del self._timers[timer.handler, timer.key]
                found.append(timer)
        return found

    @property
    def next_due_ns(self) -> int:
        """0 when nothing waits for its time."""
        return self._heap[0].due_ns if self._heap else 0

    @property
    def idle(self) -> bool:
        return not self._queued


def pending(outcome: Outcome, world: World, key: Key) -> Iterable[Intent]:
    """What of an Outcome is not so already."""
    reader = Reader(world)
    for intent in outcome.intents:
        if isinstance(intent, Apply) and _applied(intent, world):
            continue
        if isinstance(intent, Told) and reader.told(key, intent):
            continue
        yield intent


def _applied(intent: Apply, world: World) -> bool:
    """Whether this body was applied, and nothing says that the object has changed or gone since."""
    applied, live = world.applied.get(intent.key), world.find(intent.key)
    if applied is None or applied.verb != "apply" or applied.desired != canonical.digest(intent.body):
        return False
    if live is None:
        listed = world.listed.get(intent.key.kind)
        return listed is None or listed.sequence < applied.sequence  # created, and not seen yet
    if live.uid != applied.uid:
        return False
    older = live.resource_version.isdigit() and int(live.resource_version) < int(applied.resource_version or 0)
    if older:
        return True
    generation = live.value.metadata.generation if live.value is not None else 0
    return not intent.drifted and generation in (0, applied.generation)
