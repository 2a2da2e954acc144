"""Answering AdmissionReviews.

    read        a body that is no review is 400 with one line
    again       a review that was answered, or is being answered, gets the same bytes
    concerned   what nothing of ours touches is counted and allowed
    decide      over the world where it is fresh, with one live read where it is not (judging)
    record      `admission.decided` is appended first, and waited for 20 ms at most; then the answer goes out

Whatever fails, or takes longer than a second, ends in the system's rule: admitted as it came with a warning, or refused
with what to do. Dry runs are decided and not recorded.

Not here: what is decided (handlers), over what (judging), how decisions get into the log (recording), HTTP (reviewing).

Rules: design.md section 2 ("admission.decided") and section 5.
"""

import asyncio
import collections
import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, cast

import msgspec
import structlog

from eventstore import envelope, events, subjects
from handlers.admission import review, templates
from handlers.admission.decision import Decision, Question
from handlers.admission.glance import Glance
from handlers.admission.view import View
from handlers.effects.cluster import ClusterError
from handlers.system import Admitter, Recalling, Undecided, place
from handlers.world.reader import Reader
from handlers.world.state import World
from subscribers.http import judging, recording
from subscribers.http.judging import Judged
from subscribers.http.sharedreads import READ, Live, Unsaid

log = structlog.get_logger()

DEADLINE: Final = 1.0
REMEMBERED: Final = 2048

#: Given the answer, or why there is none.
Told = Callable[[bytes | Exception], None]
#: The values behind tokens of the log, of objects of one kind in one namespace: read from the objects themselves.
Values = Callable[[str, str, frozenset[str]], Awaitable[Mapping[str, str]]]


class Identity(NamedTuple):
    """Who answers, for the log: `settings` is the hash of the effective ones, `logic` the version of the code."""

    instance: str
    logic: str
    settings: str


class Again(NamedTuple):
    """A decision that is given again, and what was looked at for it."""

    decision: Decision
    seen: Glance
    reader: Reader

    def asked(self, request: review.Request) -> recording.Asked:
        return recording.asked(_question(request, None, None), msgspec.Raw(self.seen.view), self.seen.metadata)


class Answered(NamedTuple):
    body: bytes
    check: str
    verdict: str


