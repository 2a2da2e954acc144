"""Conditions of a status: what changes, and when it changed.

`lastTransitionTime` is the moment at which `status` changed last, `observedGeneration` that of the object judged. A
message may quote what somebody else wrote: it stands as the log will tell it, so that what was written is what is seen.

Rules: metav1.Condition; k8s.io/apimachinery meta.SetStatusCondition.
"""

from collections.abc import Mapping
from typing import NamedTuple

from handlers import moments, tokens
from handlers.outcome import Object


class Shown(NamedTuple):
    """`status` is True, False or Unknown as text."""

    status: str
    reason: str
    message: str = ""


def merged(prior: list[Object], wanted: Mapping[str, Shown], *, now: int, generation: int) -> list[Object]:
    """The new list, by type: exactly the wanted ones, each with the time of its last transition."""
    before = {one.get("type"): one for one in prior}
    found = []
    for kind in sorted(wanted):
        one, old = wanted[kind], before.get(kind, {})
        kept = old.get("status") == one.status and old.get("lastTransitionTime")
        found.append(
            {
                "type": kind,
                "status": one.status,
                "observedGeneration": generation,
                "lastTransitionTime": kept or moments.text(now),
                "reason": one.reason,
                "message": tokens.settled(one.message),
            }
        )
    return found


def reason_of(prior: list[Object], kind: str) -> str:
    return next((str(one.get("reason", "")) for one in prior if one.get("type") == kind), "")


def time_of(conditions: list[Object], kind: str) -> str:
    return next((str(one.get("lastTransitionTime", "")) for one in conditions if one.get("type") == kind), "")
