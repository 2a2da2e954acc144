"""The life of one engine replica, read off its messages: sessions, n, keyframes, digests, silence.

    complete  the last keyframe agreed and nothing was missed since
    partial   the same, but the subscriber could not bridge a restart or a gap: what was seen counts, absence is unknown
    unknown   a missing n, a digest that disagrees, or a new session before its first keyframe agreed; counts nowhere
    silent    complete or partial, but not heard for 15 s; counts less and less
    gone      the session ended or the TTL of its silence passed; its blocks are swept

One replica is a small state machine: each method takes one checked message that belongs to the current session (or, for
`begin`, one that may open a newer session) and returns what follows. A message is applied whole or not at all.
Not here: which session a message belongs to and whether its bytes are sound (index.py).

A keyframe that is asked for, or that comes at its interval, leaves the old content counting until it agrees. At any
other reason the subscriber lost or cleared something, so the old content stops counting at the `begin`: what is not
credited costs a miss, what is wrongly credited is a wrong answer.

Times are nanoseconds since the epoch, of the stream.
Rules: design.md section 3; docs/design/0001-kv-wire.md; TR-03, IDX-03, IDX-05.
"""

from collections.abc import Iterable
from typing import Final, Literal

from eventstore import events, kvwire
from handlers.prefixindex import contents, holdings, outcomes, vitals

SECOND: Final = 1_000_000_000
SILENT_AFTER: Final = 15 * SECOND
ASK_EVERY: Final = SECOND  # an order may be lost; it is repeated, but not with every message
STATISTICS_EVERY: Final = 30 * SECOND
_PAST: Final = 16  # older sessions remembered
_SMOOTH: Final = frozenset({"asked", "interval"})  # reasons for a keyframe that do not cast doubt on the old content

State = Literal["complete", "partial", "unknown", "silent", "gone"]


