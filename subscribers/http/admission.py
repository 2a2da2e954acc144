"""Answering AdmissionReviews: from the world where it is fresh, with one live read where it is not.

    read        a body that is no review is 400 with one line
    again       a review that was answered is answered with the same bytes
    concerned   what nothing of ours touches is counted and allowed
    decide      over the world; a kind that is not listed, or a watch that was silent for more than 3 s, means one LIST
                per namespace and kind, shared by all who ask at the same time, 300 ms at most
    record      `admission.decided` is appended first, and waited for 20 ms at most; then the answer goes out

Whatever fails, or takes longer than a second, ends in the system's rule: admitted as it came with a warning, or refused
with what to do. Dry runs are decided and not recorded.

Rules: design.md section 2 ("admission.decided") and section 5.
"""

import asyncio
import collections
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from eventstore import envelope, events, store, subjects
from handlers.admission import patches, review
from handlers.admission.decision import Decision, Question
from handlers.admission.view import View
from handlers.outcome import Key
from handlers.system import Admitter
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import Known, World

log = structlog.get_logger()

DEADLINE: Final = 1.0
READ: Final = 0.3
RECORD: Final = 0.02
FRESH_NS: Final = 3_000_000_000
REMEMBERED: Final = 2048
QUEUED: Final = 10_000

#: Lists one kind in one namespace, narrowed. Raises ClusterError.
Live = Callable[[str, str], Awaitable[Mapping[Key, Known]]]
#: The values behind tokens of the log, of objects in one namespace: read from the objects themselves.
Values = Callable[[str, frozenset[str]], Awaitable[Mapping[str, str]]]
_STORED: Final = re.compile(r"⟦[0-9a-f]{16}⟧")


class Answered(NamedTuple):
    body: bytes
    check: str
    verdict: str


