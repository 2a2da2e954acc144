"""Over what a review is decided: the world where it is fresh, what is read live where it is not.

A kind that is not listed, a watch that was silent for more than 3 s, or something that was looked for and is not there
mean one LIST per namespace and kind, shared by all who ask at the same time, 300 ms at most.

Not here: what is decided (handlers), what becomes of a decision (admission).

Rules: design.md section 5.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from handlers.admission.decision import Decision, Question
from handlers.outcome import Key
from handlers.system import Admitter, place
from handlers.world.reader import Reader, Unlisted
from handlers.world.state import Known, World
from subscribers.http.sharedreads import Live, SharedReads, Unsaid

FRESH_NS: Final = 3_000_000_000


class Judged(NamedTuple):
    """`decision` is None where nothing of ours is concerned. `live` was read for it, `whole` are the lists in it."""

    decision: Decision | None
    reader: Reader
    live: Mapping[Key, Known] = {}
    whole: frozenset[tuple[str, str]] = frozenset()


class Judge:
    """`reads` counts what was listed."""

    def __init__(self, world: Callable[[], World], live: Live, clock: Callable[[], int]) -> None:
        self.world, self.reads, self._clock = world, SharedReads(live), clock

    def is_stale(self, world: World) -> bool:
        return self._clock() - world.contact_ns > FRESH_NS

    def at_once(self, admitter: Admitter, question: Question) -> Judged | None:
        """From the world alone; None where the world cannot say."""
        world = self.world()
        if admitter.kinds and self.is_stale(world):
            return None
        try:
            return _judge(admitter, question, Judged(None, Reader(world)))
        except Unlisted:
            return None

    async def read_first(self, admitter: Admitter, question: Question, first: Judged | None) -> Judged:
        """With a live read. Where the world was fresh and only something was missing in it (`first`), a failed read
        leaves a system that fails open with what the world says."""
        decision = first.decision if first is not None else None
        wanted: Iterable[str] = decision.missed if decision is not None else sorted(admitter.kinds)
        live, whole = dict[Key, Known](), set[tuple[str, str]]()
        for _ in range(1 + len(admitter.kinds)):
            try:
                for kind in wanted:
                    where = place(admitter, kind, question.namespace)
                    live.update(await self.reads.objects(kind, where))
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


def _judge(admitter: Admitter, question: Question, judged: Judged) -> Judged:
    if not admitter.concerned(question, judged.reader):
        return judged
    return judged._replace(decision=admitter.decide(question, judged.reader))
