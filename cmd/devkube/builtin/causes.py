"""Violations with upstream's wording (`apimachinery/pkg/util/validation/field`): the text after a field's path."""

import json
from collections.abc import Iterable
from typing import Any

from devkube.errors import Cause

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)  # as Go writes maps


def _detailed(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", _detailed("Required value", detail), field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", _detailed(f"Invalid value: {_shown(value)}", detail), field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", field)


def absent(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {_shown(value)}", field)


def forbidden(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", _detailed("Forbidden", detail), field)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(_shown(one) for one in supported)
    text = _detailed(f"Unsupported value: {_shown(value)}", f"supported values: {listed}")
    return Cause("FieldValueNotSupported", text, field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def unchanged(field: str, new: Any, old: Any) -> list[Cause]:
    return [] if new == old else [invalid(field, new, IMMUTABLE)]
