"""Formats of strings."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.custom import formats


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-01-02T03:04:05Z", "2026-01-02"),
        ("date-time", "2026-01-02t03:04:05.123456789+02:00", "2026-13-02T03:04:05Z"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2024-02-29", "20240229"),
        ("duration", "1h30m", "1x"),
        ("duration", "22 ns", "h"),
        ("duration", "1.5s", ""),
        ("duration", "2 days", "1h 30"),
        ("byte", "aGk=", "aGk"),
        ("uri", "https://a.b/c", "a b"),
        ("uri", "/path", "relative"),
        ("email", "a@b.c", "a.b.c"),
        ("hostname", "a.b-c", "-a"),
        ("ipv4", "1.2.3.4", "1.2.3"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("creditcard", "4111 1111 1111 1111", "1234"),
        ("ssn", "111-22-3333", "11-22-333"),
        ("hexcolor", "#FFF", "#FF"),
        ("rgbcolor", "rgb(255, 0,1)", "rgb(256,0,1)"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A.b"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    check = formats.checker(name)
    assert check is not None
    assert check(good)
    assert not check(bad)


def test_recognized() -> None:
    assert formats.checker("unheard-of") is None
    assert formats.recognized("datetime", "string")
    assert formats.recognized("int32", "integer")
    assert not formats.recognized("int32", "string")
    assert not formats.recognized("date-time", "object")


@given(st.sampled_from(sorted(formats.FORMATS)), st.text(max_size=20))
def test_any_text_is_judged(name: str, text: str) -> None:
    assert formats.FORMATS[name](text) in (True, False)


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 999))
def test_durations_add_up(hours: int, minutes: int, millis: int) -> None:
    text = f"{hours}h{minutes}m{millis}ms"
    assert formats.parse_duration(text) == timedelta(hours=hours, minutes=minutes, milliseconds=millis)


def test_patterns_are_re2() -> None:
    assert formats.pattern(r"^\pL+\z").search("äb")
    assert not formats.pattern("^a$").search("a\n")
    with pytest.raises(ValueError, match="invalid perl operator"):
        formats.pattern("(?=a)")
