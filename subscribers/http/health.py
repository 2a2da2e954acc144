"""What /readyz says: ready or not, and why, in words that an operator can act on.

    not caught up            503: the index is still being read; a lookup would be answered from a half-filled one
    replicas incomplete      503 until the server was ready once; afterwards said, because a replica that lost the
                             thread counts for nothing until its keyframe, and the others answer as before
    draining                 503: this server is about to stop
    policies not listed      said, never a reason: defaults are in use
    the log does not answer  said, never a reason: the index that is there still gives good hints

/healthz is 200 "ok" as long as the loop turns: it has no facts. Pure; the role gathers the facts.

Rules: design.md section 3 ("/readyz says how many are not"), section 5; spec/inferencecache.md section 1.1.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from subscribers.http import replies

#: Incomplete replicas that are named; the count is always exact.
NAMED: Final = 10


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What readiness depends on, at the moment of asking."""

    caught_up: bool
    behind: int = 0  # messages of WARMLOG_KV that are stored and not yet read; 0 when unknown
    incomplete: Sequence[str] = ()  # <tenant>/<replica>, without a keyframe that agreed
    was_ready: bool = False  # this process has answered 200 before
    policies_listed: bool = False
    log_answers: bool = True
    draining: bool = False


class Incomplete(msgspec.Struct, frozen=True):
    count: int
    named: list[str]


class Readiness(msgspec.Struct, frozen=True, rename="camel"):
    """The body of /readyz. `reasons` are why it is not ready, `notes` what else is worth knowing."""

    ready: bool
    reasons: list[str]
    notes: list[str]
    replicas_incomplete: Incomplete


def judge(facts: Facts) -> Readiness:
    reasons: list[str] = []
    notes: list[str] = []
    if facts.draining:
        reasons.append("this server is draining")
    if not facts.caught_up:
        distance = f", {facts.behind} messages behind" if facts.behind else ""
        reasons.append(f"not caught up with WARMLOG_KV{distance}")
    count = len(facts.incomplete)
    if count:
        line = f"{count} replicas have no complete keyframe yet and count for nothing"
        (notes if facts.was_ready else reasons).append(line)
    if not facts.policies_listed:
        notes.append("no policies were listed yet: defaults are in use")
    if not facts.log_answers:
        notes.append("the log does not answer: hints come from what was read before")
    return Readiness(not reasons, reasons, notes, Incomplete(count, list(facts.incomplete[:NAMED])))


def reply(readiness: Readiness) -> replies.Reply:
    return replies.json(200 if readiness.ready else 503, readiness)
