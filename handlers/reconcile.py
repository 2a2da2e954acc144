"""The reconcile loop without its hands: which keys to look at, what is still to be done for each.

Events name keys (`System.concerns`); a key is looked at once however many events named it, never while it is being
worked on or its last writes have not come back through the log (`done`), again when its time has come (`again_ns`).
A system's keys wait until every kind that it reads was listed by this leader: what is in the log from before may be
old. What an Outcome wants and the world shows already is left out.

A handler that raises has a defect: it is told (`Work.defect`, `defects`) and never ends the loop.

Excluded: carrying anything out (handlers.effects), reading the log (cmd).

Rules: design.md section 1; "level-based, triggered by events, replayable".
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eventstore import events
from handlers import canonical, unusable
from handlers.outcome import Apply, Delete, Intent, Key, Outcome, Status, Told
from handlers.system import System
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import World

Entry = tuple[str, Key]  # name of the system, key


class Work(NamedTuple):
    """What to carry out for a key, in order, wanted at `position`. `cause` is the id of the event that named it first.
    No intents: all is as it should be. `defect`: the handler raised, nothing is known."""

    system: str
    key: Key
    intents: tuple[Intent, ...]
    position: str
    cause: str = ""
    defect: str = ""

    @property
    def entry(self) -> Entry:
        return self.system, self.key


class Timer(NamedTuple):
    due_ns: int
    handler: str
    key: Key


class Loop:
    """The queue of one leader. Keys of one system are looked at in the order in which they were named first."""

    def __init__(self, systems: Sequence[System], world: World) -> None:
        self.systems, self.world = {one.name: one for one in systems}, world
        self.kinds = frozenset(kind for one in systems for kind in one.kinds)
        self.defects: list[str] = []  # of mapping events to keys; who tells them empties it
        self._queues: dict[str, dict[Key, str]] = {name: {} for name in self.systems}  # -> cause
        self._fresh: set[str] = set()
        self._ready: list[str] = []  # systems, the one whose turn it is first
        self._taken: set[Entry] = set()
        self._held: dict[Entry, int] = {}  # until this sequence was folded
        self._timers: dict[tuple[str, Key], int] = {}
        self._heap: list[Timer] = []

    # What names keys ----------------------------------------------------------------------------------------------

    def listed(self, kind: str) -> None:
        """This leader listed a kind, and its list is folded. With its last one a system begins: every key once."""
        self._fresh.add(kind)
        for name, system in self.systems.items():
            if name not in self._ready and system.kinds <= self._fresh and self._known(system):
                self._ready.append(name)
                self._every(system, "")

    def _known(self, system: System) -> bool:
        return all(kind in self.world.listed for kind in system.kinds)

    def _every(self, system: System, cause: str) -> None:
        for key in system.keys(self.world):
            self.add((system.name, key), cause)

    def add(self, entry: Entry, cause: str = "") -> None:
        self._queues[entry[0]].setdefault(entry[1], cause)

    def folded(self, event: events.Decoded) -> None:
        """An event that the world has folded just now."""
        for name, system in self.systems.items():
            try:
                for key in system.concerns(event, self.world):
                    self.add((name, key), event.envelope.id)
            except Exception as error:  # too many keys is slow, too few is wrong
                self.defects.append(f"{name} cannot say what {event.envelope.id} concerns: {error!r}")
                if name in self._ready:
                    self._every(system, event.envelope.id)

    # What is to be done -------------------------------------------------------------------------------------------

    def look(self) -> Work | None:
        """Look at the next free key; None when there is none. A key that has something to do is taken until `done`."""
        for name in self._ready:
            for key in self._queues[name]:
                entry = (name, key)
                if entry not in self._taken and self._held.get(entry, 0) <= self.world.sequence:
                    self._ready.append(self._ready.pop(self._ready.index(name)))
                    return self._look(entry)
        return None

    def _look(self, entry: Entry) -> Work:
        name, key = entry
        cause = self._queues[name].pop(key)
        self._held.pop(entry, None)
        reader = Reader(self.world)
        try:
            outcome = wanted(self.systems[name], reader, key)
            left = tuple(sorted(pending(outcome, self.world, key), key=_status_last))
            made = Work(name, key, left, reader.position, cause)
        except Unlisted as error:
            made = Work(name, key, (), reader.position, cause, f"reads {error.kind}, which it does not name")
        except Exception as error:
            made = Work(name, key, (), reader.position, cause, f"{type(error).__name__}: {error}")
        else:
            self._time(entry, outcome.again_ns)
        if made.intents or made.defect:
            self._taken.add(entry)
        return made

    def done(self, entry: Entry, sequence: int = 0) -> None:
        """A key that was taken is free again; its writes were appended up to `sequence`: look when they are folded."""
        self._taken.discard(entry)
        if sequence:
            self._held[entry] = sequence
            self.add(entry)

    @property
    def idle(self) -> bool:
        """Nothing is being worked on, and nothing that could be looked at waits."""
        return not self._taken and not any(self._queues[name] for name in self._ready)

    @property
    def waiting(self) -> int:
        """Keys that are to be looked at."""
        return sum(map(len, self._queues.values()))

    # Deadlines ----------------------------------------------------------------------------------------------------

    def _time(self, entry: Entry, due_ns: int) -> None:
        if not due_ns:
            self._timers.pop(entry, None)
        elif self._timers.get(entry) != due_ns:
            self._timers[entry] = due_ns
            heapq.heappush(self._heap, Timer(due_ns, *entry))
            if len(self._heap) > 2 * len(self._timers) + 64:  # mostly deadlines that were moved
                self._heap = [Timer(at, *one) for one, at in self._timers.items()]
                heapq.heapify(self._heap)

    def due(self, now_ns: int) -> list[Timer]:
        """Deadlines that have passed by the stream's clock: each is appended as `timer.fired`, which names the key."""
        found = []
        while self._heap and self._heap[0].due_ns <= now_ns:
            timer = heapq.heappop(self._heap)
            if self._timers.get((timer.handler, timer.key)) == timer.due_ns:
                del self._timers[timer.handler, timer.key]
                found.append(timer)
        return found

    def undo(self, timer: Timer) -> None:
        """A firing could not be told: it is due again."""
        self._time((timer.handler, timer.key), timer.due_ns)

    @property
    def next_due_ns(self) -> int:
        """0 when nothing waits for its time."""
        return self._heap[0].due_ns if self._heap else 0


