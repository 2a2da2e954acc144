"""What a server appends to the control log: replicas' edges, summaries of the index, moments, its own settings.

Edges are read off `WARMLOG_KV`, so a server that starts again reads them again, and every other server reads them too.
Nothing is told twice: what the log tells already is folded (told.py), and an append expects the subject's newest event
to be the one that was folded. The server that comes second meets a conflict, folds what the first one said and finds
that nothing is left to say. An id holds a digest of what is said: two servers that put a fact differently have two ids
and a conflict, never one id with two bodies. While NATS is away events wait, at most 10,000; beyond that the oldest are
dropped and counted, for `WARMLOG_KV` still has the facts.

Rules: design.md section 2, table of types and "Identity"; section 3, last line.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
import xxhash

from eventstore import envelope, events, shedding, store, subjects
from handlers.prefixindex import outcomes
from warmlog import told

log = structlog.get_logger()

WAITING: Final = 10_000
#: How long a conflict waits for the reader of the log to bring what caused it, before it is read for itself.
_PATIENCE: Final = 1.0
_KEPT: Final = ("wl.replica.", "wl.index.", subjects.MOMENT)
_SHED_FIRST: Final = ("wl.index.", subjects.MOMENT)

Check = Callable[[], bool]


class _Entry(msgspec.Struct, frozen=True):
    """What waits to be appended. `told` is asked before each try whether the log has it meanwhile."""

    event: envelope.Envelope
    told: Check | None


class Chronicle:
    """Append in order, one at a time, until acknowledged. `run` ends only by being cancelled or on Refused errors."""

    def __init__(self, log_store: store.EventStore, *, instance: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._store, self._clock = log_store, clock
        self.instance = instance
        self.told: dict[tuple[str, str], told.Replica] = {}
        self.appended = 0
        self.dropped = 0
        self.shed = 0  # given up because the log is nearly full; the next one of its kind says the same
        self.told_by_others = 0  # found told when their turn came
        self._newest: dict[str, told.Newest] = {}  # subject of a moment or a summary
        self._last: dict[str, int] = {}  # subject -> sequence of its newest event
        self._folded = 0
        self._grown = asyncio.Event()
        self._queue: deque[_Entry] = deque()
        self._wake = asyncio.Event()

    # Folding what is there already ----------------------------------------------------------------------------------

    def fold(self, stored: store.Stored, data: events.Event | None, *, live: bool = True) -> None:
        """Take note of an event of the log. `data` is None for one that cannot be understood; `live` is False for
        what was there when this server started: of such it is not known how long ago it was said."""
        self._folded = max(self._folded, stored.sequence)
        self._grown.set()
        if stored.subject.startswith(_KEPT):
            self._note(stored.subject, stored.sequence, data, self._now() if live else None)

    def _note(self, subject: str, sequence: int, data: events.Event | None, heard_at: float | None) -> None:
        if sequence <= self._last.get(subject, 0):
            return
        self._last[subject] = sequence
        match data:
            case events.ReplicaObserved():
                told.fold(self._replica(data), data, heard_at)
            case events.Moment() | events.IndexSummarised():
                self._newest[subject] = told.Newest(data, heard_at)

    def forget(self) -> None:
        """The log lost its end and is folded again."""
        self.told.clear()
        self._newest.clear()
        self._last.clear()
        self._folded = 0

    def _replica(self, data: events.ReplicaObserved) -> told.Replica:
        return self.told.setdefault((data.tenant, data.replica), told.Replica())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # What is new ------------------------------------------------------------------------------------------------------

    def edge(self, edge: outcomes.Edge, *, incarnation: str, position: int) -> None:
        """Tell of an edge, unless the log does. Edges that time brought (sequence 0) lie at `position`."""
        data = events.ReplicaObserved(
            tenant=edge.tenant,
            replica=edge.replica,
            model=edge.model,
            scheme=edge.scheme,
            uid=edge.uid,
            session=edge.session,
            edge=edge.edge,
            reason=edge.reason,
            kv_sequence=edge.sequence or position,
            kv_incarnation=incarnation,
            blocks=edge.blocks,
            statistics=edge.statistics,
        )

        if told.is_past(self._replica(data), data):
            return  # as most of what a server reads at its start

        def is_told() -> bool:
            return told.knows(self._replica(data), data, self._now())

        who = f"{edge.tenant}/{edge.replica}"
        self.put(
            data,
            id=f"replica.observed:{incarnation}:{data.kv_sequence}:{who}:{edge.edge}:{_digest(data)}",
            subject=subjects.replica_subject(edge.tenant, edge.replica),
            unless=is_told,
        )

    def moment(self, data: events.Moment, *, interval: float) -> None:
        """Pair the two logs' positions, unless a server did so within half an interval (seconds)."""
        id = f"moment:{data.kv_incarnation}:{data.kv_sequence}:{self._clock()}"
        self._at_intervals(data, id=id, subject=subjects.MOMENT, interval=interval)

    def summary(self, data: events.IndexSummarised, *, interval: float) -> None:
        """Sum up the index when it has changed, unless a server did so within half an interval (seconds)."""
        id = f"index.summarised:{data.kv_incarnation}:{data.kv_sequence}:{data.shard}:{_digest(data)}"
        self._at_intervals(data, id=id, subject=subjects.index_subject(data.shard), interval=interval)

    def _at_intervals(
        self, data: events.Moment | events.IndexSummarised, *, id: str, subject: str, interval: float
    ) -> None:
        def is_told() -> bool:
            newest = self._newest.setdefault(subject, told.Newest())
            return newest.is_recent(self._now(), interval) or told.nothing_new(newest, data)

        self.put(data, id=id, subject=subject, unless=is_told)

    def put(self, data: events.Event, *, id: str, subject: str, unless: Check | None = None) -> None:
        """Append when its turn comes; with `unless`, only if that is False then, and no other server was first."""
        event = events.event(
            data,
            id=id,
            source="warmlog/server",
            subject=subject,
            time_ns=self._clock(),
            actor=f"server/{self.instance}",
        )
        self._queue.append(_Entry(event, unless))
        if len(self._queue) > WAITING:
            self._shed()
        self._wake.set()

    def _shed(self) -> None:
        """Give up what is worth least: the oldest moment or summary, of which newer ones come; else the oldest edge."""
        at = next((at for at, entry in enumerate(self._queue) if entry.event.subject.startswith(_SHED_FIRST)), 0)
        del self._queue[at]
        self.dropped += 1

    @property
    def waiting(self) -> int:
        return len(self._queue)

    # Appending --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            self._wake.clear()
            while self._queue:
                entry = self._queue[0]
                await self._say(entry)
                if self._queue and self._queue[0] is entry:
                    self._queue.popleft()
            await self._wake.wait()

    async def _say(self, entry: _Entry) -> None:
        event, delay = entry.event, 0.2
        while True:
            if entry.told is not None and entry.told():
                self.told_by_others += 1
                return
            expected = self._last.get(event.subject, 0) if entry.told is not None else None
            try:
                appended = await self._store.append(event, expected=expected)
            except (store.Unavailable, store.StreamFull) as error:
                if isinstance(error, store.StreamFull) and shedding.worth(event) is shedding.Worth.FIRST:
                    self.shed += 1
                    return
                log.warning("the control log takes no event now", reason=str(error), waiting=self.waiting)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
                continue
            except store.Regressed as error:
                log.warning("the control log lost its end; what it tells is looked up again", reason=str(error))
                self.forget()
                continue
            except store.Conflict as conflict:
                await self._catch_up(conflict)
                continue
            except (store.IdentityAlarm, store.TooLarge) as error:
                log.error("an event was refused and is left out", id=event.id, reason=str(error))
                self.dropped += 1
                return
            if appended.duplicate:  # in our own words, by another server or by us before an answer was lost
                self.told_by_others += 1
            else:
                self.appended += 1
            if entry.told is not None:
                self._note(event.subject, appended.sequence, _decoded(event), self._now())
            return

    async def _catch_up(self, conflict: store.Conflict) -> None:
        """Another server told something on this subject, or what was folded of it has left the log."""
        subject, last = conflict.subject, conflict.last or 0
        until = self._now() + _PATIENCE
        while self._last.get(subject, 0) < last and self._now() < until:
            self._grown.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._grown.wait()
        known = self._last.get(subject, 0)
        if known == last:
            return
        with contextlib.suppress(store.Unavailable, store.Regressed):  # the append says so too
            if known > last:
                known = self._last[subject] = 0
            async for batch in self._store.read(after=known, subject=subject):
                for stored in batch:
                    decoded = events.decode(stored)
                    data = decoded.data if isinstance(decoded, events.Decoded) else None
                    self._note(subject, stored.sequence, data, self._now())


def _digest(data: events.Event) -> str:
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(data))


def _decoded(event: envelope.Envelope) -> events.Event:
    return msgspec.json.decode(event.data, type=events.TYPES[event.type])