class Desk:
    """`begin(path, body, told)`, or `answer(path, body)`. Used by any number of tasks of one loop."""

    def __init__(
        self,
        admitters: Mapping[str, Admitter],
        *,
        world: Callable[[], World],
        live: Live,
        values: Values,
        recorder: recording.Recorder,
        identity: Identity,
        excluded: frozenset[str] = frozenset(),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.admitters, self.values, self.judge = admitters, values, judging.Judge(world, live, clock)
        self.recorder, self.identity, self.excluded, self.clock = recorder, identity, excluded, clock
        self.decided: collections.Counter[tuple[str, str, str]] = collections.Counter()  # webhook, verdict, check
        self.unconcerned = self.malformed = self.repeated = 0
        self._answers: collections.OrderedDict[tuple[str, str], asyncio.Future[bytes]] = collections.OrderedDict()
        self._recalling = {one.name: one for one in admitters.values() if isinstance(one, Recalling)}
        self._templates = templates.Templates()
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, path: str, body: bytes) -> bytes:
        """Raises Malformed for what is no review, KeyError for a path that is nobody's."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.begin(path, body, functools.partial(_settle, answer))
        return await answer

    def begin(self, path: str, body: bytes, told: Told) -> None:
        """`told` is called once, now or later, with the answer or with what `answer` raises. Where nothing but the log
        must be waited for there is no task, and no turn of the loop between its answer and ours. Raises KeyError."""
        admitter = self.admitters[path]
        try:
            request = review.read(body)
        except review.Malformed as error:
            self.malformed += 1
            told(error)
            return
        key = path, request.uid
        promise = self._answers.get(key)
        if promise is not None:  # the answer that it got, or that is being made
            self.repeated += 1
        else:
            promise = self._promise(key)
            known = self._known(admitter, request)
            if known is not None and self._given_again(admitter, request, known, promise, told):
                return
            task = asyncio.get_running_loop().create_task(self._keep(admitter, key, request, known, promise))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        promise.add_done_callback(functools.partial(_tell, told))

    def _promise(self, key: tuple[str, str]) -> asyncio.Future[bytes]:
        made = self._answers[key] = asyncio.get_running_loop().create_future()
        while len(self._answers) > REMEMBERED and next(iter(self._answers.values())).done():
            self._answers.popitem(last=False)
        return made

    async def _keep(
        self, admitter: Admitter, key: tuple[str, str], request: review.Request, known: Again | None,
        promise: asyncio.Future[bytes],
    ) -> None:  # fmt: skip
        """Whoever leaves meanwhile loses the answer, not the decision."""
        try:
            answered = await self._answered(admitter, request, known)
        except Exception as error:
            del self._answers[key]
            self.malformed += isinstance(error, review.Malformed)
            promise.set_exception(error)
        else:
            self.decided[admitter.name, answered.verdict, answered.check] += 1
            promise.set_result(answered.body)

    def _known(self, admitter: Admitter, request: review.Request) -> Again | None:
        """What was decided about an equal question; None where nothing was, or where nobody may say so now."""
        recalling = self._recalling.get(admitter.name)
        if recalling is None or request.namespace in self.excluded:
            return None
        try:
            world = self.judge.world()
            if self.judge.is_stale(world):
                return None
            reader = Reader(world)
            known = recalling.recall(
                bytes(request.object),
                operation=request.operation,
                kind=request.of,
                namespace=request.namespace,
                world=reader,
            )
        except Exception:  # it is decided anew, and what is wrong is told there
            return None
        return None if known is None else Again(known.decision, known.seen, reader)

    def _given_again(
        self, admitter: Admitter, request: review.Request, known: Again, promise: asyncio.Future[bytes], told: Told
    ) -> bool:
        """Whether that decision is given again here: nothing has to be read for it."""
        template = self._templates.of(known.decision)
        if template.stored:
            return False
        try:
            body = review.answer(request, known.decision, template.filled(known.seen.values, request))
            event = self._event(admitter, known.asked(request), known.decision, Judged(None, known.reader), body)
        except Exception:  # likewise
            return False

        def answered() -> None:
            self.decided[admitter.name, known.decision.verdict, known.decision.check] += 1
            promise.set_result(body)
            told(body)

        if request.dry_run:
            answered()
        else:
            self.recorder.put(event, answered)
        return True

    async def _answered(self, admitter: Admitter, request: review.Request, known: Again | None) -> Answered:
        try:
            if request.namespace in self.excluded and admitter.fails_open:
                return self._pass(request, "excluded-namespace")
            if known is not None and (answered := await self._recalled(admitter, request, known)) is not None:
                return answered
            async with asyncio.timeout(DEADLINE):
                return await self._decide(admitter, request)
        except review.Malformed:
            raise
        except Exception as error:  # an engine must never wait for our defect
            if not isinstance(error, TimeoutError | Unsaid):
                log.exception("admission-failed", webhook=admitter.name, review=request.uid)
            return await self._failed(admitter, request, error)

    async def _recalled(self, admitter: Admitter, request: review.Request, known: Again) -> Answered | None:
        try:
            patch = await self._filled(admitter, known.decision, known.seen.values, request)
        except Unsaid:
            return None
        body, judged = review.answer(request, known.decision, patch), Judged(None, known.reader)
        return await self._told(admitter, known.asked(request), known.decision, judged, body, bool(request.dry_run))

    async def _decide(self, admitter: Admitter, request: review.Request) -> Answered:
        current, old = review.document(request.object), review.document(request.old_object)
        seen = admitter.see(current) if current is not None else None
        before = admitter.see(old) if old is not None else None
        question = _question(request, seen, before)
        judged = self.judge.at_once(admitter, question)
        if judged is None or (judged.decision is not None and judged.decision.missed):
            judged = await self.judge.read_first(admitter, question, judged)
        for again in (False, True):
            decision = judged.decision
            if decision is None or not decision.ours:
                break
            try:
                patch = await self._filled(admitter, decision, seen.values if seen is not None else {}, request)
            except Unsaid:
                if again:
                    raise
                judged = await self.judge.read_first(admitter, question, None)
                continue
            body = review.answer(request, decision, patch)
            return await self._told(admitter, _asked(question), decision, judged, body, question.dry_run)
        return self._pass(request, "not-concerned")

    def _pass(self, request: review.Request, check: str) -> Answered:
        """Counted, and nothing else."""
        self.unconcerned += 1
        return Answered(review.answer(request, Decision(verdict="allowed", check=check)), check, "allowed")

    # Answering ----------------------------------------------------------------------------------------------------

    async def _filled(
        self, admitter: Admitter, decision: Decision, values: Mapping[str, str], request: review.Request
    ) -> bytes:
        """The patch as JSON with real values: those of the object, and those that the log knows as tokens only: what an
        operator wrote into a custom resource. Raises Unsaid."""
        template = self._templates.of(decision)
        if template.stored:
            values = {**values, **await self._stored(admitter, request.namespace, template.stored)}
        return template.filled(values, request)

    async def _stored(self, admitter: Admitter, namespace: str, wanted: frozenset[str]) -> Mapping[str, str]:
        """They stand in an object that was read for the decision, of whichever kind."""
        found: dict[str, str] = {}
        try:
            async with asyncio.timeout(READ):
                for kind in sorted(admitter.kinds):
                    if rest := wanted - found.keys():
                        found |= await self.values(kind, place(admitter, kind, namespace), rest)
        except (ClusterError, TimeoutError) as error:
            raise Unsaid(f"values of the custom resource cannot be read: {error or 'no answer in time'}") from error
        if missing := wanted - found.keys():
            raise Unsaid(f"{len(missing)} values of the custom resource have changed since it was observed")
        return found

    async def _told(
        self, admitter: Admitter, asked: recording.Asked, decision: Decision, judged: Judged, body: bytes, dry: bool
    ) -> Answered:
        """Recorded, unless it is a dry run."""
        if not dry:
            enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            event = self._event(admitter, asked, decision, judged, body)
            self.recorder.put(event, functools.partial(_let_go, enough))
            await enough
        return Answered(body, decision.check, decision.verdict)

    def _event(
        self, admitter: Admitter, asked: recording.Asked, decision: Decision, judged: Judged, body: bytes
    ) -> envelope.Envelope:
        who = self.identity
        data = recording.decided(
            admitter.name, asked, decision, judged.reader, judged.live, judged.whole, body,
            owned=self._templates.of(decision).owned, logic=who.logic, settings=who.settings,
        )  # fmt: skip
        return events.event(
            data,
            id=f"admission.decided:{data.review}:{data.digest.removeprefix('sha256:')[:16]}",
            source="warmlog/webhook",
            subject=subjects.admission_subject(data.webhook, data.namespace, data.name or data.generate_name),
            time_ns=self.clock(),
            actor=f"webhook/{who.instance}",
        )

    async def _failed(self, admitter: Admitter, request: review.Request, error: Exception) -> Answered:
        """The system's rule, recorded like any decision; an object that could not be seen is left out."""
        decision = _rule(admitter, error)
        try:
            current = review.document(request.object)
            seen = admitter.see(current) if current is not None else None
            if isinstance(admitter, Undecided):
                decision = admitter.undecided(_question(request, seen, None), decision)
            body = review.answer(request, decision, self._templates.of(decision).patch)
        except Exception:
            decision, seen = _rule(admitter, error), None
            body = review.answer(request, decision)
        asked, judged = _asked(_question(request, seen, None)), Judged(decision, Reader(self.judge.world()))
        return await self._told(admitter, asked, decision, judged, body, bool(request.dry_run))


