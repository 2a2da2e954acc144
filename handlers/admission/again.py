"""A recorded decision, decided again: the question, the reading of the world that it had, and the options.

Pure: the world at the decision's position and the event are all that is needed. The same logic version gives the same
template of a patch; another version may not, and says which it is.

Rules: design.md section 2 ("admission.decided"), section 7 (tests/replay).
"""

from typing import Final

from eventstore import events
from handlers.admission.decision import Decision, Question
from handlers.outcome import Key
from handlers.system import Admitter
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, World

_WHOLE: Final = "*"


def question(decided: events.AdmissionDecided) -> Question:
    return Question(
        uid=decided.review,
        operation=decided.operation,  # type: ignore[arg-type]
        kind=decided.kind,
        namespace=decided.namespace,
        name=decided.name,
        view=None if decided.operation == "DELETE" else decided.view,
        old=decided.old or None,
    )


def reader(decided: events.AdmissionDecided, world: World) -> Reader:
    """Over the world at the decision's position, with what it read live instead."""
    live: dict[Key, Known] = {}
    whole: set[tuple[str, str]] = set()
    for text, found in decided.live.items():
        key = Key(*text.split("/", 2))
        if key.name == _WHOLE:
            whole.add((key.kind, key.namespace))
            continue
        value, problem = (None, "") if found.get("object") is None else kinds.decode(key.kind, found["object"])
        version, shape = str(found.get("resource_version", "")), kinds.KINDS[key.kind].shape
        live[key] = Known(str(found.get("uid", "")), version, shape, 0, 0, value, problem)
    return Reader(world, live=live, whole=frozenset(whole))


def decide(admitter: Admitter, decided: events.AdmissionDecided, world: World) -> Decision:
    """Raises what the admitter raises: Unlisted means that the world is not the one that it was decided on."""
    return admitter.decide(question(decided), reader(decided, world))


def differences(decided: events.AdmissionDecided, found: Decision) -> list[str]:
    """Names of what came out otherwise than it was recorded; empty is the same decision."""
    pairs = {
        "verdict": (decided.verdict, found.verdict),
        "check": (decided.check, found.check),
        "reason": (decided.reason, found.reason),
        "warnings": (decided.warnings, list(found.warnings)),
        "patch": (decided.patch, list(found.patch)),
    }
    return [name for name, (then, now) in pairs.items() if then != now]
