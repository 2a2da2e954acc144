"""A question that admission asks and the answer to it, as data.

`Question.view` is the object with everything secret replaced by tokens (see view.py): a decision never sees a raw Pod.
`Decision.patch` is a JSON Patch whose values may hold tokens; the edge puts the real values back.

Rules: design.md section 2 ("admission.decided", "Privacy").
"""

from typing import Any, Literal

import msgspec

from handlers.outcome import Object

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    uid: str  # of the AdmissionReview
    operation: Operation
    kind: str  # <plural>.<group>
    namespace: str
    name: str = ""  # "" while a generated name is not made yet
    view: Object | None  # None on DELETE
    old: Object | None = None
    dry_run: bool = False
    user: str = ""


class Violation(msgspec.Struct, frozen=True):
    """One reason to refuse. `type` is a field error type: Required, Invalid, Forbidden, NotSupported."""

    type: str
    field: str
    detail: str
    value: Any = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`check` names the check that decided; `reason` is one line for the person who reads the answer.

    `missed` are kinds in which something was looked for and is not there: where that came from the log, the API itself
    is asked once before anybody is answered.
    """

    verdict: Literal["patched", "allowed", "refused"]
    check: str
    reason: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    violations: tuple[Violation, ...] = ()
    missed: tuple[str, ...] = ()
    ours: bool = True  # False where nothing of ours is concerned after all: counted, and told nowhere


def allowed(check: str, *, reason: str = "", warnings: tuple[str, ...] = ()) -> Decision:
    return Decision(verdict="allowed", check=check, reason=reason, warnings=warnings)
