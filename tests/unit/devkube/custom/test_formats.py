"""Formats of strings, beside what the contract says of them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.custom import formats


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5400), ("-1.5s", -1.5), ("0", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert formats.parse_duration(text).total_seconds() == seconds


def test_recognized() -> None:
    assert formats.fits("unheard-of", "anything")


@given(st.sampled_from(sorted(formats.FORMATS)), st.text(max_size=20))
def test_any_text_is_judged(name: str, text: str) -> None:
    assert formats.fits(name, text) in (True, False)


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 999))
def test_durations_add_up(hours: int, minutes: int, millis: int) -> None:
    text = f"{hours}h{minutes}m{millis}ms"
    assert formats.parse_duration(text) == timedelta(hours=hours, minutes=minutes, milliseconds=millis)


def test_patterns_are_re2() -> None:
    assert formats.pattern(r"^\pL+\z").search("äb")
    assert not formats.pattern("^a$").search("a\n")
    with pytest.raises(ValueError, match="invalid perl operator"):
        formats.pattern("(?=a)")
