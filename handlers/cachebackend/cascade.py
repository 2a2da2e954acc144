"""When the cache server behind engines was replaced, engines that still hold its old connections are rolled.

An instance is the set of Ready server Pods: `<uid>:<restarts>`, comma-joined, by Pod name. The baseline moves only on
what is certain: a Pod that is gone or restarted, or a wider set once the rollout has converged.

Rules: seed 004, status.observedServerInstance; spec/inferencecache.md section 8, "Cascade".
"""

from typing import Final, NamedTuple

LIMIT: Final = 30  # seconds between two cascades of a backend


class Judged(NamedTuple):
    """`requeue` is how many seconds to wait before looking again, None = nothing to wait for."""

    cascade: bool
    baseline: str
    requeue: int | None = None


def judge(*, prior: str, current: str, converged: bool, last_age: int | None = None) -> Judged:
    """`last_age` is how many seconds ago engines were rolled for this backend, None = never."""
    if not current:
        return Judged(False, prior)  # nobody is Ready: what was before still tells the next one apart
    if not prior:
        return Judged(False, current)
    before, now = parse(prior), parse(current)
    replaced = before is None or now is None or any(now.get(uid) != restarts for uid, restarts in before.items())
    if replaced:
        if last_age is not None and last_age < LIMIT:
            return Judged(False, prior, LIMIT - last_age)
        return Judged(True, current)
    return Judged(False, current if converged else prior)


def parse(instance: str) -> dict[str, int] | None:
    """uid -> restarts; None for a text that no version of ours wrote."""
    found = {}
    for part in instance.split(","):
        uid, colon, restarts = part.rpartition(":")
        if not colon or not uid or not (restarts.isascii() and restarts.isdigit()):
            return None
        found[uid] = int(restarts)
    return found
