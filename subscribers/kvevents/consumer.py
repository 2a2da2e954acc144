"""What one engine socket says, carried into the tables of its ranks and told by their replicas.

    fact                  then
    batch                 decoded, applied to the table of its rank, journalled
    a bad event in it     nothing else is lost; a store may be missing: partial; a removal may be: forget, partial
    clear                 one keyframe; the coverage is complete again when nothing can be left anywhere
    gap, new life, gone   forget; see facts
    asleep (metrics)      the accelerator's blocks are gone although no event says so (TR-15)

Not here: sockets (source), speaking (replica, session). Nothing that an engine sends raises.

Rules: design.md section 3; docs/design/0001-kv-wire.md; KV-13, KV-14, TR-15, TR-18.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
import structlog

from eventstore import kvwire
from subscribers.kvevents import batch, decode, endpoints, facts, notes, replica, session, table

log = structlog.get_logger()

_SAMPLES: Final = 16  # undecodable payloads kept for a person to look at
_SAMPLE_BYTES: Final = 1 << 20
_MOST_RANKS: Final = 1024  # of one socket; each costs a table, a session and a subscription


class Table(replica.Table, Protocol):
    """What a consumer needs of table.Table."""

    counters: notes.Counters

    def apply_batch(self, events: Sequence[batch.Event], now: float) -> None: ...
    def take_clear(self) -> table.Clear | None: ...
    def take_notes(self) -> list[str]: ...
    def tick(self, now: float) -> None: ...
    def clear(self, scope: Literal["gpu", "all"]) -> None: ...


class Journal(Protocol):
    """journal.Journal: keeps the table of the port's own rank across restarts. Never raises; `broken` says why not."""

    broken: str

    def applied(
        self,
        position: facts.Position,
        payload: bytes,
        *,
        now: float,
        coverage: kvwire.Coverage,
        epoch: int,
        forget: bool = False,
    ) -> None: ...

    def dropped(
        self, scope: Literal["gpu", "all", "forget"], *, coverage: kvwire.Coverage, epoch: int, restart: bool = False
    ) -> None: ...


class Restored(msgspec.Struct, frozen=True):
    """What the journal said about the table that is there already."""

    coverage: kvwire.Coverage
    epoch: int  # lives of the engine so far


class Source(Protocol):
    """What a consumer needs of source.Source."""

    where: endpoints.RankEndpoints

    def follow(self) -> AsyncGenerator[facts.Fact, None]: ...


class Counters(msgspec.Struct):
    """Lifetime counts of one consumer."""

    batches: int = 0
    events: int = 0
    undecodable: int = 0
    malformed: int = 0
    unknown_tags: int = 0
    foreign_ranks: int = 0
    forms: dict[str, int] = {}


class Rank(msgspec.Struct, frozen=True):
    """One rank: its replica and the very table that the replica tells of."""

    replica: replica.Replica
    table: Table


