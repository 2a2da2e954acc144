"""A moment as a person writes it: a sequence, incarnation:sequence, a time, or how long ago."""

import re
from datetime import UTC, datetime, timedelta

import msgspec

from warmlog import flags


class Sequence(msgspec.Struct, frozen=True):
    number: int
    incarnation: str = ""


class Time(msgspec.Struct, frozen=True):
    ns: int  # since the epoch


When = Sequence | Time


def parse(text: str, now: datetime) -> When:
    """Raises ValueError with what is accepted. A time of day means today (UTC); `-90s` means 90 s before `now`."""
    if re.fullmatch(r"[0-9]+", text):
        return Sequence(int(text))
    if match := re.fullmatch(r"([^\s:]*[^\s:0-9][^\s:]*):([0-9]+)", text):
        return Sequence(int(match[2]), match[1])
    if text.startswith("-"):
        return _time(now - timedelta(seconds=flags.duration(text[1:])))  # at most a century: no overflow
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?", text):
            clock = datetime.strptime(text if text.count(":") == 2 else f"{text}:00", _clock_format(text)).time()
            return _time(datetime.combine(now.astimezone(UTC).date(), clock, UTC))
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no moment; write a sequence (1234), a time (2026-11-30T03:12:00Z, 03:12) or an age (-90s)"
        ) from None
    return _time(at if at.tzinfo else at.replace(tzinfo=UTC))


def of_flag(values: flags.Values, name: str) -> When | None:
    """The moment that a flag names, as of now; None when it is empty. Raises UsageError."""
    if not values[name]:
        return None
    try:
        return parse(values[name], datetime.now(UTC))
    except ValueError as error:
        raise flags.UsageError(f"--{name}: {error}") from None


def _clock_format(text: str) -> str:
    return "%H:%M:%S.%f" if "." in text else "%H:%M:%S"


def _time(at: datetime) -> Time:
    return Time(round(at.timestamp() * 1_000_000) * 1_000)