def _let_go(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _settle(answer: asyncio.Future[bytes], found: bytes | Exception) -> None:
    if answer.done():  # nobody waits for it any more
        return
    if isinstance(found, bytes):
        answer.set_result(found)
    else:
        answer.set_exception(found)


def _tell(told: Told, promise: asyncio.Future[bytes]) -> None:
    error = promise.exception()
    told(promise.result() if error is None else cast(Exception, error))


def _asked(question: Question) -> recording.Asked:
    view = question.view or {}
    return recording.asked(question, view, view.get("metadata"))


def _question(request: review.Request, seen: View | None, before: View | None) -> Question:
    return Question(
        uid=request.uid,
        operation=request.operation,  # type: ignore[arg-type]
        kind=request.of,
        namespace=request.namespace,
        name=request.name,
        view=seen.object if seen is not None else None,
        old=before.object if before is not None else None,
        dry_run=bool(request.dry_run),
        user=request.user_info.username,
    )


def _rule(admitter: Admitter, error: Exception) -> Decision:
    """What a system that cannot decide does: one line says what happened, and what to do."""
    if isinstance(error, TimeoutError):
        why = f"no answer within {DEADLINE:g} s"
    else:
        why = " ".join((str(error) if isinstance(error, Unsaid) else f"{type(error).__name__}: {error}").split())
    if admitter.fails_open:
        line = f"admitted as it came, {admitter.name} could not decide: {why}"
        return Decision(verdict="allowed", check="failed-open", reason=line, warnings=(line,))
    line = f"{admitter.name} could not decide: {why}; try again"
    return Decision(verdict="refused", check="failed-closed", reason=line)
