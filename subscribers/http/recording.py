"""Decisions on their way into the log: `admission.decided` is appended first, then the answer goes out.

`put` calls back when the event is stored, and after 20 ms at the latest: an engine never waits for a slow log. Mostly
without a task: the event is offered to the log, whose acknowledgement calls back. What is not stored by then goes on
being tried for as long as it takes. While NATS is away events wait here, bounded in number and bytes and counted; they
carry the facts that they were decided on, so nothing is lost by their being late.

Not here: what is decided (admission). When it fails: what does not fit is dropped and counted, what the log refuses for
good (an event over 256 KiB) is logged, dropped and counted. `put` never raises.

Rules: design.md section 2 ("admission.decided"), section 5 ("NATS away").
"""

import asyncio
import collections
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from eventstore import envelope, events, store
from handlers.admission import review
from handlers.admission.decision import Decision, Question
from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, Rest

log = structlog.get_logger()

WAIT: Final = 0.02
MOST: Final = 10_000
MOST_BYTES: Final = 64 << 20
AGAIN: Final = 0.5
#: Objects read live that are told whatever was looked at, and their bytes.
FEW: Final = 64
FEW_BYTES: Final = 64 * 1024


#: Given an event and what is to be told; whether it is on its way.
Offer = Callable[[envelope.Envelope, Callable[[bool], None]], bool]


def nobody_takes(event: envelope.Envelope, told: Callable[[bool], None]) -> bool:
    return False


class _Put:
    """One event on its way. `then` is None when it was called; a task appends what was not taken when offered."""

    __slots__ = ("event", "has_task", "size", "then")

    def __init__(self, event: envelope.Envelope, size: int, then: Callable[[], None]) -> None:
        self.event, self.size, self.has_task = event, size, False
        self.then: Callable[[], None] | None = then

    def release(self) -> None:
        """Never raises: whoever tells about the log's answers has others to tell."""
        then, self.then = self.then, None
        if then is not None:
            try:
                then()
            except Exception:
                log.exception("an answer was lost", subject=self.event.subject)


class Recorder:
    """One per process. `append` raises store.StoreError; `offer` is the same without a task (see
    eventstore.jetstream.store), where the log has it."""

    def __init__(
        self, append: Callable[[envelope.Envelope], Awaitable[Any]], offer: Offer = nobody_takes, *, wait: float = WAIT
    ) -> None:
        self._append, self._offer, self._wait = append, offer, wait
        self._tasks: set[asyncio.Task[None]] = set()
        self._given: collections.deque[tuple[float, _Put]] = collections.deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty: asyncio.Event | None = None  # whoever drains waits for it
        self._ended = False
        self.queued = self.queued_bytes = 0
        self.stored = self.dropped = self.refused = 0

    def put(self, event: envelope.Envelope, then: Callable[[], None]) -> None:
        """`then` is called once: at once where nothing is waited for, else when it is time to answer."""
        size = len(memoryview(event.data))
        put = _Put(event, size, then)
        if self.queued >= MOST or self.queued_bytes + size > MOST_BYTES:
            self.dropped += 1
            put.release()
            return
        self.queued += 1
        self.queued_bytes += size
        loop = asyncio.get_running_loop()
        self._given.append((loop.time() + self._wait, put))
        if self._sweeper is None:
            self._sweeper = loop.call_at(self._given[0][0], self._sweep)
        try:
            taken = self._offer(event, functools.partial(self._told, put))
        except Exception:  # a defect of ours costs the log nothing
            log.exception("decision-not-offered", subject=event.subject)
            taken = False
        if not taken:
            self._try(put)

    def _told(self, put: _Put, stored: bool) -> None:
        if put.has_task:
            return
        if stored:
            self.stored += 1
            self._over(put)
        elif not self._ended:
            self._try(put)

    def _try(self, put: _Put) -> None:
        put.has_task = True
        task = asyncio.get_running_loop().create_task(self._until_stored(put))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _over(self, put: _Put) -> None:
        self.queued -= 1
        self.queued_bytes -= put.size
        if self._empty is not None and not self.queued:
            self._empty.set()
        put.release()

    def _sweep(self) -> None:
        """One timer lets all go on whose time is over."""
        loop, given = asyncio.get_running_loop(), self._given
        now = loop.time()
        while given and (given[0][0] <= now or given[0][1].then is None):
            given.popleft()[1].release()
        self._sweeper = loop.call_at(given[0][0], self._sweep) if given else None

    async def _until_stored(self, put: _Put) -> None:
        event = put.event
        try:
            while True:
                try:
                    await self._append(event)
                    self.stored += 1
                    return
                except store.Misconfigured as error:  # an operator may put it right: a stream that is not made yet
                    log.debug("decision-waits", subject=event.subject, error=str(error))
                except store.Refused as error:
                    log.error("decision-not-recorded", subject=event.subject, error=str(error))
                    self.refused += 1
                    return
                except store.StoreError as error:
                    log.debug("decision-waits", subject=event.subject, error=str(error))
                except Exception:  # a defect of ours costs the log nothing
                    log.exception("decision-waits", subject=event.subject)
                await asyncio.sleep(AGAIN)
        finally:
            self._over(put)

    async def drain(self, grace: float) -> int:
        """Let what is being recorded end; how many were given up."""
        if self.queued:
            self._empty = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._empty.wait()
        self._ended = True
        left = self.queued
        for _, put in self._given:
            put.release()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()
        return left


