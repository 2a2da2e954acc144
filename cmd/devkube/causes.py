"""Violations in upstream's words: what `field.Error` of apimachinery prints for each error type.

A path of "" is the root, which upstream prints as `<nil>`. `OMIT` leaves the value out, as rules on objects do.
"""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from devkube.errors import Cause

OMIT: Final = object()
ROOT: Final = "<nil>"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
# Errors that leave a value in a shape in which rules cannot be evaluated (hasBlockingErr in apiextensions' strategy).
BLOCKING: Final = frozenset(
    f"FieldValue{kind}" for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def number(value: float) -> str:
    """A number as Go's %v prints it: the shortest text that reads back, exponents from 1e+21."""
    return str(int(value)) if value == int(value) and abs(value) < 1e21 else repr(value)


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _told(reason: str, words: str, field: str, detail: str = "") -> Cause:
    return Cause(f"FieldValue{reason}", f"{words}: {detail}" if detail else words, field or ROOT)


def _valued(reason: str, words: str, field: str, value: Any, detail: str = "") -> Cause:
    return _told(reason, words if value is OMIT else f"{words}: {shown(value)}", field, detail)


invalid = partial(_valued, "Invalid", "Invalid value")
wrong_type = partial(_valued, "TypeInvalid", "Invalid value")
duplicate = partial(_valued, "Duplicate", "Duplicate value")
absent = partial(_valued, "NotFound", "Not found")
required = partial(_told, "Required", "Required value")
forbidden = partial(_told, "Forbidden", "Forbidden")


def unsupported(field: str, value: Any, accepted: Iterable[str]) -> Cause:
    detail = "supported values: " + ", ".join(map(quoted, accepted))
    return _valued("NotSupported", "Unsupported value", field, value, detail)


def too_long(field: str, most: int) -> Cause:
    return _told("TooLong", "Too long", field, f"may not be more than {most} byte{'s' * (most != 1)}")


def too_many(field: str, actual: int, most: int) -> Cause:
    return _valued("TooMany", "Too many", field, actual, f"must have at most {most} item{'s' * (most != 1)}")


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def unchanged(field: str, new: Any, old: Any) -> list[Cause]:
    return [] if new == old else [invalid(field, new, "field is immutable")]
