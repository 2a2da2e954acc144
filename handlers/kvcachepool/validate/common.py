"""Checks that several kinds share.

Rules: spec/worker-gpustack.md section 1.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from crds.cachebackend import EnvVar
from handlers import quantity
from handlers.admission.decision import Violation

Found = Iterator[Violation]
MOST: Final = 2**63 - 1
LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def size(value: str | int | None, at: str, *, required: bool = True) -> Found:
    """A quantity of bytes that is more than nothing and fits an int64."""
    if value is None:
        if required:
            yield Violation("Required", at, "must be set")
        return
    try:
        found = quantity.parse(value)
    except quantity.QuantityError as error:
        yield Violation("Invalid", at, str(error), str(value))
        return
    if not 0 < found <= MOST:
        yield Violation("Invalid", at, f"must be greater than 0 and at most {MOST}", str(value))


def frozen(old: Any, new: Any, at: str) -> Found:
    if old != new:
        yield Violation("Forbidden", at, "cannot be changed: create another object instead")


def arguments(given: Sequence[str] | None, at: str, forbidden: Callable[[str], bool]) -> Found:
    """Each item one flag with one dash or two, each flag once, none that is derived."""
    seen: set[str] = set()
    for number, word in enumerate(given or ()):
        here, key = f"{at}[{number}]", flag(word)
        if not word.startswith("-") or not key:
            yield Violation("Invalid", here, "must be one flag: -flag or -flag=value", word)
        elif any(character.isspace() for character in word):
            yield Violation("Invalid", here, "must be one flag without spaces: -flag=value", word)
        elif key in seen:
            yield Violation("Duplicate", here, f"-{key} stands here twice", word)
        elif forbidden(key):
            yield Violation("Forbidden", here, f"-{key} is set from the other fields: remove it", word)
        seen.add(key)


def flag(word: str) -> str:
    """The key as the store's flags library reads it: dashes in front do not count, `-` is `_`."""
    return word.lstrip("-").partition("=")[0].strip().replace("-", "_")


def environment(given: Sequence[EnvVar] | None, at: str, derived: frozenset[str]) -> Found:
    for number, one in enumerate(given or ()):
        here = f"{at}[{number}].name"
        if not one.name or "=" in one.name:
            yield Violation("Invalid", here, "must be the name of a variable", one.name)
        elif one.name in derived:
            yield Violation("Forbidden", here, f"{one.name} is set from the other fields: remove it", one.name)