class Replica:
    """One (tenant, replica).

    `live` is what counts in lookups, None while unknown or gone; `staging` is a keyframe under way.
    """

    __slots__ = (
        "_open",
        "asked_ns",
        "coverage",
        "direct",
        "ended",
        "event_ns",
        "frame",
        "frame_sequence",
        "heard_ns",
        "keyframe",
        "live",
        "model",
        "n",
        "name",
        "opening",
        "past",
        "rank",
        "reason",
        "relief",
        "scheme",
        "seen_event",
        "session",
        "settings",
        "silent",
        "staging",
        "state_since_ns",
        "stats",
        "stats_ns",
        "stats_said_ns",
        "subject",
        "tenant",
        "uid",
        "why",
    )

    def __init__(self, tenant: str, name: str, opener: contents.Open) -> None:
        self.tenant = tenant
        self.name = name
        self._open = opener
        self.subject = self.model = self.scheme = self.uid = self.session = ""
        self.settings: dict[str, str] = {}
        self.rank = 0
        self.n = -1  # of the last message
        self.live: contents.Contents | None = None
        self.staging: contents.Contents | None = None
        self.frame = -1  # of the keyframe under way
        self.frame_sequence = 0  # its begin
        self.why = ""  # the newest reason for a keyframe that casts doubt on what was before
        self.keyframe = 0  # sequence of the begin of the last keyframe that agreed
        self.coverage: kvwire.Coverage = "complete"
        self.reason = ""  # why it is in this state, one line
        self.silent = False
        self.ended = False  # by a bye: only a newer session may speak again
        self.seen_event = False  # a key was seen in this session
        self.past: dict[str, int] = {}  # older sessions -> when their zombie was told, 0 for never
        self.heard_ns = self.event_ns = self.asked_ns = self.state_since_ns = 0
        self.stats: kvwire.Stats | None = None
        self.relief = 1.0  # 1 - pressure, within 0..1
        self.stats_ns = self.stats_said_ns = 0
        # The shortcut of index.py: where changes go while nothing else is to be thought of, and how they start.
        self.direct: dict[str, holdings.Holding] | None = None
        self.opening = b""

    # What it is ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        if self.live is None:
            return "gone" if not self.session or self._gone else "unknown"
        return "silent" if self.silent else self.coverage

    @property
    def _gone(self) -> bool:
        return self.ended or self.silent  # a silent replica without content has expired

    @property
    def blocks(self) -> int:
        return self.live.blocks if self.live is not None else 0

    def edge(self, kind: events.Edge, reason: str, sequence: int) -> outcomes.Edge:
        return outcomes.Edge(
            self.tenant,
            self.name,
            self.model,
            self.scheme,
            self.uid,
            self.session,
            kind,
            reason,
            sequence,
            self.blocks,
            vitals.rounded(self.stats) if kind == "statistics" else {},
        )

    def order(self, reason: str, time_ns: int) -> outcomes.Order:
        self.asked_ns = time_ns
        return outcomes.Order(self.tenant, self.name, "keyframe", self.session, reason)

    # Messages of the current session ---------------------------------------------------------------------------------

    def hear(self, n: int, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """Take note of a message with a new n, before what it says. A missing n costs the content."""
        found: list[outcomes.Outcome] = []
        missing = n - self.n - 1
        self.n = n
        self.heard_ns = max(self.heard_ns, time_ns)
        if self.silent and self.live is not None:
            found.append(self.edge("recovered", f"heard again; {self.coverage}", sequence))
        self.silent = False
        if missing:
            found += self.lose(f"{missing} messages before n {n} are missing", sequence, time_ns)
        self._settle()
        return found

    def lose(self, reason: str, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """Become unknown: all content goes, a keyframe is asked for."""
        known = self.live is not None or self.staging is not None
        self._drop()
        if not known and time_ns - self.asked_ns < ASK_EVERY:
            return []
        self.reason = reason
        self.state_since_ns = time_ns
        found: list[outcomes.Outcome] = [self.edge("gap", reason, sequence)] if known else []
        return [*found, self.order(reason, time_ns)]

    def doubt(self, reason: str, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """What counts is wrong. A keyframe under way is not, and heals it: its own end will tell."""
        staging, self.staging = self.staging, None
        if staging is None:
            return self.lose(reason, sequence, time_ns)
        self._drop()
        self.staging = staging
        self.reason, self.state_since_ns = reason, time_ns
        self._settle()
        return [self.edge("gap", reason, sequence)]

    def retire(self, reason: str, time_ns: int) -> None:
        """What is known is of an earlier session than one that is known to have spoken: it counts no more."""
        self._drop()
        self.reason = reason
        self.state_since_ns = self.asked_ns = time_ns  # not asked: the other session is

    def begin(self, message: kvwire.Begin, subject: str, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """A keyframe starts; of a newer session, so does its life."""
        found: list[outcomes.Outcome] = []
        newer = message.session != self.session
        if newer:
            found += self._succeed(message, subject, sequence, time_ns)
        else:
            missing = message.n - self.n - 1
            self.n = message.n
            self.heard_ns = max(self.heard_ns, time_ns)
            if missing and (self.live is not None or self.staging is not None):
                reason = f"{missing} messages before n {message.n} are missing; a keyframe is under way"
                found.append(self.edge("gap", reason, sequence))
                self._drop()
            elif self.silent and self.live is not None:
                found.append(self.edge("recovered", f"heard again; {self.coverage}", sequence))
            self.silent = False
        moved = (message.model, message.scheme) != (self.model, self.scheme)
        if self.live is not None and (moved or message.reason not in _SMOOTH):
            self._drop()
        if self.live is None:
            self.reason = f"keyframe {message.frame} under way ({message.reason})"
            self.state_since_ns = time_ns
        if self.staging is not None:
            self.staging.drop()
        self.model, self.scheme = message.model, message.scheme
        self.settings = message.settings
        self.staging = contents.Contents(self, self._open)
        self.frame, self.frame_sequence = message.frame, sequence
        if message.reason not in _SMOOTH:
            self.why = message.reason
        self._settle()
        return found

    def _succeed(self, message: kvwire.Begin, subject: str, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        had = self.session
        why = f"session {message.session} took over ({message.reason})"
        if had and self.uid != message.uid:
            why += f"; Pod uid {self.uid} became {message.uid}"
        self._drop()
        if had:
            self.remember(had)
        self.past.pop(message.session, None)
        self.subject, self.uid, self.session = subject, message.uid, message.session
        self.model, self.scheme = message.model, message.scheme
        self.opening = opening(message.uid, message.session)
        self.rank = message.rank or sequence
        self.n = message.n
        self.heard_ns = time_ns
        self.ended = self.silent = self.seen_event = False
        self.stats, self.stats_ns, self.stats_said_ns, self.event_ns = None, 0, 0, 0
        self.reason = why
        return [self.edge("restart", why, sequence)] if had else []

    def changes(self, groups: list[kvwire.Group], sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """Ops: for what counts and for a keyframe under way alike."""
        if self.live is not None:
            self.live.apply(groups, sequence, change=True)
        if self.staging is not None:
            self.staging.apply(groups, sequence, change=True)
        return self._first(groups, sequence, time_ns)

    def chunk(self, message: kvwire.Chunk, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """A piece of a keyframe. One whose begin was not seen is of no use; the n has told so already."""
        if self.staging is not None and message.frame == self.frame:
            self.staging.apply(message.groups, sequence, change=False)
        return self._first(message.groups, sequence, time_ns)

    def _first(self, groups: list[kvwire.Group], sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        if not any(group.tiers for group in groups):
            return []
        self.event_ns = max(self.event_ns, time_ns)
        if self.seen_event:
            return []
        self.seen_event = True
        self._settle()
        return [self.edge("first-event", "the engine published its first blocks in this session", sequence)]

    def end(self, message: kvwire.End, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        """A keyframe is complete: when its digest is ours it becomes the content, in constant time."""
        staging = self.staging
        if staging is None or message.frame != self.frame:
            if self.live is None:
                return self.lose(f"the end of keyframe {message.frame} came without its begin", sequence, time_ns)
            return []
        if not staging.agrees(message.count, message.sum):
            reason = f"keyframe {message.frame} has {staging.blocks} blocks, the subscriber counted {message.count}"
            if staging.blocks == message.count:
                reason = f"keyframe {message.frame} sums up to other keys than the subscriber's"
            return self.lose(reason, sequence, time_ns)
        before = self.state
        if self.live is not None:
            for adapter, holding in self.live.holdings.items():
                if adapter in staging.holdings:
                    holding.domain.inherit(holding, staging.holdings[adapter])
            self.live.drop()
        self.live, self.staging = staging, None
        staging.admit()
        self.coverage = message.coverage
        self.keyframe = self.frame_sequence
        self._settle()
        if before == message.coverage:
            return []
        self.state_since_ns = time_ns
        self.reason = f"keyframe {message.frame} agreed"
        if message.coverage == "partial":
            self.reason += f", but only what came since is known ({self.why}); reset the engine's prefix cache once"
        return [self.edge(message.coverage, self.reason, sequence)]

    def beat(self, message: kvwire.Beat, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        found: list[outcomes.Outcome] = []
        if self.live is not None and not self.live.agrees(message.count, message.sum):
            reason = f"digest disagrees: {self.live.blocks} blocks here, {message.count} at the subscriber"
            if self.live.blocks == message.count:
                reason = f"digest disagrees: {message.count} blocks here and at the subscriber, but not the same ones"
            found += self.doubt(reason, sequence, time_ns)
        elif self.live is not None and message.coverage == "partial" and self.coverage == "complete":
            self.coverage = "partial"
            self.reason = "the subscriber says that it does not know all"
            self.state_since_ns = time_ns
            found.append(self.edge("partial", self.reason, sequence))
        if message.stats is not None:
            found += self._statistics(message.stats, sequence, time_ns)
        return found

    def _statistics(self, said: kvwire.Stats, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        before = vitals.rounded(self.stats)
        self.stats, self.stats_ns = vitals.sane(said), time_ns
        self.relief = min(1.0, max(0.0, 1.0 - self.stats.pressure))
        if vitals.rounded(self.stats) == before or time_ns - self.stats_said_ns < STATISTICS_EVERY:
            return []
        self.stats_said_ns = time_ns
        return [self.edge("statistics", "", sequence)]

    def bye(self, message: kvwire.Bye, sequence: int, time_ns: int) -> list[outcomes.Outcome]:
        self.ended = True
        self._drop()
        self.reason = f"the session ended: {message.reason}"
        self.state_since_ns = time_ns
        return [self.edge("gone", self.reason, sequence)]

    # Time ------------------------------------------------------------------------------------------------------------

    def pass_time(self, now_ns: int, ttl_ns: int) -> list[outcomes.Outcome]:
        """Silence after 15 s, gone after the TTL; a lost order is repeated."""
        age = now_ns - self.heard_ns
        if self._gone and self.live is None:
            return []
        if age >= max(ttl_ns, SILENT_AFTER):
            self._drop()
            self.silent = True
            self.reason = f"not heard for {age // SECOND} s"
            self.state_since_ns = now_ns
            return [self.edge("gone", self.reason, 0)]
        if age > SILENT_AFTER:
            if self.silent or self.live is None:
                return []
            self.silent = True
            self.state_since_ns = now_ns
            self._settle()
            return [self.edge("silent", f"no heartbeat for {age // SECOND} s", 0)]
        if self.live is None and self.staging is None:
            return self.ask(now_ns)
        return []

    def ask(self, now_ns: int) -> list[outcomes.Outcome]:
        """Ask for a keyframe again, if the last time was long enough ago."""
        return [self.order(self.reason, now_ns)] if now_ns - self.asked_ns >= ASK_EVERY else []

    def remember(self, session: str, *, told_ns: int = 0) -> None:
        """An older session, and when its subscriber was told that it is fenced."""
        self.past.pop(session, None)
        self.past[session] = told_ns
        while len(self.past) > _PAST:
            del self.past[next(iter(self.past))]

    # Parts -----------------------------------------------------------------------------------------------------------

    def _drop(self) -> None:
        for held in (self.live, self.staging):
            if held is not None:
                held.drop()
        self.live = self.staging = None
        self._settle()

    def _settle(self) -> None:
        plain = self.live is not None and self.staging is None and not self.silent and self.seen_event
        self.direct = self.live.holdings if plain and self.live is not None else None


def opening(uid: str, session: str) -> bytes:
    """How every Ops of a session starts in our encoding: kind, version, uid, session, all up to its n."""
    whole = kvwire.encode(kvwire.Ops(kvwire.VERSION, uid, session, 0, []))
    return whole[:-2]  # n 0 and the empty list are a byte each


def freshness(replica: Replica, now_ns: int, ttl_ns: int) -> float:
    """1 while heard within 15 s, else 1 - age/TTL; 0 excludes. A block that an engine still holds does not age."""
    age = now_ns - replica.heard_ns
    if age <= SILENT_AFTER:
        return 1.0
    return max(0.0, 1.0 - age / ttl_ns)


def counting(members: Iterable[Replica]) -> list[Replica]:
    """Those whose content counts and is not empty. Every lookup asks this of the whole fleet."""
    return [
        replica
        for replica in members
        if (live := replica.live) is not None and live.main is not None and (live.main.count or live.blocks)
    ]


def all_heard(members: Iterable[Replica], now_ns: int) -> bool:
    """Whether each of them has freshness 1."""
    return min([replica.heard_ns for replica in members], default=0) >= now_ns - SILENT_AFTER