class Asked(NamedTuple):
    """A question as the log tells it. `view` and `old` are JSON, or what becomes it."""

    uid: str
    operation: str
    kind: str
    namespace: str
    name: str
    generate_name: str
    owner: str
    view: Any
    old: Any


def asked(question: Question, view: Any, metadata: Any) -> Asked:
    """`metadata` is that of the view, with raw fields or without."""
    metadata = metadata if isinstance(metadata, dict) else {}
    return Asked(
        question.uid,
        question.operation,
        question.kind,
        question.namespace,
        question.name,
        str(_plain(metadata.get("generateName", ""))),
        _owner(_plain(metadata.get("ownerReferences"))),
        view,
        question.old or {},
    )


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _owner(references: Any) -> str:
    references = references if isinstance(references, list) else []
    found = next((one for one in references if isinstance(one, dict) and one.get("controller")), None)
    return f"{found.get('kind')}/{found.get('name')}/{found.get('uid')}" if found else ""


def decided(
    webhook: str, question: Asked, decision: Decision, reader: Reader, live: Mapping[Key, Known],
    whole: frozenset[tuple[str, str]], body: bytes, *, owned: str, logic: str, settings: str,
) -> events.AdmissionDecided:  # fmt: skip
    """Everything that the decision was computed from, and what came of it. `live` has `<kind>/<namespace>/*` for every
    list that was read, the empty ones too: what is not among its objects did not matter."""
    return events.AdmissionDecided(
        review=question.uid,
        webhook=webhook,
        operation=question.operation,
        kind=question.kind,
        namespace=question.namespace,
        name=question.name,
        generate_name=question.generate_name,
        owner=question.owner,
        position=reader.position,
        logic=logic,
        settings=settings,
        view=question.view,
        old=question.old,
        reads=reader.reads,
        live=_read(live, whole, reader.touched) if whole else {},
        verdict=decision.verdict,
        check=decision.check,
        reason=decision.reason,
        warnings=list(decision.warnings),
        patch=list(decision.patch),
        digest=review.digest(body),
        owned=owned,
    )


def _read(live: Mapping[Key, Known], whole: frozenset[tuple[str, str]], touched: set[Key]) -> dict[str, Any]:
    """Few objects are told whole, for who asks later why none of them mattered. Of many only those that the decision
    looked at: over these it is decided the same again."""
    lists: dict[str, Any] = {f"{kind}/{namespace}/*": {} for kind, namespace in sorted(whole)}
    if len(live) <= FEW:
        told = lists | {str(key): _told(known) for key, known in live.items()}
        if len(msgspec.json.encode(told)) <= FEW_BYTES:
            return told
    return lists | {str(key): _told(live[key]) for key in sorted(touched & live.keys())}


def _told(known: Known) -> dict[str, Any]:
    """Of an object that does not decode, why: who reads it may say so."""
    seen = msgspec.to_builtins(known.value) if known.value is not None else kinds.unreadable(known.problem, Rest())
    return {
        "uid": known.uid,
        "resource_version": known.resource_version,
        "object": seen,
    }
