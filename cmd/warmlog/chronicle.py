"""What a server appends to the control log: replicas' edges, summaries of the index, moments, its own settings.

Edges are read off `WARMLOG_KV`, so a server that starts again reads them again. Their ids are made of the message that
showed them, and what the log already tells of a replica is known from folding it: nothing is told twice. While NATS is
away they wait, at most 10,000; beyond that the oldest are dropped and counted, for `WARMLOG_KV` still has the facts.

Rules: design.md section 2, table of types and "Identity".
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from eventstore import envelope, events, store, subjects
from handlers.prefixindex import outcomes

log = structlog.get_logger()

WAITING: Final = 10_000


class Told(msgspec.Struct):
    """What the log tells of one replica: its newest edge, by the message that showed it."""

    incarnation: str = ""
    sequence: int = 0
    edges: set[str] = set()


class Chronicle:
    """Append in order, one at a time, until acknowledged. `run` ends only by being cancelled or on Refused errors."""

    def __init__(self, log_store: store.EventStore, *, instance: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._store, self._clock = log_store, clock
        self.instance = instance
        self.told: dict[tuple[str, str], Told] = {}
        self.appended = 0
        self.dropped = 0
        self._queue: deque[envelope.Envelope] = deque()
        self._wake = asyncio.Event()

    # Folding what is there already ----------------------------------------------------------------------------------

    def fold(self, data: events.Event) -> None:
        """Remember what the log tells of replicas."""
        if not isinstance(data, events.ReplicaObserved):
            return
        told = self.told.setdefault((data.tenant, data.replica), Told())
        if (told.incarnation, told.sequence) != (data.kv_incarnation, data.kv_sequence):
            told.incarnation, told.sequence, told.edges = data.kv_incarnation, data.kv_sequence, set()
        told.edges.add(data.edge)

    # What is new ------------------------------------------------------------------------------------------------------

    def edge(self, edge: outcomes.Edge, *, incarnation: str, position: int) -> None:
        """Tell of an edge, unless the log does. Edges that time brought (sequence 0) lie at `position`."""
        told = self.told.setdefault((edge.tenant, edge.replica), Told())
        sequence = edge.sequence or position
        if told.incarnation == incarnation and (
            sequence < told.sequence or (sequence == told.sequence and edge.edge in told.edges)
        ):
            return
        data = events.ReplicaObserved(
            tenant=edge.tenant,
            replica=edge.replica,
            model=edge.model,
            scheme=edge.scheme,
            uid=edge.uid,
            session=edge.session,
            edge=edge.edge,
            reason=edge.reason,
            kv_sequence=sequence,
            kv_incarnation=incarnation,
            blocks=edge.blocks,
            statistics=edge.statistics,
        )
        who = f"{edge.tenant}/{edge.replica}"
        self.fold(data)
        self.put(
            data,
            id=f"replica.observed:{incarnation}:{sequence}:{who}:{edge.edge}",
            subject=subjects.replica_subject(edge.tenant, edge.replica),
        )

    def put(self, data: events.Event, *, id: str, subject: str) -> None:
        self._queue.append(
            events.event(
                data,
                id=id,
                source="warmlog/server",
                subject=subject,
                time_ns=self._clock(),
                actor=f"server/{self.instance}",
            )
        )
        if len(self._queue) > WAITING:
            self._queue.popleft()
            self.dropped += 1
        self._wake.set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    # Appending --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            self._wake.clear()
            while self._queue:
                await self._append(self._queue[0])
                if self._queue:
                    self._queue.popleft()
            await self._wake.wait()

    async def _append(self, event: envelope.Envelope) -> None:
        delay = 0.2
        while True:
            try:
                await self._store.append(event)
            except (store.Unavailable, store.StreamFull) as error:
                log.warning("the control log takes no event now", reason=str(error), waiting=self.waiting)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
                continue
            except (store.IdentityAlarm, store.TooLarge, store.Conflict) as error:
                log.error("an event was refused and is left out", id=event.id, reason=str(error))
                self.dropped += 1
                return
            self.appended += 1
            return
