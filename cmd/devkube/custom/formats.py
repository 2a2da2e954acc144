"""The formats of strings that a schema may name (kube-openapi's strfmt, apiextensions' list of supported ones).

A format outside the list is no constraint, as upstream strips it; the CRD's writer gets a warning. Values that rules
see as times and durations are parsed here too. Patterns are RE2, Go's own dialect.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

_DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zµμ]+)", re.ASCII)
_UNITS: Final = {
    "nanoseconds nanosecond nanos nano ns": 1e-9,
    "microseconds microsecond micros micro us µs μs": 1e-6,
    "milliseconds millisecond millis milli ms": 1e-3,
    "seconds second secs sec s": 1.0,
    "minutes minute mins min m": 60.0,
    "hours hour hrs hr h": 3600.0,
    "days day d": 86400.0,
    "weeks week wks wk w": 604800.0,
}
_SECONDS: Final = {name: seconds for names, seconds in _UNITS.items() for name in names.split()}


@lru_cache(4096)
def pattern(text: str) -> Any:
    """A compiled RE2 pattern. ValueError with RE2's words when it is none."""
    import re2  # not needed for a start

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        told = error.args[0] if error.args else error
        raise ValueError(told.decode() if isinstance(told, bytes) else str(told)) from None


def parse_datetime(text: str) -> datetime:
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    fraction = (match[3] or ".0")[1:7].ljust(6, "0")
    zone = "+00:00" if match[4] in "Zz" else match[4]
    return datetime.fromisoformat(f"{match[1]}T{match[2]}.{fraction}{zone}").astimezone(UTC)


def parse_date(text: str) -> datetime:
    found = date.fromisoformat(text)
    if len(text) != 10:  # fromisoformat also takes 20260102 and week dates
        raise ValueError(text)
    return datetime(found.year, found.month, found.day, tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """`1h30m`, `22 ns`, `-1.5s`, `2 days`: Go's time.ParseDuration and the words strfmt adds to it."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return timedelta()
    seconds, end = 0.0, 0
    for part in _DURATION_PART.finditer(rest):
        if rest[end : part.start()].strip() or part[2] not in _SECONDS:
            raise ValueError(text)
        seconds, end = seconds + float(part[1]) * _SECONDS[part[2]], part.end()
    if end == 0 or rest[end:].strip():
        raise ValueError(text)
    return timedelta(seconds=sign * seconds)


def parse_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, OverflowError, binascii.Error):
            return False
        return True

    return check


def _matches(text: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(text, re.ASCII | flags)
    return lambda value: compiled.fullmatch(value) is not None


def _uri(text: str) -> Any:
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")) or any(c.isspace() or ord(c) < 32 for c in text):
        raise ValueError(text)
    return parts.port


def _cidr(text: str) -> Any:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_interface(text)


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    return sum((10 - i) * (10 if c == "X" else int(c)) for i, c in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    return (
        re.fullmatch(r"[0-9]{13}", digits) is not None
        and sum(int(c) * (1, 3)[i % 2] for i, c in enumerate(digits)) % 10 == 0
    )


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_long_name = _matches(rf"{_LABEL}(\.{_LABEL})*")
_card = _matches(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
)


def _uuid(third: str = "[0-9a-f]", fourth: str = "[0-9a-f]") -> Callable[[str], bool]:
    return _matches(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}[0-9a-f]{{3}}-?{fourth}[0-9a-f]{{3}}-?[0-9a-f]{{12}}", re.I)


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-f]{24}", re.I),
    "uri": _parses(_uri),
    "email": _matches(r"[^\s@<>(),;:\\\"\[\]]+@[^\s@<>(),;:\\\"\[\]]+"),
    "hostname": lambda text: len(text) <= 255 and _matches(rf"{_LABEL}(\.{_LABEL})*", re.I)(text),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(_cidr),
    "mac": _matches(
        r"([0-9a-f]{2}([:-]))([0-9a-f]{2}\2){4}[0-9a-f]{2}|([0-9a-f]{2}([:-]))([0-9a-f]{2}\5){6}[0-9a-f]{2}", re.I
    ),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": lambda text: _card(re.sub(r"\D+", "", text)),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-f]{3}|[0-9a-f]{6})", re.I),
    "rgbcolor": _matches(r"rgb\(\s*(\d|\d\d|1\d\d|2[0-4]\d|25[0-5])(\s*,\s*(\d|\d\d|1\d\d|2[0-4]\d|25[0-5])){2}\s*\)"),
    "byte": _parses(parse_bytes),
    "password": lambda text: True,
    "date": _parses(parse_date),
    "duration": _parses(parse_duration),
    "datetime": _parses(parse_datetime),
    "k8sshortname": lambda text: len(text) <= 63 and _matches(_LABEL)(text),
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
}


def checker(name: str) -> Callable[[str], bool] | None:
    """The check of a format of strings, None where the name means nothing."""
    return FORMATS.get(name.replace("-", ""))


def recognized(name: str, kind: str) -> bool:
    """Whether a format constrains values of this type (`GetUnrecognizedFormats`)."""
    if kind in ("", "string"):
        return checker(name) is not None
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