class Desk:
    """`answer(path, body)`. Used by any number of tasks of one loop."""

    def __init__(
        self,
        admitters: Mapping[str, Admitter],
        *,
        world: Callable[[], World],
        live: Live,
        values: Values,
        append: Callable[[envelope.Envelope], Awaitable[Any]],
        instance: str,
        logic: str,
        settings: str,
        excluded: frozenset[str] = frozenset(),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.admitters, self.world, self.live, self.append = admitters, world, live, append
        self.values = values
        self.instance, self.logic, self.settings, self.excluded = instance, logic, settings, excluded
        self.clock = clock
        self.unconcerned = 0
        self.dropped = 0
        self.decided: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._answers: collections.OrderedDict[tuple[str, str], bytes] = collections.OrderedDict()
        self._reads: dict[tuple[str, str], asyncio.Task[Mapping[Key, Known]]] = {}
        self._recording: set[asyncio.Task[None]] = set()

    async def answer(self, path: str, body: bytes) -> bytes:
        """Raises Malformed for what is no review, KeyError for a path that is nobody's."""
        admitter = self.admitters[path]
        request = review.read(body)
        known = self._answers.get((path, request.uid))
        if known is not None:
            return known
        try:
            async with asyncio.timeout(DEADLINE):
                answered = await self._decide(admitter, request)
        except review.Malformed:
            raise
        except Exception as error:  # an engine must never wait for our defect
            log.exception("admission-failed", webhook=admitter.name, review=request.uid)
            answered = _failed(admitter, request, error)
        self.decided[admitter.name, answered.verdict, answered.check] += 1
        self._remember(path, request.uid, answered.body)
        return answered.body

    def _remember(self, path: str, uid: str, body: bytes) -> None:
        self._answers[path, uid] = body
        while len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)

    async def _decide(self, admitter: Admitter, request: review.Request) -> Answered:
        if request.namespace in self.excluded:
            return self._pass(request, "excluded-namespace")
        current, old = review.document(request.object), review.document(request.old_object)
        seen = admitter.see(current) if current is not None else None
        before = admitter.see(old) if old is not None else None
        question = Question(
            uid=request.uid,
            operation=request.operation,  # type: ignore[arg-type]
            kind=request.of,
            namespace=request.namespace,
            name=request.name,
            view=seen.object if seen else None,
            old=before.object if before else None,
            dry_run=bool(request.dry_run),
            user=request.user_info.username,
        )
        decision, reader, live = await self._judge(admitter, question)
        if decision is None:
            return self._pass(request, "not-concerned")
        patch = seen.fill(await self._real(list(decision.patch), question.namespace)) if seen else []
        patch = patches.effective(patch, current)
        body = review.answer(request, decision, patch)
        if not question.dry_run:
            await self._record(admitter, question, decision, reader, live, body)
        return Answered(body, decision.check, decision.verdict)

    def _pass(self, request: review.Request, check: str) -> Answered:
        self.unconcerned += 1
        decision = Decision(verdict="allowed", check=check)
        return Answered(review.answer(request, decision, []), check, "allowed")

    async def _judge(
        self, admitter: Admitter, question: Question
    ) -> tuple[Decision | None, Reader, Mapping[Key, Known]]:
        """The decision, None when nothing of ours is concerned; what was read for it."""
        world, live, whole = self.world(), dict[Key, Known](), set[tuple[str, str]]()
        if self.clock() - world.contact_ns > FRESH_NS:
            await self._read(admitter, admitter.kinds, question.namespace, live, whole)
        for _ in range(1 + len(admitter.kinds)):
            reader = Reader(world, live=live, whole=frozenset(whole))
            try:
                if not admitter.concerned(question, reader):
                    return None, reader, live
                return admitter.decide(question, reader), reader, live
            except Unlisted as unlisted:
                await self._read(admitter, (unlisted.kind,), question.namespace, live, whole)
        raise RuntimeError(f"{admitter.name} reads kinds that it does not name")

    async def _real(self, patch: list[Any], namespace: str) -> list[Any]:
        """With the values that the log knows as tokens only: what an operator wrote into a custom resource."""
        wanted = frozenset(_STORED.findall(msgspec.json.encode(patch).decode()))
        if not wanted:
            return patch
        async with asyncio.timeout(READ):
            values = await self.values(namespace, wanted)
        if missing := wanted - set(values):
            raise LookupError(f"{len(missing)} values of the custom resource have changed since; try again")
        return View({}, dict(values), _STORED).fill(patch)  # type: ignore[no-any-return]

    async def _read(
        self, admitter: Admitter, kinds: Any, namespace: str, live: dict[Key, Known], whole: set[tuple[str, str]]
    ) -> None:
        for kind in kinds:
            live.update(await self._shared(kind, namespace))
            whole.add((kind, namespace))

    async def _shared(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        """One LIST for all who ask at the same time."""
        task = self._reads.get((kind, namespace))
        if task is None:
            task = asyncio.create_task(self._limited(kind, namespace))
            self._reads[kind, namespace] = task
            task.add_done_callback(lambda _: self._reads.pop((kind, namespace), None))
        return await asyncio.shield(task)

    async def _limited(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        async with asyncio.timeout(READ):
            return await self.live(kind, namespace)

    async def _record(
        self, admitter: Admitter, question: Question, decision: Decision, reader: Reader, live: Mapping[Key, Known],
        body: bytes,
    ) -> None:  # fmt: skip
        data = decided_event(
            admitter.name, question, decision, reader, live, body, logic=self.logic, settings=self.settings
        )
        subject = subjects.admission_subject(admitter.name, question.namespace, question.name or data.generate_name)
        name = events.name_of(data).removeprefix(envelope.PREFIX).removesuffix(".v1")
        event = events.event(
            data,
            id=f"{name}:{question.uid}:{data.digest.removeprefix('sha256:')[:16]}",
            source="warmlog/webhook",
            subject=subject,
            time_ns=self.clock(),
            actor=f"webhook/{self.instance}",
        )
        if len(self._recording) >= QUEUED:
            self.dropped += 1
            return
        task = asyncio.create_task(self._until_stored(event))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)
        await asyncio.wait({task}, timeout=RECORD)

    async def _until_stored(self, event: envelope.Envelope) -> None:
        """While NATS is away decisions wait here, bounded; they carry their facts with them."""
        while True:
            try:
                await self.append(event)
                return
            except store.Refused as error:
                log.error("decision-not-recorded", subject=event.subject, error=str(error))
                self.dropped += 1
                return
            except store.StoreError:
                await asyncio.sleep(0.5)

    async def drain(self, grace: float) -> None:
        """Let what is being recorded end."""
        if self._recording:
            await asyncio.wait(self._recording, timeout=grace)
        for task in self._recording:
            task.cancel()


def _failed(admitter: Admitter, request: review.Request, error: Exception) -> Answered:
    why = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    if admitter.fails_open:
        decision = Decision(
            verdict="allowed", check="failed-open", warnings=(f"admitted as it came: {admitter.name} failed: {why}",)
        )
    else:
        decision = Decision(
            verdict="refused", check="failed-closed", reason=f"{admitter.name} could not decide ({why}); try again"
        )
    return Answered(review.answer(request, decision, []), decision.check, decision.verdict)


def decided_event(
    webhook: str, question: Question, decision: Decision, reader: Reader, live: Mapping[Key, Known], body: bytes, *,
    logic: str, settings: str,
) -> events.AdmissionDecided:  # fmt: skip
    """Everything that the decision was computed from, and what came of it."""
    metadata = (question.view or {}).get("metadata") or {}
    owner = next((one for one in metadata.get("ownerReferences") or [] if one.get("controller")), None)
    return events.AdmissionDecided(
        review=question.uid,
        webhook=webhook,
        operation=question.operation,
        kind=question.kind,
        namespace=question.namespace,
        name=question.name,
        generate_name=str(metadata.get("generateName", "")),
        owner=f"{owner.get('kind')}/{owner.get('name')}/{owner.get('uid')}" if owner else "",
        position=reader.position,
        logic=logic,
        settings=settings,
        view=question.view or {},
        reads=reader.reads,
        live={str(key): {"uid": known.uid, "object": msgspec.to_builtins(known.value)} for key, known in live.items()},
        verdict=decision.verdict,
        check=decision.check,
        reason=decision.reason,
        warnings=list(decision.warnings),
        patch=list(decision.patch),
        digest=review.digest(body),
        owned=owned_digest(decision),
    )


def owned_digest(decision: Decision) -> str:
    """Of the values at the patched paths, as a template."""
    if not decision.patch:
        return ""
    return review.digest(msgspec.json.encode([(op["path"], op.get("value")) for op in decision.patch]))
