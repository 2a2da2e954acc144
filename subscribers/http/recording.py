"""Decisions on their way into the log: `admission.decided` is appended first, then the answer goes out.

`put` gives something to await that is done when the event is stored, and after 20 ms at the latest: an engine never
waits for a slow log. What is not stored by then goes on being tried for as long as it takes. While NATS is away events
wait here, bounded in number and bytes and counted; they carry the facts that they were decided on, so nothing is lost
by their being late.

Not here: what is decided (admission). When it fails: what does not fit is dropped and counted, what the log refuses for
good (an event over 256 KiB) is logged, dropped and counted. `put` never raises.

Rules: design.md section 2 ("admission.decided"), section 5 ("NATS away").
"""

import asyncio
import collections
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


class Recorder:
    """One per process. `append` raises store.StoreError."""

    def __init__(self, append: Callable[[envelope.Envelope], Awaitable[Any]], *, wait: float = WAIT) -> None:
        self._append, self._wait = append, wait
        self._tasks: set[asyncio.Task[None]] = set()
        self._given: collections.deque[tuple[float, asyncio.Future[None]]] = collections.deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self.queued_bytes = 0
        self.stored = self.dropped = self.refused = 0

    @property
    def queued(self) -> int:
        return len(self._tasks)

    def put(self, event: envelope.Envelope) -> Awaitable[None]:
        """Await it before answering."""
        loop = asyncio.get_running_loop()
        enough: asyncio.Future[None] = loop.create_future()
        size = len(memoryview(event.data))
        if len(self._tasks) >= MOST or self.queued_bytes + size > MOST_BYTES:
            self.dropped += 1
            enough.set_result(None)
            return enough
        self.queued_bytes += size
        task = loop.create_task(self._until_stored(event, size, enough))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._given.append((loop.time() + self._wait, enough))
        if self._sweeper is None:
            self._sweeper = loop.call_at(self._given[0][0], self._sweep)
        return enough

    def _sweep(self) -> None:
        """One timer lets all go on whose time is over."""
        loop, given = asyncio.get_running_loop(), self._given
        now = loop.time()
        while given and (given[0][0] <= now or given[0][1].done()):
            _release(given.popleft()[1])
        self._sweeper = loop.call_at(given[0][0], self._sweep) if given else None

    async def _until_stored(self, event: envelope.Envelope, size: int, enough: asyncio.Future[None]) -> None:
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
                await asyncio.sleep(AGAIN)
        finally:
            self.queued_bytes -= size
            _release(enough)

    async def drain(self, grace: float) -> int:
        """Let what is being recorded end; how many were given up."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()
        return len(left)


def _release(enough: asyncio.Future[None]) -> None:
    if not enough.done():
        enough.set_result(None)


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


def owned(decision: Decision) -> str:
    """Of the values at the patched paths, as a template."""
    if not decision.patch:
        return ""
    return review.digest(msgspec.json.encode([(op["path"], op.get("value")) for op in decision.patch]))
