"""Small values that everything stands on: quantities, times, conditions, canonical bytes."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers import canonical, conditions, moments, quantity
from handlers.conditions import Shown

QUANTITIES = {
    "0": 0, "1": 1, "250m": Fraction(1, 4), "1.5Gi": 3 << 29, "2500Mi": 2500 << 20, "1e3": 1000, "1E3": 1000,
    "1E": 10**18, "-1": -1, "+5k": 5000, ".5": Fraction(1, 2), "5.": 5, "100n": Fraction(1, 10**7), "3Ki": 3072,
    "12e-1": Fraction(6, 5),
}  # fmt: skip


@pytest.mark.parametrize("text", QUANTITIES)
def test_a_quantity_is_exact(text: str) -> None:
    assert quantity.parse(text) == QUANTITIES[text]


@pytest.mark.parametrize("text", ["", " 1", "1 Gi", "1gi", "Gi", "1e", "0x1", "1,5", "١", "1" * 65, "1e9999", "--1"])
def test_what_is_no_quantity_is_told(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match="is no quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(("text", "gib"), [("1Gi", 1), ("1", 1), ("2500Mi", 3), ("3Gi", 3), ("0", 0)])
def test_whole_gibibytes_round_up(text: str, gib: int) -> None:
    assert quantity.ceil_gib(text) == gib


@given(st.text(max_size=20))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(quantity.QuantityError):
        assert isinstance(quantity.parse(text), Fraction)


@given(st.integers(0, 4_000_000_000))
def test_times_come_back(seconds: int) -> None:
    assert moments.seconds(moments.text(seconds)) == seconds


@pytest.mark.parametrize("text", ["", None, "yesterday", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert moments.seconds(text) is None


def test_a_condition_keeps_the_time_of_its_last_transition() -> None:
    first = conditions.merged([], {"Ready": Shown("False", "Coming")}, now=10, generation=1)
    same = conditions.merged(first, {"Ready": Shown("False", "Slow", "still")}, now=20, generation=2)
    other = conditions.merged(same, {"Ready": Shown("True", "There")}, now=30, generation=2)
    assert [one[0]["lastTransitionTime"] for one in (first, same, other)] == [
        moments.text(10), moments.text(10), moments.text(30),
    ]  # fmt: skip
    assert same[0]["observedGeneration"] == 2
    assert conditions.reason_of(same, "Ready") == "Slow"
    assert conditions.merged(other, {}, now=40, generation=2) == []


def test_conditions_are_in_order_whatever_the_order_they_came_in() -> None:
    wanted = {"B": Shown("True", "b"), "A": Shown("True", "a")}
    assert [one["type"] for one in conditions.merged([], wanted, now=1, generation=1)] == ["A", "B"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_the_order_of_keys_does_not_matter(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical.digest(value) == canonical.digest(turned)
