"""Live frames and replayed frames of one rank, merged into one sequence of facts. No sockets, no clock.

The caller feeds what arrives and does what is asked: while `ask` is a number, it puts that question to the replay
socket, feeds every reply to `replied` until `enough`, and then says `answered`. Live frames wait meanwhile.

    question from       when                                     afterwards
    0                   first contact; another life was seen     complete, if the answer begins at 0
    the last applied    the connection came back; a journal      same payload: same life, else asked from 0
    the next one        live numbers skipped some                bridged, or a gap

A question is asked again only when that leads further: replay has a hole (its socket overflowed), its end marker was
lost, or it showed that the engine is in another life.

Not here: what a single number means (cursor.py). One line is logged for everything that costs completeness.
Rules: TR-03 to TR-06; docs/design/0001-kv-wire.md.
"""

from collections.abc import Iterator

import msgspec
import structlog

from subscribers.kvevents import cursor, facts, sockets

log = structlog.get_logger()


class Counters(msgspec.Struct):
    """Lifetime counts."""

    batches: int = 0  # handed over, replayed ones included
    replayed: int = 0
    repeated: int = 0  # live frames that replay had already supplied
    questions: int = 0
    unanswered: int = 0
    gaps: int = 0
    lives: int = 0


class Sequencer:
    """Exactly-once order for one rank. `payload_limit` (bytes) is only named in messages here."""

    def __init__(
        self, resume: facts.Position | None, *, replays: bool, payload_limit: int, context: dict[str, object]
    ) -> None:
        self.counters = Counters()
        self.ask: int | None = None
        self.enough = False
        self._replays = replays
        self._limit = payload_limit
        self._cursor = cursor.resumed(resume)
        self._log = log.bind(**context)
        self._waiting: sockets.Frame | None = None  # the live frame that raised the question
        self._ahead: dict[int, int] = {}  # number -> digest of what was replayed and may still come live
        self._bridge: facts.Bridged | None = None
        self._unbroken = True
        self._again: int | None = None
        self._replies = 0
        self._applied_before = cursor.NOTHING
        self._unanswered = ""
        self._met = False  # the consumer was told of a life

    @property
    def position(self) -> facts.Position | None:
        """The last batch handed over."""
        return self._cursor.position

    def connected(self) -> Iterator[facts.Fact]:
        """The connection stands (again): find out whose it is before a live batch forces the question."""
        self._cursor = cursor.reconnected(self._cursor)
        start = cursor.question(self._cursor)
        if start is not None:
            yield from self._open(start, None)

    def gone(self) -> None:
        """The engine's process ended: whatever comes next is another life."""
        self._cursor = cursor.restarted("the engine was gone")

    def live(self, frame: sockets.Frame) -> Iterator[facts.Fact]:
        """A live frame; never while a question is open."""
        decision = self._decide(frame)
        if isinstance(decision, cursor.Ask):
            yield from self._open(decision.start, frame)
        else:
            yield from self._settle(decision, frame)

    def replied(self, frame: sockets.Frame) -> Iterator[facts.Fact]:
        """One reply to the open question."""
        decision = cursor.decide_replayed(self._cursor, frame.seq, frame.digest, first=self._replies == 0)
        self._replies += 1
        match decision:
            case cursor.Restart():
                self._start_over(decision.reason)
            case cursor.Hole():
                self._again = self._cursor.applied + 1
                self.enough = True
            case cursor.Confirm():
                self._cursor = cursor.confirmed(self._cursor)
                if not self._met:  # otherwise only the connection was new, and nothing has changed
                    yield self._told(facts.Attached(frame.seq + 1, False, continued=True))
            case cursor.Apply():
                self._ahead[frame.seq] = frame.digest
                for fact in self._hand_over(decision.fact, frame, live=False):
                    if isinstance(fact, facts.Batch):
                        self._bridge = facts.Bridged(self._bridge.first if self._bridge else fact.seq, fact.seq)
                    else:
                        self._unbroken = False
                    yield fact
            case cursor.Skip():
                pass

    def answered(self, failure: str = "") -> Iterator[facts.Fact]:
        """The answer is over: read to its end, or `enough` of it, or failed with one line."""
        if failure:
            self.counters.unanswered += 1
            self._unanswered = failure
            self._log.warning("kv_replay_failed", start=self.ask, error=failure)
            if self._cursor.standing == "sure" and self._cursor.applied > self._applied_before:
                self._again = self._cursor.applied + 1  # the end marker may have been what was lost
        elif self._replies == 0:
            yield from self._empty()
        if self._again is not None:
            self._put(self._again)
        else:
            self.ask = None
            yield from self._close()

    def _open(self, start: int, waiting: sockets.Frame | None) -> Iterator[facts.Fact]:
        self._waiting = waiting
        self._ahead = dict(self._cursor.replayed)
        self._bridge, self._unbroken = None, True
        if self._replays:
            self._put(start)
        else:
            self._unanswered = "there is no replay endpoint"
            yield from self._close()

    def _put(self, start: int) -> None:
        """One request to the replay socket."""
        self.ask, self.enough, self._again = start, False, None
        self._replies, self._applied_before = 0, self._cursor.applied
        self.counters.questions += 1

    def _start_over(self, reason: str) -> None:
        """Another life answered: ask for its beginning."""
        self._cursor = cursor.restarted(reason)
        self._ahead.clear()
        self._again = 0
        self.enough = True

    def _empty(self) -> Iterator[facts.Fact]:
        """An answer without a batch. While a live batch waits it cannot mean that the engine has published nothing."""
        self._unanswered = f"the replay socket holds nothing from batch {self.ask} on"
        if self._waiting is not None and self._cursor.standing != "doubtful":
            return
        meaning = cursor.decide_empty(self._cursor)
        if isinstance(meaning, cursor.Restart):
            self._start_over(meaning.reason)
        elif meaning is not None:
            self._cursor = cursor.emptied()
            yield self._told(meaning)

    def _close(self) -> Iterator[facts.Fact]:
        """No more questions: the batch that waited is applied, after what its hole has cost."""
        self._cursor = msgspec.structs.replace(self._cursor, replayed=self._ahead)
        if self._bridge is not None and self._unbroken:
            yield self._told(self._bridge)
        frame, self._waiting = self._waiting, None
        if frame is not None:
            decision = self._decide(frame)
            if isinstance(decision, cursor.Ask):
                decision = cursor.decide_unanswered(self._cursor, frame.seq, self._unanswered)
            yield from self._settle(decision, frame)
        elif self._cursor.standing == "doubtful":
            # Nothing will prove it later either, and what an earlier life held must stop counting now.
            self._cursor = cursor.restarted(f"the engine cannot be proved to be the same; {self._unanswered}")
            yield self._told(facts.NewLife(facts.UNKNOWN, False, self._cursor.ended))

    def _decide(self, frame: sockets.Frame) -> cursor.Apply | cursor.Skip | cursor.Ask:
        """What a live frame means, in another life when it shows that there is one."""
        decision = cursor.decide(self._cursor, frame.seq, frame.digest)
        if isinstance(decision, cursor.Restart):
            self._cursor = cursor.restarted(decision.reason)
            decision = cursor.decide(self._cursor, frame.seq, frame.digest)
            assert not isinstance(decision, cursor.Restart)  # a life that has not begun cannot be over
        return decision

    def _settle(self, decision: cursor.Apply | cursor.Skip, frame: sockets.Frame) -> Iterator[facts.Fact]:
        if isinstance(decision, cursor.Skip):
            self.counters.repeated += 1
            self._cursor = cursor.skipped(self._cursor, frame.seq)
        else:
            yield from self._hand_over(decision.fact, frame, live=True)

    def _hand_over(self, before: facts.Fact | None, frame: sockets.Frame, *, live: bool) -> Iterator[facts.Fact]:
        """The batch, after what has to be said first. The position moves before the consumer sees it."""
        if before is not None:
            yield self._told(before)
        self._cursor = cursor.applied(self._cursor, frame.seq, frame.digest, live=live)
        if frame.payload is None:
            reason = f"a batch of {frame.size} bytes is beyond the limit of {self._limit}"
            yield self._told(facts.Gap(frame.seq, frame.seq, reason))
            return
        self.counters.batches += 1
        self.counters.replayed += not live
        yield facts.Batch(frame.seq, frame.payload, frame.digest, not live)

    def _told(self, fact: facts.Fact) -> facts.Fact:
        """Count it, and log what an operator would want to know. Returns the fact."""
        self._met |= isinstance(fact, facts.Attached | facts.NewLife)
        match fact:
            case facts.NewLife():
                self.counters.lives += 1
                self._log.warning("kv_engine_new_life", complete=fact.complete, reason=fact.reason)
            case facts.Attached(continued=True):
                self._log.info("kv_source_continued", batch=fact.seq)
            case facts.Attached():
                self.counters.lives += 1
                say = self._log.info if fact.complete else self._log.warning
                say("kv_source_attached", batch=fact.seq, complete=fact.complete, reason=fact.reason)
            case facts.Gap():
                self.counters.gaps += 1
                self._log.warning("kv_gap", first=fact.first, last=fact.last, reason=fact.reason)
            case facts.Bridged():
                self._log.info("kv_gap_bridged", first=fact.first, last=fact.last)
            case _:
                pass
        return fact
