"""The formats of strings that a schema may name: those that CRDs really use (of apiextensions' list of supported ones).

Any other is no constraint, and the CRD's writer gets a warning, as for names that upstream does not know either.
Patterns are RE2, Go's own dialect.
"""

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

_PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_GO_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART})+)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


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


def parse_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def parse_datetime(text: str) -> datetime:
    """RFC 3339."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError(f"Invalid date-time formatted string {text}")
    fraction = (match[3] or ".0")[1:7].ljust(6, "0")
    zone = "+00:00" if match[4] in "Zz" else match[4]
    return datetime.fromisoformat(f"{match[1]}T{match[2]}.{fraction}{zone}").astimezone(UTC)


def parse_date(text: str) -> datetime:
    if len(text) != 10 or "W" in text:
        raise ValueError(f"Invalid date formatted string {text}")
    found = date.fromisoformat(text)
    return datetime(found.year, found.month, found.day, tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """Go's time.ParseDuration: `1h30m`, `-1.5s`."""
    if not _GO_DURATION.fullmatch(text):
        raise ValueError(f"unable to parse {text} as duration")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text, re.ASCII))
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, OverflowError):
            return False
        return True

    return check


def _matches(text: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(text, re.ASCII | flags)
    return lambda value: compiled.fullmatch(value) is not None


def _network(text: str) -> Any:
    address, slash, length = text.partition("/")
    if not slash or not length.isdecimal():
        raise ValueError(text)
    return ipaddress.ip_interface(f"{address}/{int(length)}")


_HOST = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"

FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "uri": _matches(r"(/|[a-z][a-z0-9+.-]*:)[^\s\x00-\x1f]*", re.I),
    "email": _matches(r"([^<>@]*<)?[^\s@<>,;]+@[^\s@<>,;]+>?"),
    "hostname": lambda text: len(text) <= 255 and _matches(_HOST, re.I)(text),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": lambda text: "%" not in text and _parses(ipaddress.IPv6Address)(text),
    "cidr": _parses(_network),
    "uuid": _matches("[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.I),
    "byte": lambda text: text != "" and _parses(parse_bytes)(text),
    "password": lambda text: True,
    "date": _parses(parse_date),
    "duration": _parses(parse_duration),
    "datetime": _parses(parse_datetime),
}


def checker(name: str) -> Callable[[str], bool] | None:
    """The check of a format of strings, None where the name means nothing."""
    return FORMATS.get(name.replace("-", ""))


def recognized(name: str, kind: str) -> bool:
    """Whether a format constrains values of this type."""
    if kind in ("", "string"):
        return checker(name) is not None
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
