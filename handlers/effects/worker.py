"""Many keys at once, each one at a time: intents become calls, calls become events.

A write that succeeded is appended as `effect.applied`, and its key is not looked at again before that event was folded.
What passes (no answer, overload) makes its key wait, longer each time; so does a conflict, which says that the world
has moved on. A refusal is recorded once per body and tried again slowly; the key's other intents are carried out all
the same. A handler that raises is told once and asked again slowly. Nothing is written by who may not (`may`): who does
not lead, or cannot reach the log.

Rules: design.md section 5; spec/kubernetes.md section 4. How fast: pace.
"""

import asyncio
import collections
import random
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from eventstore import envelope, events, store, subjects
from handlers import canonical
from handlers.effects import carry
from handlers.effects.cluster import Cluster, ClusterError
from handlers.effects.pace import Pace, Write
from handlers.outcome import Intent, Key, Status
from handlers.reconcile import Entry, Loop, Work

log = structlog.get_logger()

AT_ONCE: Final = 16
SLICE: Final = 0.002  # seconds that looking at keys may take before others run
#: Keys whose pace is remembered before it is looked which may be forgotten.
KEPT: Final = 1024


class Appends(Protocol):
    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended: ...


class Worker:
    """`run` until cancelled; call `wake` whenever the loop may have something to do."""

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        appends: Appends,
        *,
        epoch: int,
        instance: str,
        may: Callable[[], bool] = lambda: True,
        counts: collections.Counter[tuple[str, str]] | None = None,
        timed: Callable[[float], None] = lambda seconds: None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.loop, self.cluster, self.appends = loop, cluster, appends
        self.epoch, self.instance, self.may, self.clock = epoch, instance, may, clock
        #: (verb, outcome) -> how often; outcomes are applied, refused, passing, conflict, unrecorded, defect
        self.counts = collections.Counter() if counts is None else counts
        self.timed = timed  # how long each write took
        self.looked = 0
        self._busy: set[asyncio.Task[None]] = set()
        self._pace: dict[Entry, Pace] = {}
        self._again: dict[Entry, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        self._wake.set()

    @property
    def quiet(self) -> bool:
        """Nothing is being written, and nothing waits to be looked at."""
        return not self._busy and not self._again and self.loop.idle

    async def run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                more = True
                while more and self.may():
                    more = self._slice()
                    await asyncio.sleep(0)  # the fold and the timers run between
        finally:
            for handle in self._again.values():
                handle.cancel()
            for task in self._busy:
                task.cancel()
            await asyncio.gather(*self._busy, return_exceptions=True)

    def _slice(self) -> bool:
        """Look at keys for a moment; whether there may be more."""
        until = time.perf_counter() + SLICE
        while len(self._busy) < AT_ONCE:
            work = self.loop.look()
            if work is None:
                return False
            self.looked += 1
            if work.defect:
                self._defect(work)
            elif work.intents:
                task = asyncio.create_task(self._carry(work), name=f"{work.system}:{work.key}")
                self._busy.add(task)
                task.add_done_callback(self._ended)
            elif (pace := self._pace.get(work.entry)) is not None:
                pace.settled()
                self._forget(work.entry)
            if time.perf_counter() > until:
                return True
        return False

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        self.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("effect-defect", key=task.get_name(), error=repr(error))

    def _defect(self, work: Work) -> None:
        pace = self._pace_of(work.entry)
        self.counts["look", "defect"] += 1
        if pace.defect != work.defect:
            pace.defect = work.defect
            log.error("handler-defect", handler=work.system, key=str(work.key), error=work.defect)
        self._rest(work.entry, pace.passing())

    # One key ------------------------------------------------------------------------------------------------------

    async def _carry(self, work: Work) -> None:
        """Every intent that may be written now; then the key is free, or rests."""
        pace = self._pace_of(work.entry)
        last, rest, wait = 0, 0.0, 0.0
        try:
            for intent in work.intents:
                if not self.may():
                    rest = 1.0
                    break
                write = _write(intent)
                if pause := pace.wait(write, _now()):
                    wait = min(wait or pause, pause)
                    continue
                try:
                    last = max(last, await self._one(work, intent, write, pace))
                    pace.tries = 0  # it goes on, if slowly
                except ClusterError as error:
                    if _refused(error):
                        await self._refuse(work, intent, write, pace, error)
                        continue
                    rest = max(rest, self._passing(work, write, pace, error))
                    if error.passing:
                        break  # the others would fare no better
        except carry.Stopped:
            rest = 1.0
        except store.StoreError as error:  # it was written: the next look finds it so, or writes the same again
            log.warning("effect-not-recorded", key=str(work.key), error=str(error))
            self.counts["event", "unrecorded"] += 1
            rest = pace.passing()
        except Exception as error:
            log.error("effect-defect", key=str(work.key), error=repr(error))
            self.counts["effect", "defect"] += 1
            rest = pace.passing()
        if not rest:
            pace.tries = 0
            self._forget(work.entry)
            self.loop.done(work.entry, last)
            if wait := min((one for one in (wait, pace.next_refused(_now())) if one), default=0.0):
                self._later(work.entry, wait, free=False)
        else:
            self._rest(work.entry, rest, last)

    async def _one(self, work: Work, intent: Intent, write: Write, pace: Pace) -> int:
        """The sequence of the event that records it."""
        now, began = self.clock(), _now()
        target, verb, body, written = await carry.carry_out(
            self.cluster, intent, now_ns=now, may=self.may, source=work.key
        )
        self.timed(_now() - began)
        self.counts[verb, "applied"] += 1
        pace.wrote(write, _now())
        data = carry.recorded(
            target,
            verb,
            body,
            written,
            work_key=work.key,
            handler=work.system,
            position=work.position,
            epoch=self.epoch,
            attempt=pace.tries + 1,
        )
        identity = f"{target}:{data.uid}:{data.desired}:{work.position}:{data.attempt}"
        return await self._append(data, target, identity, now, work.cause)

    async def _refuse(self, work: Work, intent: Intent, write: Write, pace: Pace, error: ClusterError) -> None:
        """A refusal, or a defect of the body: told once."""
        self.counts[write.verb, "refused"] += 1
        words = f"{error.code} {error.reason} {error.message}"
        if not pace.refuse(write, words, _now(), jitter=0.5 + random.random()):
            return
        log.warning("effect-refused", key=str(work.key), code=error.code, message=error.message)
        target, verb, body = carry.described(intent)
        data = carry.refused(
            target,
            verb,
            body,
            error,
            work_key=work.key,
            handler=work.system,
            position=work.position,
            epoch=self.epoch,
            attempt=pace.tries + 1,
        )
        identity = f"{target}:{data.desired}:{work.position}:{data.code}:{self.clock()}"
        await self._append(data, target, identity, self.clock(), work.cause)

    def _passing(self, work: Work, write: Write, pace: Pace, error: ClusterError) -> float:
        """How long the key has to rest."""
        conflict = not error.passing
        self.counts[write.verb, "conflict" if conflict else "passing"] += 1
        pause = pace.passing(conflict=conflict)
        if pace.tries in (1, 5) and not (conflict and pace.tries == 1):
            log.info("effect-delayed", key=str(work.key), code=error.code, message=error.message, tries=pace.tries)
        return max(error.retry_after, pause * (0.5 + random.random() / 2))

    async def _append(self, data: events.Event, target: Key, identity: str, now: int, cause: str) -> int:
        name = events.name_of(data).removeprefix(envelope.PREFIX).removesuffix(".v1")
        event = events.event(
            data,
            id=f"{name}:{identity}",
            source="warmlog/controller",
            subject=subjects.effect_subject(*target),
            time_ns=now,
            actor=f"controller/{self.instance}",
            cause=cause or None,
        )
        return (await self.appends.append(event)).sequence

    # Pauses -------------------------------------------------------------------------------------------------------

    def _pace_of(self, entry: Entry) -> Pace:
        if len(self._pace) >= KEPT and entry not in self._pace:
            now = _now()
            self._pace = {one: pace for one, pace in self._pace.items() if not pace.forgettable(now)}
        return self._pace.setdefault(entry, Pace(filled=_now()))

    def _rest(self, entry: Entry, pause: float, sequence: int = 0) -> None:
        """The key is not looked at before `pause` seconds have passed, whatever happens to it."""
        self._later(entry, pause, free=True, sequence=sequence)

    def _later(self, entry: Entry, pause: float, *, free: bool, sequence: int = 0) -> None:
        """One timer per key; a resting key has no other."""

        def due() -> None:
            del self._again[entry]
            if free:
                self.loop.done(entry, sequence)
            self.loop.add(entry)
            self.wake()

        self._forget(entry)
        self._again[entry] = asyncio.get_running_loop().call_later(pause, due)

    def _forget(self, entry: Entry) -> None:
        if (old := self._again.pop(entry, None)) is not None:
            old.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _write(intent: Intent) -> Write:
    target, verb, body = carry.described(intent)
    return Write(str(target), verb, canonical.digest(body), isinstance(intent, Status) and intent.lazy)


def _refused(error: ClusterError) -> bool:
    """Final until the world changes. A conflict, or an object that is not there, says that it has already."""
    return not error.passing and error.reason != "Conflict" and error.code != 404
