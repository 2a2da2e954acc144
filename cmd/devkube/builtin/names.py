"""What a name, a label or a key must look like: each check returns its complaints, none where all is well.

Rule: `apimachinery/pkg/util/validation`; the sentences begin as upstream's.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from devkube.causes import invalid
from devkube.errors import Cause

Check = Callable[[str], tuple[str, ...]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_TEXT = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"


def _shaped(limit: int, pattern: str, text: str, unit: str = "characters") -> Check:
    """`unit` is what upstream calls bytes, which differs between its two packages of such checks."""

    @lru_cache(maxsize=8192)
    def check(value: str) -> tuple[str, ...]:
        found = (f"must be no more than {limit} {unit}",) if len(value.encode()) > limit else ()
        fits = re.fullmatch(pattern, value, re.ASCII)
        return found if fits else (*found, f"{text} (regex used for validation is '{pattern}')")

    return check


_LOWER = "must consist of lower case alphanumeric characters"
_label = _shaped(63, _LABEL, f"a lowercase RFC 1123 label {_LOWER} or '-'")
dns_subdomain = _shaped(253, rf"{_LABEL}(\.{_LABEL})*", f"a lowercase RFC 1123 subdomain {_LOWER}, '-' or '.'")
dns_1035_label = _shaped(63, "[a-z]([-a-z0-9]*[a-z0-9])?", f"a DNS-1035 label {_LOWER} or '-', and start with a letter")
label_value = _shaped(63, f"({_KEY})?", f"a valid label must be an empty string or consist of {_KEY_TEXT}", "bytes")
config_key = _shaped(
    253, r"(?!\.\.|\.$)[-._a-zA-Z0-9]+", "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
)
_name_part = _shaped(63, _KEY, f"must consist of {_KEY_TEXT}", "bytes")
port_name = _shaped(
    15,
    "(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    "must be of letters (a-z), at least one, and digits, with single hyphens (-) between them",
)


def dns_label(value: str) -> tuple[str, ...]:
    return ("must not contain dots",) if "." in value and not dns_subdomain(value) else _label(value)


def path_segment(value: str) -> tuple[str, ...]:
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


def qualified(value: str) -> tuple[str, ...]:
    """The key of a label or an annotation: `name`, or `example.com/name`."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return (f"a valid label key must consist of a name and an optional DNS subdomain with '/': {_KEY_TEXT}",)
    found = [f"prefix part {one}" for one in dns_subdomain(prefix)] if prefix else []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    return (*found, *(f"name part {one}" for one in _name_part(name)))


def check(field: str, value: str, rule: Check) -> list[Cause]:
    return [invalid(field, value, text) for text in rule(value)]
