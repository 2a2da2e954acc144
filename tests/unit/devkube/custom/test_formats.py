"""Formats of strings."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.custom import formats

# (valid, invalid), all of them as kube-apiserver 1.36.2 judges them.
JUDGED: dict[str, tuple[list[str], list[str]]] = {
    "date-time": (
        ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T03:04:05.123456789+02:00"],
        ["2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-01-02T24:00:00Z", "2026-02-30T00:00:00Z", "x", ""],
    ),
    "date": (["2026-01-02"], ["20260102", "2026-1-2", "2026-02-30", "2026-W01-1", ""]),
    "duration": (["1h", "1h30m", "1.5s", "-1s", "+1s", "0", "1us", "1µs", ".5s", "1.s"], ["1", "", "h"]),
    "byte": (["aGk=", "YWJj"], ["aGk", "aGk=\n", "!", "", "aG k="]),
    "uri": (["http://a", "/a", "http://", "mailto:x", "//a", "http://[::1]", "a:b"], ["a", "a b", "http://a b", ""]),
    "email": (["a@b", "a@b.c", "A <a@b.c>", "a@[1.2.3.4]", "ä@b"], ["a", "a@", "@b", "a b@c", "a@b,c@d"]),
    "hostname": (["a", "A", "1"], ["-a", "a_b", "a.", ".a", "a..b", "a" * 64, "*.a", "a b", ""]),
    "ipv4": (["1.2.3.4"], ["1.2.3", "1.2.3.4 ", "::1", "256.1.1.1"]),
    "ipv6": (["::1", "::ffff:1.2.3.4", "::"], ["1.2.3.4", "fe80::1%eth0", "1::2::3"]),
    "cidr": (
        ["10.0.0.0/8", "10.0.0.1/8", "::/0", "10.0.0.0/08", "::1/128"],
        ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0"],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
        ["123", "{123e4567-e89b-12d3-a456-426614174000}"],
    ),
    "password": (["", "x"], []),
}


@pytest.mark.parametrize("name", JUDGED)
def test_formats(name: str) -> None:
    valid, invalid = JUDGED[name]
    assert [text for text in valid if not formats.fits(name, text)] == []
    assert [text for text in invalid if formats.fits(name, text)] == []


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