class Consumer:
    """`open_rank` makes the Rank of a number on its first batch; ranks are learned (TR-18)."""

    def __init__(
        self,
        source: Source,
        own: Rank,
        *,
        open_rank: Callable[[int], Rank],
        replay: bool,
        journal: Journal | None = None,
        restored: Restored | None = None,
        quarantine: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.source = source
        self.counters = Counters()
        self.ranks = {source.where.rank: own}
        self._own = own
        self._open_rank = open_rank
        self._replay = replay
        self._journal = journal
        self._restored = restored
        self._epoch = restored.epoch if restored else 0
        self._quarantine = quarantine
        self._clock = clock
        self._begun = False
        self._unplaced = False  # a new life was told before any batch of it came
        self._whole = False  # everything that the engine said in this life was heard by this process
        self._broken = ""

    async def run(self) -> None:
        async with contextlib.aclosing(self.source.follow()) as stream:
            async for fact in stream:
                self.take(fact)
                for rank in tuple(self.ranks.values()):
                    if rank.table.pending >= session.CROWDED:
                        await rank.replica.room()

    def take(self, fact: facts.Fact) -> None:
        match fact:
            case facts.Batch():
                self._batch(fact)
            case facts.Connected() if not self._replay and not self._begun:
                # Without a replay socket nothing tells what an engine holds that is idle: partial until it speaks.
                self._begin("partial", "the engine has not spoken yet")
            case facts.Attached():
                self._attached(fact)
            case facts.NewLife() if self._unplaced:
                # The life that nothing could prove is now known from its first batch on: the same session goes on.
                self._unplaced = False
                self._whole = fact.complete
                for rank in self.ranks.values():
                    rank.replica.became(_coverage(fact.complete))
            case facts.NewLife():
                self._begun = True
                self._epoch += 1
                self._unplaced = fact.seq == facts.UNKNOWN
                self._whole = fact.complete
                self._dropped("forget", _coverage(fact.complete), restart=True)
                for rank in self.ranks.values():
                    rank.replica.new_life(_coverage(fact.complete), fact.reason)
            case facts.Gap():
                self._whole = False
                self._dropped("forget", "partial")
                for rank in self.ranks.values():
                    rank.replica.forget(fact.reason)
            case facts.Gone():
                self._begun = self._unplaced = False
                self._epoch += 1
                self._dropped("forget", "partial", restart=True)
                for rank in self.ranks.values():
                    rank.replica.gone()
            case _:
                return

    def _attached(self, fact: facts.Attached) -> None:
        coverage = _coverage(fact.complete)
        self._whole = fact.complete and not fact.continued
        if fact.continued:
            coverage = self._restored.coverage if self._restored else coverage
        if self._begun:
            self._own.replica.became(coverage)
        else:
            self._begin(coverage, "continued" if fact.continued else fact.reason or "start")

    def _begin(self, coverage: kvwire.Coverage, reason: str) -> None:
        self._begun = True
        for rank in self.ranks.values():
            rank.replica.begin(coverage, reason)

    def _batch(self, fact: facts.Batch) -> None:
        read = decode.decode(fact.payload)
        self.counters.batches += 1
        self.counters.events += len(read.events)
        self.counters.forms[read.form] = self.counters.forms.get(read.form, 0) + 1
        rank, now = self._rank(read.rank), self._clock()
        if rank is None:
            return
        rank.table.apply_batch(read.events, now)
        self._cleared(rank)
        if read.problems:
            self._problems(rank, fact, read)
        for note in rank.table.take_notes():
            log.warning("the engine said something that cannot be indexed", replica=_name(rank), note=note)
        if self._journal is not None:
            own = rank is self._own
            self._journal.applied(
                facts.Position(fact.seq, fact.digest),
                fact.payload if own else b"",
                now=now,
                coverage=self._own.replica.coverage,
                epoch=self._epoch,
                forget=own and read.loss == batch.Loss.REMOVAL,
            )
            self._tell_broken()
        rank.replica.changed()

    def _dropped(
        self, scope: Literal["gpu", "all", "forget"], coverage: kvwire.Coverage, *, restart: bool = False
    ) -> None:
        if self._journal is not None:
            self._journal.dropped(scope, coverage=coverage, epoch=self._epoch, restart=restart)
            self._tell_broken()

    def _tell_broken(self) -> None:
        if self._journal is not None and self._journal.broken != self._broken:
            self._broken = self._journal.broken
            if self._broken:
                log.warning("the journal stopped: a restart will leave the replica partial", reason=self._broken)
            else:
                log.info("the journal is written again")

    def _rank(self, number: int | None) -> Rank | None:
        """The rank that speaks, opened when it is new; None for one too many."""
        if number is None or number in self.ranks:
            return self.ranks[self.source.where.rank if number is None else number]
        self.counters.foreign_ranks += 1
        if len(self.ranks) >= _MOST_RANKS:
            if self.counters.foreign_ranks.bit_count() == 1:
                log.warning("too many ranks speak on this socket, the rest is left out", rank=number, most=_MOST_RANKS)
            return None
        log.info("another rank speaks on this socket", endpoint=self.source.where.events, rank=number)
        rank = self.ranks[number] = self._open_rank(number)
        # What it said before this process began, or in a gap, is not known; a journal keeps the port's own rank only.
        rank.replica.begin(_coverage(self._whole), "start")
        return rank

    def _cleared(self, rank: Rank) -> None:
        cleared = rank.table.take_clear()
        if cleared is not None:
            rank.replica.cleared("complete" if cleared.everything else rank.replica.coverage)

    def _problems(self, rank: Rank, fact: facts.Batch, read: batch.Batch) -> None:
        for problem in read.problems:
            match problem.kind:
                case "undecodable":
                    self.counters.undecodable += 1
                case "unknown-tag":
                    self.counters.unknown_tags += 1
                case _:
                    self.counters.malformed += 1
            log.warning(
                "an engine's event cannot be read",
                replica=_name(rank),
                batch=fact.seq,
                kind=problem.kind,
                loss=problem.loss.name.lower(),
                reason=problem.reason,
            )
        if read.loss >= batch.Loss.STORE:
            self._whole = False
            self._keep(fact)
        if read.loss == batch.Loss.REMOVAL:
            # Whose batch it was is not known either when all of it is undecodable.
            whole = any(problem.kind == "undecodable" for problem in read.problems)
            for concerned in self.ranks.values() if whole else (rank,):
                concerned.replica.forget(f"batch {fact.seq} may have told of removals: {read.problems[0].reason}")
        elif read.loss == batch.Loss.STORE:
            rank.replica.became("partial")

    def _keep(self, fact: facts.Batch) -> None:
        """A bounded sample for people, in the Pod: token ids never leave it."""
        if self._quarantine is None or len(fact.payload) > _SAMPLE_BYTES:
            return
        try:
            self._quarantine.mkdir(parents=True, exist_ok=True)
            if len(list(self._quarantine.iterdir())) < _SAMPLES:
                (self._quarantine / f"batch-{fact.seq}-{fact.digest:016x}.msgpack").write_bytes(fact.payload)
        except OSError as error:
            log.warning("a bad batch could not be kept", reason=str(error))

    # What is not said on the socket ----------------------------------------------------------------------------------

    def asleep(self) -> None:
        """The engine's metrics say that it sleeps: its accelerator holds nothing any more."""
        for rank in self.ranks.values():
            if rank.table.count:
                log.info("the engine sleeps, what it held on its accelerator is forgotten", replica=_name(rank))
                rank.table.clear("gpu")
                rank.replica.cleared(rank.replica.coverage)
                if rank is self._own:
                    self._dropped("gpu", rank.replica.coverage)

    def tick(self, now: float) -> None:
        """Let assumptions expire; `now` is in the seconds of the consumer's clock."""
        for rank in self.ranks.values():
            rank.table.tick(now)
            if rank.table.pending:
                rank.replica.changed()


def _coverage(complete: bool) -> kvwire.Coverage:
    return "complete" if complete else "partial"


def _name(rank: Rank) -> str:
    return rank.replica.identity.replica
