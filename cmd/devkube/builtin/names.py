"""What a name, a label or a key must look like: each check returns upstream's sentences, none where all is well.

Rule: `apimachinery/pkg/util/validation` and `api/validate/content`.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from devkube.causes import between
from devkube.causes import invalid as _invalid
from devkube.errors import Cause

Check = Callable[[str], tuple[str, ...]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ALNUM = "and must start and end with an alphanumeric character"
_KEY_TEXT = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM}"


def _told(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{one}', " for one in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _shaped(value: str, limit: int, pattern: str, text: str, unit: str = "characters") -> tuple[str, ...]:
    """`unit` is what upstream calls bytes, which differs between its two packages of such checks."""
    found = (f"must be no more than {limit} {unit}",) if len(value.encode()) > limit else ()
    return found if re.fullmatch(pattern, value, re.ASCII) else (*found, text)


@lru_cache(maxsize=8192)
def dns_label(value: str) -> tuple[str, ...]:
    text = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM}"
    if re.fullmatch(_SUBDOMAIN, value):
        return _shaped(value, 63, _LABEL, "must not contain dots")
    return _shaped(value, 63, _LABEL, _told(text, _LABEL, "my-name", "123-abc"))


@lru_cache(maxsize=8192)
def dns_subdomain(value: str) -> tuple[str, ...]:
    text = f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM}"
    return _shaped(value, 253, _SUBDOMAIN, _told(text, _SUBDOMAIN, "example.com"))


@lru_cache(maxsize=1024)
def dns_1035_label(value: str) -> tuple[str, ...]:
    text = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return _shaped(value, 63, _LABEL_1035, _told(text, _LABEL_1035, "my-name", "abc-123"))


@lru_cache(maxsize=1024)
def path_segment(value: str) -> tuple[str, ...]:
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


@lru_cache(maxsize=8192)
def qualified(value: str) -> tuple[str, ...]:
    prefix, slash, name = value.rpartition("/")
    text = _told(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        more = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {text}{more}",)
    found: tuple[str, ...] = ()
    if slash and not prefix:
        found = ("prefix part must be non-empty",)
    elif slash:
        found = tuple(f"prefix part {one}".replace("253 characters", "253 bytes") for one in dns_subdomain(prefix))
    if not name:
        found += ("name part must be non-empty",)
    elif len(name) > 63:
        found += ("name part must be no more than 63 bytes",)
    return found if re.fullmatch(_KEY, name) else (*found, f"name part {text}")


@lru_cache(maxsize=8192)
def label_value(value: str) -> tuple[str, ...]:
    text = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    pattern = f"({_KEY})?"
    return _shaped(value, 63, pattern, _told(text, pattern, "MyValue", "my_value", "12345"), "bytes")


@lru_cache(maxsize=4096)
def config_key(value: str) -> tuple[str, ...]:
    pattern, text = "[-._a-zA-Z0-9]+", "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    found = _shaped(value, 253, pattern, _told(text, pattern, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        return (*found, f"must not be '{value}'")
    return (*found, "must not start with '..'") if value.startswith("..") else found


@lru_cache(maxsize=1024)
def port_name(value: str) -> tuple[str, ...]:
    found = []
    if len(value) > 15:
        found.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def port_number(value: int) -> tuple[str, ...]:
    return () if 1 <= value <= 65535 else (between(1, 65535),)


def check(field: str, value: str, rule: Check) -> list[Cause]:
    return [_invalid(field, value, text) for text in rule(value)]
