"""Moments as people write them."""

from datetime import UTC, datetime

import pytest

from warmlog import when

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
NOON = int(NOW.timestamp()) * 10**9
SECOND = 10**9
HOUR = 3600 * SECOND

GOOD = {
    "sequence": ("1234", when.Sequence(1234)),
    "position": ("1a2b.3:77", when.Sequence(77, "1a2b.3")),
    "ago": ("-90s", when.Time(NOON - 90 * SECOND)),
    "hours ago": ("-1h30m", when.Time(NOON - 3 * HOUR // 2)),
    "time of day": ("03:12", when.Time(NOON - 9 * HOUR + 12 * 60 * SECOND)),
    "with seconds": ("03:12:05.5", when.Time(NOON - 9 * HOUR + (12 * 60 + 5) * SECOND + SECOND // 2)),
    "RFC 3339": ("2026-11-30T12:00:00Z", when.Time(NOON)),
    "with an offset": ("2026-11-30T13:00:00+01:00", when.Time(NOON)),
    "no zone is UTC": ("2026-11-30 12:00:00", when.Time(NOON)),
}
BAD = ["", "yesterday", "25:00", "12:61", "-", "-5", "2026-13-01", "1.5", "٣"]


@pytest.mark.parametrize(("text", "moment"), GOOD.values(), ids=GOOD)
def test_a_moment_is_understood(text: str, moment: when.When) -> None:
    assert when.parse(text, NOW) == moment


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"no moment|no duration"):
        when.parse(text, NOW)
