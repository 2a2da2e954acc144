"""Canonical scalars."""

from base64 import b64encode
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.builtin import scalars

CANONICAL = [
    ("1", "1"),
    ("0", "0"),
    ("0.0", "0"),
    ("1000m", "1"),
    ("100m", "100m"),
    ("0.5", "500m"),
    (".5", "500m"),
    ("1.", "1"),
    ("+1", "1"),
    ("-1", "-1"),
    ("1500m", "1500m"),
    ("2000", "2k"),
    ("1024", "1024"),
    ("1Ki", "1Ki"),
    ("1024Mi", "1Gi"),
    ("0.5Gi", "512Mi"),
    ("1536Mi", "1536Mi"),
    ("1000k", "1M"),
    ("1e3", "1e3"),
    ("1E3", "1e3"),
    ("12e4", "120e3"),
    ("1E", "1E"),
    ("5u", "5u"),
    ("1n", "1n"),
    ("0.1n", "1n"),
    ("1Ei", "1Ei"),
    ("0.001Ki", "1024m"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL, ids=[text for text, _ in CANONICAL])
def test_quantities_are_written_as_go_does(text: str, canonical: str) -> None:
    assert scalars.quantity(text) == canonical


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "--1", "1..2", ".", "1x", "1GB", "1KI", "9" * 200])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        scalars.quantity(text)


@pytest.mark.parametrize("text", ["1mi", "1KK", "1e999", "1mm"])
def test_no_suffix(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        scalars.quantity(text)


amounts = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.decimals(min_value=0, max_value=10**9, places=3, allow_nan=False),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"]),
)


@given(amounts)
def test_a_canonical_quantity_is_the_same_amount_and_stays_as_it_is(text: str) -> None:
    written = scalars.quantity(text)
    assert scalars.quantity(written) == written
    assert scalars.quantity_value(written) == scalars.quantity_value(text)
    assert isinstance(scalars.quantity_value(written), Decimal)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
        ("2026-11-30T10:00:00.999Z", "2026-11-30T10:00:00Z"),
        ("2026-11-30T10:00:00+02:00", "2026-11-30T08:00:00Z"),
    ],
)
def test_times_are_utc_and_whole_seconds(text: str, canonical: str) -> None:
    assert scalars.time(text) == canonical


def test_micro_times_keep_six_digits() -> None:
    assert scalars.micro_time("2026-11-30T10:00:00.100000Z") == "2026-11-30T10:00:00.100000Z"
    assert scalars.micro_time("2026-11-30T10:00:00.000001+02:00") == "2026-11-30T08:00:00.000001Z"
    for text in ("2026-11-30T10:00:00.1Z", "2026-11-30T10:00:00Z", "2026-11-30T10:00:00.1234567Z", "soon"):
        with pytest.raises(ValueError, match="parsing time"):
            scalars.micro_time(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-31T00:00:00Z", "2026-11-30", "2026-11-30 10:00:00Z"])
def test_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        scalars.time(text)


@pytest.mark.parametrize(("text", "offset"), [("a-b=", 1), ("YWI", 0), ("YWJj?", 4)])
def test_no_base64(text: str, offset: int) -> None:
    with pytest.raises(ValueError, match=f"illegal base64 data at input byte {offset}"):
        scalars.base64(text)


@given(st.binary(max_size=64))
def test_base64_stays_as_it_is(data: bytes) -> None:
    text = b64encode(data).decode()
    assert scalars.base64(text) == text