def wanted(system: System, world: Reader, key: Key) -> Outcome:
    """What should be for a key; of an object that cannot be used, that its author is told so. A system that fails at an
    object which breaks a rule is not what has to be put right. Raises what `System.desired` raises."""
    written = unusable.statuses(system).get(key.kind)
    known = world.get(*key) if written is not None else None
    if written is None or known is None:
        return system.desired(world, key)
    if known.rest is not None:
        return unusable.outcome(world, key, known, written, known.problem)
    try:
        found = system.desired(world, key)
    except Unlisted:
        raise
    except Exception:
        if known.value is None or not (problem := unusable.broken(known.value, written)):
            raise
        return unusable.outcome(world, key, known, written, problem)
    return unusable.completed(world, key, known, written, found) if known.value is not None else found


def _status_last(intent: Intent) -> bool:
    """An Event is told before the status that it tells of: if we die between the two it is told again under the same
    name, the other way round never."""
    return isinstance(intent, Status)


# What is so already ---------------------------------------------------------------------------------------------------


def pending(outcome: Outcome, world: World, key: Key) -> Iterator[Intent]:
    """What of an Outcome is not so already."""
    reader = Reader(world)
    for intent in outcome.intents:
        if isinstance(intent, Apply) and _applied(intent, world):
            continue
        if isinstance(intent, Delete) and _deleted(intent, world):
            continue
        if isinstance(intent, Told) and reader.told(key, intent):
            continue
        yield intent


def _deleted(intent: Delete, world: World) -> bool:
    """Gone, another object by now, on its way out, or deleted by us and not observed since."""
    live, applied = world.find(intent.key), world.applied.get(intent.key)
    if live is None or live.uid != intent.uid:
        return True
    if live.value is not None and live.value.metadata.deletion_timestamp:
        return True
    deleted = applied is not None and applied.verb == "delete" and applied.uid == intent.uid
    return deleted and applied is not None and live.sequence < applied.sequence


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
    versions = live.resource_version, applied.resource_version
    if all(one.isdigit() for one in versions) and int(versions[0]) < int(versions[1]):
        return True  # observed before our write
    generation = live.value.metadata.generation if live.value is not None else 0
    return not intent.drifted and generation in (0, applied.generation)
