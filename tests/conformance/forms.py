"""What drivers share: refusing input that they do not know, and comparing what was observed with what is expected.

A driver is a module `drivers/<area>.py` with `run(given) -> observed`, and `compare(expect, observed) -> list[str]`
where equality key by key is not the right question.
"""

from typing import Any


class UnknownForm(AssertionError):
    """A case says something that the driver does not understand: a failure, never a skip."""


def only(given: dict[str, Any], *known: str) -> None:
    """Refuse keys that the driver would silently ignore."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UnknownForm(f"the driver does not know {unknown}; it knows {sorted(known)}")


def differences(expect: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """Every expected key must have been observed with an equal value; empty when all agree."""
    found = []
    for name, wanted in expect.items():
        if name not in observed:
            found.append(f"{name}: not observed; the driver gives {sorted(observed)}")
        elif observed[name] != wanted:
            found.append(f"{name}: expected {wanted!r}, observed {observed[name]!r}")
    return found
