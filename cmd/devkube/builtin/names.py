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
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ENDS = "and must start and end with an alphanumeric character"
_KEY_TEXT = f"alphanumeric characters, '-', '_' or '.', {_ENDS}"


def _shaped(limit: int, pattern: str, text: str, unit: str = "characters") -> Check:
    """`unit` is what upstream calls bytes, which differs between its two packages of such checks."""

    @lru_cache(maxsize=8192)
    def check(value: str) -> tuple[str, ...]:
        found = (f"must be no more than {limit} {unit}",) if len(value.encode()) > limit else ()
        fits = re.fullmatch(pattern, value, re.ASCII)
        return found if fits else (*found, f"{text} (regex used for validation is '{pattern}')")

    return check


_label = _shaped(
    63, _LABEL, f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
)
dns_subdomain = _shaped(
    253,
    _SUBDOMAIN,
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
)
dns_1035_label = _shaped(
    63,
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
)
label_value = _shaped(
    63, f"({_KEY})?", f"a valid label must be an empty string or consist of {_KEY_TEXT}", unit="bytes"
)
port_name = _shaped(
    15,
    "(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    "must be of letters (a-z), at least one, and digits, with single hyphens (-) between them",
)
_name_part = _shaped(63, _KEY, f"must consist of {_KEY_TEXT}", unit="bytes")
_config_key = _shaped(
    253, "[-._a-zA-Z0-9]+", "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
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
    found: tuple[str, ...] = ()
    if slash:
        found = (
            tuple(f"prefix part {one}" for one in dns_subdomain(prefix))
            if prefix
            else ("prefix part must be non-empty",)
        )
    return (*found, *(f"name part {one}" for one in _name_part(name)))


def config_key(value: str) -> tuple[str, ...]:
    found = _config_key(value)
    return (*found, "must not be '.' or start with '..'") if value == "." or value.startswith("..") else found


def check(field: str, value: str, rule: Check) -> list[Cause]:
    return [invalid(field, value, text) for text in rule(value)]
