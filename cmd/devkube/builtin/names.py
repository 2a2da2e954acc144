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


def _shaped(limit: int, pattern: str, text: str, *examples: str, unit: str = "characters") -> Check:
    """`unit` is what upstream calls bytes, which differs between its two packages of such checks."""
    like = " or ".join(f"'{one}', " for one in examples)
    told = f"{text} (e.g. {like}regex used for validation is '{pattern}')"

    @lru_cache(maxsize=8192)
    def check(value: str) -> tuple[str, ...]:
        found = (f"must be no more than {limit} {unit}",) if len(value.encode()) > limit else ()
        fits = re.fullmatch(pattern, value, re.ASCII)
        return found if fits else (*found, told)

    return check


_LOWER = "must consist of lower case alphanumeric characters"
_ENDS = "and must start and end with an alphanumeric character"
_label = _shaped(63, _LABEL, f"a lowercase RFC 1123 label {_LOWER} or '-', {_ENDS}", "my-name", "123-abc")
dns_subdomain = _shaped(
    253, rf"{_LABEL}(\.{_LABEL})*", f"a lowercase RFC 1123 subdomain {_LOWER}, '-' or '.', {_ENDS}", "example.com"
)
_FIRST = "start with an alphabetic character, and end with an alphanumeric character"
dns_1035_label = _shaped(
    63, "[a-z]([-a-z0-9]*[a-z0-9])?", f"a DNS-1035 label {_LOWER} or '-', {_FIRST}", "my-name", "abc-123"
)
_VALUE = f"a valid label must be an empty string or consist of {_KEY_TEXT}"
label_value = _shaped(63, f"({_KEY})?", _VALUE, "MyValue", "my_value", "12345", unit="bytes")
_CONFIG = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_config_key = _shaped(253, "[-._a-zA-Z0-9]+", _CONFIG, "key.name", "KEY_NAME", "key-name")
_NAMES = ("MyName", "my.name", "123-abc")
_name_part = _shaped(63, _KEY, f"must consist of {_KEY_TEXT}", *_NAMES, unit="bytes")
port_name = _shaped(
    15,
    "(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    "must be of letters (a-z), at least one, and digits, with single hyphens (-) between them",
)


def dns_label(value: str) -> tuple[str, ...]:
    return ("must not contain dots",) if "." in value and not dns_subdomain(value) else _label(value)


def config_key(value: str) -> tuple[str, ...]:
    """Of a ConfigMap or a Secret: a file's name."""
    return _config_key(value) or ((f"must not be '{value}'",) if value in (".", "..") else ())


def path_segment(value: str) -> tuple[str, ...]:
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


def qualified(value: str) -> tuple[str, ...]:
    """The key of a label or an annotation: `name`, or `example.com/name`."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        told = _name_part("-")[0].removeprefix("must ")
        return (
            f"a valid label key must {told} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    found = [f"prefix part {one}" for one in dns_subdomain(prefix)] if prefix else []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    if not name:
        found.append("name part must be non-empty")
    return (*found, *(f"name part {one}" for one in _name_part(name)))


def check(field: str, value: str, rule: Check) -> list[Cause]:
    return [invalid(field, value, text) for text in rule(value)]
