"""Dates, times and durations as kube-openapi's strfmt judges and reads them, in places laxer than the standards.

What is judged valid may still have no value here (the year 0): then reading it is a ValueError.
"""

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import Final

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_GO_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_WORDY = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
# Whole words of a unit, and how longer words of it begin.
_WORDS: Final = (
    (("ns",), "nano", 1e-9),
    (("us", "µs"), "micro", 1e-6),
    (("ms",), "milli", 1e-3),
    (("s",), "sec", 1.0),
    (("m",), "min", 60.0),
    (("h", "hr"), "hour", 3600.0),
    (("d",), "day", 86400.0),
    (("w", "wk"), "week", 604800.0),
)
_MOST_SECONDS: Final = 2**63 / 1e9  # Go counts nanoseconds in 64 bits


def is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    return 1 <= month <= 12 and 1 <= day <= monthrange(year or 2000, month)[1]  # the year 0 exists, and was a leap year


def is_datetime(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    return match is not None and is_date(day) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def parse_datetime(text: str) -> datetime:
    """RFC 3339, as rules see it. What has no time in Python (the year 0) is a ValueError, though a valid string."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError(f"Invalid date-time formatted string {text}")
    fraction = (match[3] or ".0")[1:7].ljust(6, "0")
    zone = "+00:00" if match[4] == "Z" else match[4]
    return datetime.fromisoformat(f"{match[1]}T{match[2]}.{fraction}{zone}").astimezone(UTC)


def parse_date(text: str) -> datetime:
    found = date.fromisoformat(text)
    return datetime(found.year, found.month, found.day, tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """Go's time.ParseDuration (`1h30m`, `-1.5s`), else words of time anywhere in the text (`22 ns`, `2 days`)."""
    if _GO_DURATION.fullmatch(text):
        seconds = sum(float(number) * _GO_SECONDS[unit] for number, unit in _GO_PART.findall(text))
        if seconds <= _MOST_SECONDS:
            return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    parts = [int(number) * one for number, unit in _WORDY.findall(text) for one in _seconds(unit.lower())]
    if not parts:
        raise ValueError(f"unable to parse {text} as duration")
    wrapped = (round(sum(parts) * 1e9) + 2**63) % 2**64 - 2**63  # Go's sum overflows in silence
    return timedelta(microseconds=wrapped / 1000)


def _seconds(unit: str) -> list[float]:
    return [seconds for whole, prefix, seconds in _WORDS if unit in whole or unit.startswith(prefix)]
