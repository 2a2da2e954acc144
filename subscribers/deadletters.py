"""Events that the fold passed over, reported to WARMLOG_DEAD: a copy, and why. Once each, by whoever leads.

Nothing is repaired or tried again here: a skipped event stays where it is in the log, a newer version may understand
it. The report is for people. Each has a subject of its own that expects to be empty, so a second leader finds it told.

Rules: design.md section 2, "Fold is total".
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from eventstore import envelope, events, facts, store, streams, subjects
from handlers.world.state import Skipped, World

log = structlog.get_logger()

LOOK: Final = 1.0
#: Characters of a body that are copied; the whole of it stays in the log.
MOST: Final = 60_000
TYPE: Final = "io.warmlog.event.skipped.v1"


class Reported(events.Event, frozen=True, kw_only=True):
    """`body` is text, with what is no UTF-8 replaced; `cut` says that it is only the beginning."""

    stream: str
    incarnation: str
    sequence: int
    time: str
    subject: str
    type: str
    reason: str
    body: str
    cut: bool = False


class Reporter:
    """`run` until cancelled."""

    def __init__(
        self,
        control: store.EventStore,
        dead: store.EventStore,
        *,
        instance: str,
        leads: Callable[[], bool],
        world: Callable[[], World],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.control, self.dead, self.instance = control, dead, instance
        self.leads, self.world, self.clock = leads, world, clock
        self.reported = 0
        self._done = 0  # up to here; of this incarnation
        self._incarnation = ""

    async def run(self) -> None:
        while True:
            if self.leads():
                try:
                    await self.report()
                except store.StoreError as error:
                    log.warning("skipped-events-not-reported", reason=str(error))
            await asyncio.sleep(LOOK)

    async def report(self) -> None:
        """All that the world has skipped and that was not reported yet."""
        world = self.world()
        if world.incarnation != self._incarnation:
            self._incarnation, self._done = world.incarnation, 0
        for skipped in [one for one in world.skipped if one.sequence > self._done]:
            stored = await self.control.get(skipped.sequence)
            if stored is not None:  # else retention was faster
                await self._tell(skipped, stored, world.incarnation)
            self._done = skipped.sequence

    async def _tell(self, skipped: Skipped, stored: store.Stored, incarnation: str) -> None:
        body = stored.body.decode(errors="replace")
        data = Reported(
            stream=streams.CONTROL_LOG,
            incarnation=incarnation,
            sequence=skipped.sequence,
            time=envelope.rfc3339(stored.time_ns),
            subject=stored.subject,
            type=skipped.type,
            reason=skipped.reason,
            body=body[:MOST],
            cut=len(body) > MOST,
        )
        event = envelope.Envelope(
            id=f"event.skipped:{streams.CONTROL_LOG}:{incarnation}:{skipped.sequence}",
            source="warmlog/controller",
            type=TYPE,
            time=envelope.rfc3339(self.clock()),
            subject=subjects.dead_subject(streams.CONTROL_LOG, incarnation, skipped.sequence),
            actor=f"controller/{self.instance}",
            data=msgspec.Raw(facts.encode(data)),
        )
        try:
            appended = await self.dead.append(event, expected=0)
        except (store.Conflict, store.IdentityAlarm):
            return  # told, by another version of this program in other words
        if not appended.duplicate:
            self.reported += 1
            log.error("event-skipped", position=skipped.sequence, type=skipped.type, reason=skipped.reason)
