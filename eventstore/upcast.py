"""Reading what older versions wrote: from the data of an old type to that of the next, by hand, step by step.

An event is never edited. When a type's data changes, the new version becomes a Struct in events.TYPES, the old name
leaves that table and gets an `Upcast` here; a chain of them ends at a name that events.TYPES knows. An upcast is a pure
function of the old data as a plain dict. It adds what was not known then as absent, never as a guess.

Not here: decoding (events.decode). What cannot be lifted is told as a reason, never raised into a fold.

Rules: design.md section 2, "Shapes" and "Fold is total"; ES-04, ES-06.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

Data = dict[str, Any]


class Upcast(NamedTuple):
    """One step: the name of the next version and the change of the data."""

    to: str
    change: Callable[[Data], Data]


#: By the old version's full name.
UPCASTS: dict[str, Upcast] = {
    # v2 says how many keys each tenant has: of v1 that is not known.
    "io.warmlog.index.summarised.v1": Upcast("io.warmlog.index.summarised.v2", dict),
}


class UpcastError(ValueError):
    """A chain that leads nowhere, or a step that failed; the message names the step."""


def lift(name: str, data: Data, *, current: Container[str], upcasts: Mapping[str, Upcast]) -> tuple[str, Data]:
    """The current name and data for an old one. Raises UpcastError."""
    seen = {name}
    while name not in current:
        step = upcasts.get(name)
        if step is None:
            raise UpcastError(f"no upcast leads on from {name}")
        try:
            data = step.change(data)
        except Exception as error:
            raise UpcastError(f"the upcast of {name} failed: {type(error).__name__}: {error}") from error
        name = step.to
        if name in seen:
            raise UpcastError(f"the upcasts of {name} go in a circle")
        seen.add(name)
    return name, data
