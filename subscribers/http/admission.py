"""Answering AdmissionReviews: from the world where it is fresh, with one live read where it is not.

    read        a body that is no review is 400 with one line
    again       a review that was answered, or is being answered, gets the same bytes
    concerned   what nothing of ours touches is counted and allowed
    decide      over the world; a kind that is not listed, a watch that was silent for more than 3 s, or something that
                was looked for and is not there mean one LIST per namespace and kind, shared by all who ask at the same
                time, 300 ms at most
    record      `admission.decided` is appended first, and waited for 20 ms at most; then the answer goes out

Whatever fails, or takes longer than a second, ends in the system's rule: admitted as it came with a warning, or refused
with what to do. Dry runs are decided and not recorded.

Not here: what is decided (handlers), how decisions get into the log (recording), HTTP (reviewing).

Rules: design.md section 2 ("admission.decided") and section 5.
"""

import asyncio
import collections
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
import structlog

from eventstore import envelope, events, subjects
from handlers.admission import patches, review
from handlers.admission.decision import Decision, Question
from handlers.admission.view import View, filled, pieces
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from handlers.system import Admitter, Recalling, Undecided, place
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import Known, World
from subscribers.http import recording

log = structlog.get_logger()

DEADLINE: Final = 1.0
READ: Final = 0.3
FRESH_NS: Final = 3_000_000_000
REMEMBERED: Final = 2048

#: Lists one kind in one namespace, narrowed. Raises ClusterError.
Live = Callable[[str, str], Awaitable[Mapping[Key, Known]]]
#: The values behind tokens of the log, of objects in one namespace: read from the objects themselves.
Values = Callable[[str, frozenset[str]], Awaitable[Mapping[str, str]]]
_STORED: Final = re.compile(r"⟦[0-9a-f]{16}⟧")


class Identity(NamedTuple):
    """Who answers, for the log: `settings` is the hash of the effective ones, `logic` the version of the code."""

    instance: str
    logic: str
    settings: str


class Judged(NamedTuple):
    """`decision` is None where nothing of ours is concerned. `live` was read for it, `whole` are the lists in it."""

    decision: Decision | None
    reader: Reader
    live: Mapping[Key, Known] = {}
    whole: frozenset[tuple[str, str]] = frozenset()


class Answered(NamedTuple):
    body: bytes
    check: str
    verdict: str


class Template(NamedTuple):
    """A decision's patch as JSON, and what must be done to it. It holds the decision, so that its id stays its own."""

    decision: Decision
    patch: bytes
    pieces: list[bytes]
    stored: frozenset[str]
    replaces: bool
    owned: str


def template_of(decision: Decision) -> Template:
    if not decision.patch:
        return Template(decision, b"", [], frozenset(), False, "")
    patch = msgspec.json.encode(decision.patch)
    stored = frozenset(_STORED.findall(patch.decode()))
    replaces = any(op["op"] == "replace" for op in decision.patch)
    return Template(decision, patch, pieces(patch), stored, replaces, recording.owned(decision))


class Unsaid(Exception):
    """What a decision needs could not be read, or has changed meanwhile; one line says what."""


