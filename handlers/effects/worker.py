"""Many keys at once, each one at a time: intents become calls, calls become events.

A write that succeeded is appended as `effect.applied`, and its key is not looked at again before that event was folded.
What passes (no answer, overload) is tried again later with a growing, jittered pause; a refusal is recorded once per
body and then tried slowly, for the world may change; a conflict says that it has, so the key is looked at again soon.
Nothing is written while this process does not lead.

Rules: design.md section 5; spec/kubernetes.md section 4.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from eventstore import envelope, events, store, subjects
from handlers.effects import carry
from handlers.effects.cluster import Cluster, ClusterError
from handlers.outcome import Intent, Key, Status
from handlers.reconcile import Loop, Work

log = structlog.get_logger()

AT_ONCE: Final = 16
LAZY: Final = 5.0  # seconds between two writes of counts to one object
CONFLICT: Final = 0.1
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
REFUSED_PAUSE: Final = 60.0

Entry = tuple[str, Key]


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
        leads: Callable[[], bool],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.loop, self.cluster, self.appends = loop, cluster, appends
        self.epoch, self.instance, self.leads, self.clock = epoch, instance, leads, clock
        self.applied = 0
        self.failed = 0
        self._busy: set[asyncio.Task[None]] = set()
        self._tries: dict[Entry, int] = {}
        self._refused: dict[Entry, tuple[str, int]] = {}
        self._lazy: dict[Entry, float] = {}
        self._wake = asyncio.Event()
        self._waits: set[asyncio.TimerHandle] = set()

    def wake(self) -> None:
        self._wake.set()

    @property
    def quiet(self) -> bool:
        """Nothing is being written, and nothing waits to be looked at."""
        return not self._busy and not self._waits and self.loop.idle

    async def run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self.leads() and len(self._busy) < AT_ONCE:
                    found = self.loop.work(AT_ONCE - len(self._busy))
                    for work in found:
                        self._start(work)
                    if not found:
                        break
                    await asyncio.sleep(0)  # a slice at a time: the fold and the timers run between
        finally:
            for handle in self._waits:
                handle.cancel()
            for task in self._busy:
                task.cancel()
            await asyncio.gather(*self._busy, return_exceptions=True)

    def _start(self, work: Work) -> None:
        name = f"{work.system.name}:{work.key}"
        if any(task.get_name() == name for task in self._busy):
            self._again((work.system.name, work.key), CONFLICT)
            return
        task = asyncio.create_task(self._carry(work), name=name)
        self._busy.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        self.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("effect-defect", key=task.get_name(), error=repr(error))

    async def _carry(self, work: Work) -> None:
        entry = (work.system.name, work.key)
        last = 0
        try:
            for intent in work.intents:
                if not self.leads():
                    return
                if pause := self._too_soon(entry, intent):
                    self._again(entry, pause)
                    continue
                last = max(last, await self._one(work, intent))
        except ClusterError as error:
            self._again(entry, await self._failed(work, intent, error))
            return
        except store.StoreError as error:  # it was written: the next look finds it so, or writes the same again
            log.warning("effect-not-recorded", key=str(work.key), error=str(error))
            self._again(entry, self._pause(entry))
            return
        finally:
            if last:
                self.loop.hold(*entry, last)
        self._tries.pop(entry, None)
        self._refused.pop(entry, None)

    def _too_soon(self, entry: Entry, intent: Intent) -> float:
        """Seconds that a write of mere counts has to wait."""
        if not isinstance(intent, Status):
            return 0.0
        now = asyncio.get_running_loop().time()
        if intent.lazy and now - self._lazy.get(entry, -LAZY) < LAZY:
            return self._lazy[entry] + LAZY - now
        self._lazy[entry] = now
        return 0.0

    async def _one(self, work: Work, intent: Intent) -> int:
        """The sequence of the event that records it."""
        entry = (work.system.name, work.key)
        now = self.clock()
        target, verb, body, written = await carry.carry_out(self.cluster, intent, now_ns=now)
        self.applied += 1
        data = carry.recorded(
            target,
            verb,
            body,
            written,
            work_key=work.key,
            handler=work.system.name,
            position=work.position,
            epoch=self.epoch,
            attempt=self._tries.get(entry, 0) + 1,
        )
        identity = f"{target}:{data.uid}:{data.desired}:{work.position}:{data.attempt}"
        return await self._append(data, target, identity, now)

    async def _failed(self, work: Work, intent: Intent, error: ClusterError) -> float:
        """Note it, and say how long to wait."""
        entry = (work.system.name, work.key)
        self.failed += 1
        if error.reason == "Conflict" or error.code == 404:
            return CONFLICT + random.random() * CONFLICT  # the world has moved on; so will the next look
        if error.passing:
            log.info("effect-delayed", key=str(work.key), code=error.code, message=error.message)
            return max(error.retry_after, self._pause(entry))
        said = (error.reason, hash(error.message))
        if self._refused.get(entry) != said:
            self._refused[entry] = said
            log.warning("effect-refused", key=str(work.key), code=error.code, message=error.message)
            target, verb, body = carry.described(intent)
            data = carry.refused(
                target,
                verb,
                body,
                error,
                work_key=work.key,
                handler=work.system.name,
                position=work.position,
                epoch=self.epoch,
                attempt=self._tries.get(entry, 0) + 1,
            )
            with contextlib.suppress(store.StoreError):
                await self._append(data, target, f"{target}:{data.desired}:{work.position}:{data.code}", self.clock())
        return REFUSED_PAUSE * (0.5 + random.random())

    async def _append(self, data: events.Event, target: Key, identity: str, now: int) -> int:
        name = events.name_of(data).removeprefix(envelope.PREFIX).removesuffix(".v1")
        event = events.event(
            data,
            id=f"{name}:{identity}",
            source="warmlog/controller",
            subject=subjects.effect_subject(*target),
            time_ns=now,
            actor=f"controller/{self.instance}",
        )
        return (await self.appends.append(event)).sequence

    def _pause(self, entry: Entry) -> float:
        tries = self._tries[entry] = self._tries.get(entry, 0) + 1
        longest = min(FIRST_PAUSE * 2.0 ** min(tries, 10), LONGEST_PAUSE)
        return longest * (0.5 + random.random() / 2)

    def _again(self, entry: Entry, pause: float) -> None:
        def add() -> None:
            self._waits.discard(handle)
            self.loop.add(*entry)
            self.wake()

        handle = asyncio.get_running_loop().call_later(pause, add)
        self._waits.add(handle)
