"""Violations in upstream's words: what `field.Error` of apimachinery prints for each error type.

A path of "" is the root, which upstream prints as `<nil>`. `OMIT` leaves the value out, as rules on objects do.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from devkube.errors import Cause

OMIT: Final = object()
ROOT: Final = "<nil>"
IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"

# Errors that leave a value in a shape in which rules cannot be evaluated (hasBlockingErr in apiextensions' strategy).
BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def number(value: float) -> str:
    """A number as Go's %v prints it: the shortest text that reads back, exponents from 1e+21."""
    if isinstance(value, int):
        return str(value)
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, str):
        return quoted(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for char in "<>&":  # as Go's encoder does
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _cause(reason: str, words: str, field: str, value: Any, detail: str) -> Cause:
    message = words if value is OMIT else f"{words}: {shown(value)}"
    return Cause(reason, f"{message}: {detail}" if detail else message, field or ROOT)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return _cause("FieldValueInvalid", "Invalid value", field, value, detail)


def wrong_type(field: str, value: Any, detail: str) -> Cause:
    return _cause("FieldValueTypeInvalid", "Invalid value", field, value, detail)


def required(field: str, detail: str = "") -> Cause:
    return _cause("FieldValueRequired", "Required value", field, OMIT, detail)


def forbidden(field: str, detail: str) -> Cause:
    return _cause("FieldValueForbidden", "Forbidden", field, OMIT, detail)


def duplicate(field: str, value: Any) -> Cause:
    return _cause("FieldValueDuplicate", "Duplicate value", field, value, "")


def unsupported(field: str, value: Any, accepted: Iterable[str]) -> Cause:
    detail = "supported values: " + ", ".join(quoted(one) for one in accepted)
    return _cause("FieldValueNotSupported", "Unsupported value", field, value, detail)


def too_long(field: str, most: int) -> Cause:
    return _cause("FieldValueTooLong", "Too long", field, OMIT, f"may not be more than {most} byte{'s' * (most != 1)}")


def too_many(field: str, actual: int, most: int) -> Cause:
    detail = f"must have at most {most} item{'s' * (most != 1)}"
    return _cause("FieldValueTooMany", "Too many", field, actual, detail)


def absent(field: str, value: Any) -> Cause:
    return _cause("FieldValueNotFound", "Not found", field, value, "")


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def unchanged(field: str, new: Any, old: Any) -> list[Cause]:
    return [] if new == old else [invalid(field, new, IMMUTABLE)]