class Desk:
    """`answer(path, body)`. Used by any number of tasks of one loop."""

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
        self.admitters, self.world, self.live, self.values = admitters, world, live, values
        self.recorder, self.identity, self.excluded, self.clock = recorder, identity, excluded, clock
        self.decided: collections.Counter[tuple[str, str, str]] = collections.Counter()  # webhook, verdict, check
        self.unconcerned = self.malformed = self.repeated = self.lists = self.failed_lists = 0
        self._answers: collections.OrderedDict[tuple[str, str], asyncio.Future[bytes]] = collections.OrderedDict()
        self._recalling = {one.name: one for one in admitters.values() if isinstance(one, Recalling)}
        self._templates: dict[int, Template] = {}
        self._reads: dict[tuple[str, str], asyncio.Task[Mapping[Key, Known]]] = {}

    async def answer(self, path: str, body: bytes) -> bytes:
        """Raises Malformed for what is no review, KeyError for a path that is nobody's."""
        admitter = self.admitters[path]
        try:
            request = review.read(body)
            return await self._once(admitter, path, request)
        except review.Malformed:
            self.malformed += 1
            raise

    async def _once(self, admitter: Admitter, path: str, request: review.Request) -> bytes:
        """A review that comes again gets the answer that it got, or that is being made."""
        given = self._answers.get((path, request.uid))
        if given is not None:
            self.repeated += 1
            return await asyncio.shield(given)
        promise = asyncio.get_running_loop().create_future()
        self._promise((path, request.uid), promise)
        try:
            answered = await self._answered(admitter, request)
        except BaseException:
            del self._answers[path, request.uid]
            promise.cancel()
            raise
        self.decided[admitter.name, answered.verdict, answered.check] += 1
        promise.set_result(answered.body)
        return answered.body

    def _promise(self, key: tuple[str, str], promise: asyncio.Future[bytes]) -> None:
        self._answers[key] = promise
        while len(self._answers) > REMEMBERED and next(iter(self._answers.values())).done():
            self._answers.popitem(last=False)

    async def _answered(self, admitter: Admitter, request: review.Request) -> Answered:
        try:
            if request.namespace in self.excluded and admitter.fails_open:
                return self._pass(request, "excluded-namespace")
            if (answered := await self._recalled(admitter, request)) is not None:
                return answered
            async with asyncio.timeout(DEADLINE):
                return await self._decide(admitter, request)
        except review.Malformed:
            raise
        except Exception as error:  # an engine must never wait for our defect
            if not isinstance(error, TimeoutError | Unsaid):
                log.exception("admission-failed", webhook=admitter.name, review=request.uid)
            return await self._failed(admitter, request, error)

    async def _recalled(self, admitter: Admitter, request: review.Request) -> Answered | None:
        """An answer that was given to an equal question, None where there is none."""
        world, recalling = self.world(), self._recalling.get(admitter.name)
        if recalling is None or self._is_stale(world):
            return None
        reader = Reader(world)
        try:
            known = recalling.recall(
                bytes(request.object),
                operation=request.operation,
                kind=request.of,
                namespace=request.namespace,
                world=reader,
            )
            if known is None:
                return None
            patch = await self._filled(known.decision, known.seen.values, request)
        except (Unlisted, Unsaid):
            return None
        body = review.answer(request, known.decision, patch)
        asked = recording.asked(_question(request, None, None), msgspec.Raw(known.seen.view), known.seen.metadata)
        return await self._told(admitter, asked, known.decision, Judged(None, reader), body, bool(request.dry_run))

    async def _decide(self, admitter: Admitter, request: review.Request) -> Answered:
        current, old = review.document(request.object), review.document(request.old_object)
        seen = admitter.see(current) if current is not None else None
        before = admitter.see(old) if old is not None else None
        question = _question(request, seen, before)
        judged = self._at_once(admitter, question)
        if judged is None or (judged.decision is not None and judged.decision.missed):
            judged = await self._read_first(admitter, question, judged)
        for again in (False, True):
            decision = judged.decision
            if decision is None or not decision.ours:
                break
            try:
                patch = await self._filled(decision, seen.values if seen is not None else {}, request)
            except Unsaid:
                if again:
                    raise
                judged = await self._read_first(admitter, question, None)
                continue
            body = review.answer(request, decision, patch)
            return await self._told(admitter, _asked(question), decision, judged, body, question.dry_run)
        return self._pass(request, "not-concerned")

    def _pass(self, request: review.Request, check: str) -> Answered:
        """Counted, and nothing else."""
        self.unconcerned += 1
        return Answered(review.answer(request, Decision(verdict="allowed", check=check)), check, "allowed")

    # Deciding -----------------------------------------------------------------------------------------------------

    def _at_once(self, admitter: Admitter, question: Question) -> Judged | None:
        """From the world alone; None where the world cannot say."""
        world = self.world()
        if admitter.kinds and self._is_stale(world):
            return None
        try:
            return _judge(admitter, question, Judged(None, Reader(world)))
        except Unlisted:
            return None

    def _is_stale(self, world: World) -> bool:
        return self.clock() - world.contact_ns > FRESH_NS

    async def _read_first(self, admitter: Admitter, question: Question, first: Judged | None) -> Judged:
        """With a live read. Where the world was fresh and only something was missing in it (`first`), a failed read
        leaves a system that fails open with what the world says."""
        decision = first.decision if first is not None else None
        wanted: Iterable[str] = decision.missed if decision is not None else sorted(admitter.kinds)
        live, whole = dict[Key, Known](), set[tuple[str, str]]()
        for _ in range(1 + len(admitter.kinds)):
            try:
                for kind in wanted:
                    where = place(admitter, kind, question.namespace)
                    live.update(await self._shared(kind, where))
                    whole.add((kind, where))
            except Unsaid:
                if first is not None and admitter.fails_open:
                    return first
                raise
            reader = Reader(self.world(), live=live, whole=frozenset(whole))
            try:
                return _judge(admitter, question, Judged(None, reader, live, frozenset(whole)))
            except Unlisted as unlisted:
                wanted = (unlisted.kind,)
        raise RuntimeError(f"{admitter.name} reads kinds that it does not name")

    async def _shared(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        """One LIST for all who ask at the same time. Raises Unsaid."""
        task = self._reads.get((kind, namespace))
        if task is None:
            task = asyncio.get_running_loop().create_task(self._limited(kind, namespace))
            self._reads[kind, namespace] = task
            task.add_done_callback(lambda done: self._listed(kind, namespace, done))
        try:
            return await asyncio.shield(task)
        except ClusterError as error:
            raise Unsaid(f"{kind} in namespace {namespace} cannot be read: {error}") from error
        except TimeoutError:
            raise Unsaid(f"{kind} in namespace {namespace} cannot be read within {READ:g} s") from None

    async def _limited(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        self.lists += 1
        async with asyncio.timeout(READ):
            return await self.live(kind, namespace)

    def _listed(self, kind: str, namespace: str, done: asyncio.Task[Mapping[Key, Known]]) -> None:
        del self._reads[kind, namespace]
        if not done.cancelled() and done.exception() is not None:
            self.failed_lists += 1

    # Answering ----------------------------------------------------------------------------------------------------

    async def _filled(self, decision: Decision, values: Mapping[str, str], request: review.Request) -> bytes:
        """The patch as JSON with real values: those of the object, and those that the log knows as tokens only: what an
        operator wrote into a custom resource. Raises Unsaid."""
        template = self._template(decision)
        patch = template.patch
        if len(template.pieces) > 1:
            stored = await self._stored(request.namespace, template.stored) if template.stored else {}
            patch = filled(template.pieces, {**values, **stored} if stored else values)
        if not template.replaces:
            return patch
        operations = msgspec.json.decode(patch)
        kept = patches.effective(operations, review.document(request.object))
        return patch if len(kept) == len(operations) else msgspec.json.encode(kept) if kept else b""

    def _template(self, decision: Decision) -> Template:
        """Made once for a decision that is given again and again."""
        known = self._templates.get(id(decision))
        if known is None or known.decision is not decision:
            if len(self._templates) >= REMEMBERED:
                self._templates.clear()
            known = self._templates[id(decision)] = template_of(decision)
        return known

    async def _stored(self, namespace: str, wanted: frozenset[str]) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(READ):
                found = await self.values(namespace, wanted)
        except (ClusterError, TimeoutError) as error:
            raise Unsaid(f"values of the custom resource cannot be read: {error or 'no answer in time'}") from error
        if missing := wanted - set(found):
            raise Unsaid(f"{len(missing)} values of the custom resource have changed since it was observed")
        return found

    async def _told(
        self, admitter: Admitter, asked: recording.Asked, decision: Decision, judged: Judged, body: bytes, dry: bool
    ) -> Answered:
        """Recorded, unless it is a dry run."""
        if not dry:
            who = self.identity
            data = recording.decided(
                admitter.name, asked, decision, judged.reader, judged.live, judged.whole, body,
                owned=self._template(decision).owned, logic=who.logic, settings=who.settings,
            )  # fmt: skip
            await self.recorder.put(self._event(data))
        return Answered(body, decision.check, decision.verdict)

    def _event(self, data: events.AdmissionDecided) -> envelope.Envelope:
        return events.event(
            data,
            id=f"admission.decided:{data.review}:{data.digest.removeprefix('sha256:')[:16]}",
            source="warmlog/webhook",
            subject=subjects.admission_subject(data.webhook, data.namespace, data.name or data.generate_name),
            time_ns=self.clock(),
            actor=f"webhook/{self.identity.instance}",
        )

    async def _failed(self, admitter: Admitter, request: review.Request, error: Exception) -> Answered:
        """The system's rule, recorded like any decision; an object that could not be seen is left out."""
        decision = _rule(admitter, error)
        try:
            current = review.document(request.object)
            seen = admitter.see(current) if current is not None else None
            if isinstance(admitter, Undecided):
                decision = admitter.undecided(_question(request, seen, None), decision)
            body = review.answer(request, decision, self._template(decision).patch)
        except Exception:
            decision, seen = _rule(admitter, error), None
            body = review.answer(request, decision)
        asked, judged = _asked(_question(request, seen, None)), Judged(decision, Reader(self.world()))
        return await self._told(admitter, asked, decision, judged, body, bool(request.dry_run))


def _asked(question: Question) -> recording.Asked:
    view = question.view or {}
    return recording.asked(question, view, view.get("metadata"))


def _judge(admitter: Admitter, question: Question, judged: Judged) -> Judged:
    if not admitter.concerned(question, judged.reader):
        return judged
    return judged._replace(decision=admitter.decide(question, judged.reader))


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
