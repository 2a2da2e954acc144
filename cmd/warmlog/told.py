"""What the control log tells already: of replicas, of the two logs' positions, of the index. A fold, without I/O.

Any number of servers read the same streams and would tell the same things. None of them is elected; each folds what all
have told and asks here, before it appends, whether there is anything left to say. The answer is right for what was
folded; that nothing was appended since is what the expected sequence of the append says (chronicle.py).

    an edge of                     is told when the log has
    an earlier message             anything of a later message about that replica
    the same message               that edge of it
    time: silent, gone             that one as the newest state of the session: servers notice it moments apart
    a state: complete, partial     the same; a server that began in the middle of a session would tell it anew
    a first block                  one of that session
    statistics                     the same figures, or any within half of the time between two

A moment, or a summary, is told when another came within half an interval, or when it would say nothing new.

Rules: design.md section 2, table of types; section 3, last line. Times are seconds of any clock that only goes forward;
None stands for "long ago".
"""

import msgspec

from eventstore import events
from handlers.prefixindex import replicas

_STATISTICS_APART = replicas.STATISTICS_EVERY / replicas.SECOND / 2


class Replica(msgspec.Struct):
    """What the log tells of one replica."""

    incarnation: str = ""
    sequence: int = 0  # of WARMLOG_KV: the message that showed the newest edge
    edges: set[str] = set()  # of that message
    session: str = ""
    state: str = ""  # the newest edge, less those that are no state
    begun: bool = False  # a first block was told in that session
    statistics: dict[str, float] = {}
    statistics_at: float | None = None


def fold(told: Replica, data: events.ReplicaObserved, heard_at: float | None) -> None:
    if (told.incarnation, told.sequence) != (data.kv_incarnation, data.kv_sequence):
        told.incarnation, told.sequence, told.edges = data.kv_incarnation, data.kv_sequence, set()
    told.edges.add(data.edge)
    if told.session != data.session:
        told.session, told.state, told.begun = data.session, "", False
        told.statistics, told.statistics_at = {}, None
    match data.edge:
        case "first-event":
            told.begun = True
        case "statistics":
            told.statistics, told.statistics_at = data.statistics, heard_at
        case state:
            told.state = state


def is_past(told: Replica, data: events.ReplicaObserved) -> bool:
    """Whether the log is past the message that showed this edge. Once true, true for good."""
    return told.incarnation == data.kv_incarnation and (
        data.kv_sequence < told.sequence or (data.kv_sequence == told.sequence and data.edge in told.edges)
    )


def knows(told: Replica, data: events.ReplicaObserved, now: float) -> bool:
    """Whether telling this edge now, as the newest of its replica, would tell it twice."""
    if is_past(told, data):
        return True
    if told.session != data.session:
        return False
    match data.edge:
        case "first-event":
            return told.begun
        case "complete" | "partial" | "silent" | "gone":
            return told.state == data.edge
        case "statistics":
            return told.statistics == data.statistics or _recent(told.statistics_at, now, _STATISTICS_APART)
        case _:
            return False


class Newest(msgspec.Struct):
    """The newest event of a subject that says something at intervals."""

    data: events.Moment | events.IndexSummarised | None = None
    heard_at: float | None = None

    def is_recent(self, now: float, interval: float) -> bool:
        return _recent(self.heard_at, now, interval / 2)


def nothing_new(newest: Newest, data: events.Moment | events.IndexSummarised) -> bool:
    """A pair of positions that lies behind the newest one, or an index that is what was told of it."""
    match newest.data, data:
        case events.Moment() as old, events.Moment():
            return old.kv_incarnation == data.kv_incarnation and data.kv_sequence <= old.kv_sequence
        case events.IndexSummarised() as old, events.IndexSummarised():
            return old.replicas == data.replicas and old.tenants == data.tenants
        case _:
            return False


def _recent(heard_at: float | None, now: float, within: float) -> bool:
    return heard_at is not None and now - heard_at < within
