"""A subscriber's side of WARMLOG_KV for tests: a table, numbered messages about it, and what the table was at each n.

It speaks exactly as docs/design/0001-kv-wire.md says and decides nothing by itself: a test says what changes, what is
sent and what is lost on the way.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from eventstore import kvwire, subjects
from handlers.prefixindex import index, outcomes

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

Table = dict[tuple[str, int], int]  # (adapter, key) -> tiers


class Speaker:
    """One session of one replica. Every method returns the bytes of one message."""

    def __init__(
        self,
        replica: str,
        session: str = "s1",
        *,
        tenant: str = "t",
        model: str = "m",
        scheme: str = "vllm",
        uid: str = "uid-1",
        size: int = 16,
    ) -> None:
        self.replica, self.session, self.tenant = replica, session, tenant
        self.model, self.scheme, self.uid, self.size = model, scheme, uid, size
        self.subject = subjects.kv_subject(tenant, model, replica)
        self.table: Table = {}
        self.n = -1
        self.frame = -1
        self.rank = 0
        self.truth: dict[int, Table] = {}  # n -> the table once that message was said
        self.coverage: kvwire.Coverage = "complete"

    def _say(self, kind: type[Any], *facts: Any) -> bytes:
        self.n += 1
        self.truth[self.n] = dict(self.table)
        return kvwire.encode(kind(kvwire.VERSION, self.uid, self.session, self.n, *facts))

    def begin(self, reason: str = "start", **settings: str) -> bytes:
        self.frame += 1
        return self._say(kvwire.Begin, self.frame, self.rank, self.model, self.scheme, self.coverage, reason, settings)

    def ops(self, changes: Mapping[tuple[str, int], int] | Mapping[int, int]) -> bytes:
        """Keys, or (adapter, key), with the tiers they are held in now; 0 removes."""
        states = {key if isinstance(key, tuple) else ("", key): tiers for key, tiers in changes.items()}
        for key, tiers in states.items():
            if tiers:
                self.table[key] = tiers
            else:
                self.table.pop(key, None)
        return self._say(kvwire.Ops, groups(states, self.size))

    def chunk(self, keys: Iterable[tuple[str, int]] | None = None) -> bytes:
        """Some, or all, of the table."""
        wanted = self.table if keys is None else {key: self.table[key] for key in keys if key in self.table}
        return self._say(kvwire.Chunk, self.frame, groups(wanted, self.size))

    def end(self) -> bytes:
        return self._say(kvwire.End, self.frame, self.coverage, *self.digest())

    def beat(self, stats: kvwire.Stats | None = None) -> bytes:
        return self._say(kvwire.Beat, self.coverage, *self.digest(), stats)

    def bye(self, reason: kvwire.FarewellReason = "stopped") -> bytes:
        return self._say(kvwire.Bye, reason)

    def keyframe(self, reason: str = "start") -> list[bytes]:
        """A whole keyframe of the table as it is."""
        return [self.begin(reason), self.chunk(), self.end()]

    def digest(self) -> tuple[int, int]:
        return len(self.table), sum(key for _, key in self.table) & kvwire.MASK64

    def holds(self, keys: Iterable[int], tiers: int = kvwire.T1, adapter: str = "") -> "Speaker":
        """Put keys into the table without saying so: the next keyframe will."""
        self.table |= {(adapter, key): tiers for key in keys}
        return self


def groups(states: Mapping[tuple[str, int], int], size: int) -> list[kvwire.Group]:
    """Columns of states, one group per adapter."""
    adapters = sorted({adapter for adapter, _ in states})
    return [
        kvwire.Group(
            adapter,
            size,
            kvwire.pack_keys(key for where, key in states if where == adapter),
            bytes(tiers for (where, _), tiers in states.items() if where == adapter),
        )
        for adapter in adapters
    ]


class Stream:
    """A stream in memory and the index that folds it: sequences count up, time moves when told."""

    def __init__(self, known: index.Index | None = None) -> None:
        self.index = known if known is not None else index.Index()
        self.sequence = 0
        self.now = START
        self.stored: list[tuple[int, int, str, bytes]] = []

    def put(self, speaker: Speaker, *payloads: bytes, subject: str | None = None) -> list[outcomes.Outcome]:
        found: list[outcomes.Outcome] = []
        for payload in payloads:
            self.sequence += 1
            stored = (self.sequence, self.now, subject or speaker.subject, payload)
            self.stored.append(stored)
            found += self.index.apply(*stored)
        return found

    def start(self, speaker: Speaker, reason: str = "start") -> list[outcomes.Outcome]:
        """A speaker's first keyframe, of what its table holds."""
        speaker.rank = speaker.rank or 0
        first = self.sequence + 1
        found = self.put(speaker, *speaker.keyframe(reason))
        speaker.rank = speaker.rank or first
        return found

    def wait(self, seconds: float) -> list[outcomes.Outcome]:
        self.now += int(seconds * SECOND)
        return list(self.index.tick(self.now))

    def upkeep(self) -> None:
        """All sweeping, compacting and capping that is due."""
        while self.index.upkeep():
            pass

    def contents(self, speaker: Speaker) -> Table | None:
        """What the index holds for a replica, read off its masks; None while it does not count."""
        replica = self.index.fleet.get((speaker.tenant, speaker.replica))
        if replica is None or replica.live is None:
            return None
        found: Table = {}
        for adapter, holding in replica.live.holdings.items():
            for key, mask in holding.domain.held.items():
                if mask & holding.bit:
                    found[adapter, key] = holding.domain.coldest((key,), holding.bit)
        return found


def warmest(table: Table) -> Table:
    """A table as the index keeps it: the warmest tier of each key."""
    return {key: tiers & -tiers for key, tiers in table.items()}
