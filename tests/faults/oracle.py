"""Whether an answer is right, judged afterwards against the timeline. Pure.

**Parts** are nats, server, and for each engine R its process and its subscriber. A part is *disturbed* from the instant
before a fault touches it until it is *healthy*:

    nats        a fresh connection is answered STREAM.INFO of both streams
    server      GET /readyz answers 200
    subscriber  its log says that it begins a session (started again); the SIGCONT itself (stopped)
    engine      it has printed its line of addresses (started again); the SIGCONT itself (stopped)

The **path** of replica R is nats, server, R's engine and R's subscriber. It is *settled* at a moment when no part of it
is disturbed and the last one became healthy at least SETTLE = 2 s before. A question was asked at `asked` and answered
at `answered`; what an answer credits is the matched tokens of a score, or of the explanation.

    wrong: never held     a block of the run was in no life of R that had begun. Always.
    wrong: mixed lives    no single life of R has ever held all blocks of the run. Always.
    wrong: went back      an answer asked after another one was received credits only what lives older than that one's
                          held. Always, whatever is disturbed, over all servers.
    wrong: earlier life   the run was held only by lives before the present one; path settled from before `asked`
    wrong: removed        a block of the run had left the present life, answered by the engine more than GRACE = 1 s
                          before `asked`; path settled from before `asked`
    wrong: dead engine    R's engine was killed DEAD = 5 s or more before `asked` and is not back, its subscriber was
                          not disturbed since, the rest of its path is settled
    missing               R is neither partial nor unknown, path settled from before `asked` until `answered`, and the
                          run of leading blocks that were held from GRACE before `asked` until `answered` is longer
                          than what is credited

`late` counts, for the time to heal, answers that are not perfect yet: missing or removed with a grace of PROMPT =
0.25 s, or with a replica that is neither partial nor complete.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal

import msgspec

from tests.faults import timeline

SETTLE = 2.0
GRACE = 1.0
DEAD = 5.0
PROMPT = 0.25

Kind = Literal["never held", "mixed lives", "went back", "earlier life", "removed", "dead engine", "missing"]


class Credit(msgspec.Struct, frozen=True):
    state: str  # as the answer's explanation has it; "" when it has none
    matched: int


class Answer(msgspec.Struct, frozen=True):
    tokens: Sequence[int]
    asked: float
    answered: float
    credits: dict[str, Credit]
    explained: bool
    reason: str


class Violation(msgspec.Struct, frozen=True):
    kind: str
    replica: str
    text: str


class Disturbance(msgspec.Struct):
    part: str
    since: float
    until: float = inf


class Parts:
    """Which part was disturbed when."""

    def __init__(self) -> None:
        self.all: list[Disturbance] = []

    def disturb(self, part: str, now: float) -> Disturbance:
        self.all.append(Disturbance(part, now))
        return self.all[-1]

    def quiet_since(self, parts: Iterable[str], begin: float, end: float) -> float:
        """When the last of the parts became healthy before `begin`; inf if any is disturbed between the two."""
        wanted, last = set(parts), 0.0
        for one in self.all:
            if one.part in wanted and one.since <= end:
                if one.until > begin:
                    return inf
                last = max(last, one.until)
        return last

    def last_disturbed(self, part: str) -> float:
        return max((one.until for one in self.all if one.part == part), default=0.0)


def path_of(replica: str) -> tuple[str, ...]:
    return ("nats", "server", f"engine {replica}", f"subscriber {replica}")


class Judge:
    """Takes answers in the order in which they were asked."""

    def __init__(self, engines: dict[str, timeline.Engine], parts: Parts) -> None:
        self.engines, self.parts = engines, parts
        self._seen: dict[str, list[tuple[float, int]]] = {name: [] for name in engines}  # answered, oldest life

    def judge(self, answer: Answer) -> list[Violation]:
        found = []
        for name, engine in self.engines.items():
            credit = answer.credits.get(name, Credit("absent" if answer.explained else "", 0))
            for kind, text in self._judged(engine, answer, credit):
                when = f"asked {answer.asked:.2f}, answered {answer.answered:.2f}, {answer.reason}, {credit.state}"
                found.append(Violation(kind, name, f"{text} ({when})"))
        strangers = answer.credits.keys() - self.engines.keys()
        return found + [Violation("never held", name, "no such replica") for name in strangers]

    def _judged(self, engine: timeline.Engine, answer: Answer, credit: Credit) -> list[tuple[Kind, str]]:
        found: list[tuple[Kind, str]] = []
        if credit.matched:
            wrong = self._wrong(engine, answer, credit)
            if wrong is not None:
                found.append(wrong)
        if answer.explained and credit.state not in ("partial", "unknown"):
            lacks = self._missing(engine, answer, credit, GRACE)
            if lacks and self._settled(path_of(engine.name), answer):
                found.append(("missing", f"{credit.matched} tokens credited, {lacks} held"))
        return found

    def _settled(self, path: Iterable[str], answer: Answer, after: float = 0.0) -> bool:
        return answer.asked >= self.parts.quiet_since(path, answer.asked, answer.answered) + SETTLE + after

    def _wrong(self, engine: timeline.Engine, answer: Answer, credit: Credit) -> tuple[Kind, str] | None:
        run = engine.path(answer.tokens)[: credit.matched // engine.block_size]
        if credit.matched % engine.unit or credit.matched > len(answer.tokens):
            return "never held", f"{credit.matched} tokens of {len(answer.tokens)} in units of {engine.unit}"
        if not any_life(engine, run, answer.answered):
            return "never held", f"{credit.matched} tokens credited, not all of them were ever held"
        lives = [number for number, life in enumerate(engine.lives) if held_ever(life, run, answer.answered)]
        if not lives:
            return "mixed lives", f"{credit.matched} tokens credited, no life held all of them"
        newest_seen = max((life for at, life in self._seen[engine.name] if at < answer.asked), default=0)
        if lives[-1] < newest_seen:
            return "went back", f"life {lives[-1]} credited after life {newest_seen}"
        self._seen[engine.name].append((answer.answered, lives[0]))
        return self._stale(engine, answer, run, lives)

    def _stale(
        self, engine: timeline.Engine, answer: Answer, run: Sequence[bytes], lives: Sequence[int]
    ) -> tuple[Kind, str] | None:
        begun = [number for number, life in enumerate(engine.lives) if life.ready <= answer.asked]
        life = engine.lives[begun[-1]]
        path = path_of(engine.name)
        if life.ended < answer.asked - DEAD:
            rest = self.parts.quiet_since(("nats", "server"), answer.asked, answer.answered)
            touched = [one for one in self.parts.all if one.part == path[3] and one.until > life.ended]
            if not touched and answer.asked > rest + DEAD:
                return "dead engine", f"killed {answer.asked - life.ended:.1f} s before"
        if not self._settled(path, answer):
            return None
        if lives[-1] < begun[-1]:
            return "earlier life", f"held by life {lives[-1]}, now it is life {begun[-1]}"
        gone = removed(life, run, answer.asked, GRACE)
        if gone is not None:
            at, since = gone
            return "removed", f"block {at} of {len(run)} was gone for {since:.2f} s"
        return None

    def _missing(self, engine: timeline.Engine, answer: Answer, credit: Credit, grace: float) -> int:
        """Tokens that are surely held, when they are more than credited; else 0."""
        life = next((one for one in reversed(engine.lives) if one.ready <= answer.asked), None)
        if life is None or life.ended <= answer.answered:
            return 0
        count = 0
        for digest in engine.path(answer.tokens):
            if not any(
                stay.added[1] <= answer.asked - grace and stay.left[0] >= answer.answered
                for stay in life.stays.get(digest, ())
            ):
                break
            count += 1
        tokens = count * engine.block_size // engine.unit * engine.unit
        return tokens if tokens > credit.matched else 0

    def late(self, answer: Answer) -> bool:
        """Not yet as it should be: what the time to heal counts."""
        for name, engine in self.engines.items():
            credit = answer.credits.get(name, Credit("absent" if answer.explained else "", 0))
            if answer.explained and credit.state not in ("partial", "complete"):
                return True
            if credit.state != "partial" and answer.explained and self._missing(engine, answer, credit, PROMPT):
                return True
            if credit.matched:
                life = next((one for one in reversed(engine.lives) if one.ready <= answer.asked), None)
                run = engine.path(answer.tokens)[: credit.matched // engine.block_size]
                if life is None or not held_ever(life, run, answer.answered):
                    return True
                if removed(life, run, answer.asked, PROMPT) is not None:
                    return True
        return False


def held_ever(life: timeline.Life, run: Sequence[bytes], until: float) -> bool:
    """Whether each block may have entered this life's cache by then."""
    return all(digest in life.stays and life.stays[digest][0].added[0] <= until for digest in run)


def any_life(engine: timeline.Engine, run: Sequence[bytes], until: float) -> bool:
    return all(any(held_ever(life, (digest,), until) for life in engine.lives) for digest in run)


def removed(life: timeline.Life, run: Sequence[bytes], asked: float, grace: float) -> tuple[int, float] | None:
    """The first block of the run that had surely left `grace` before the question: its place, and for how long."""
    for at, digest in enumerate(run):
        last = max((stay.left[1] for stay in life.stays.get(digest, ())), default=-inf)
        if last + grace < asked:
            return at, asked - last
    return None
