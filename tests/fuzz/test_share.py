"""A share of `make fuzz` in every run: each parser of foreign bytes takes some thousand bad inputs."""

import pytest
import structlog

from tests.fuzz import mutate, run
from tests.fuzz.target import Target, Try


@pytest.fixture(autouse=True)
def _silent() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield  # type: ignore[misc]
    structlog.reset_defaults()


@pytest.mark.parametrize("target", run.TARGETS, ids=lambda target: target.name)
def test_bad_bytes_are_refused_with_the_parsers_own_error(target: Target) -> None:
    found = run.fuzz(target, inputs=300 if target.name in run.SLOW else 2_000, seed=2026)
    assert found.failures == [], "\n".join(found.failures)
    assert found.understood > 0.005 * found.inputs, (
        "the inputs are so bad that nothing behind the first check is reached"
    )


def test_what_is_no_parsers_own_error_is_found_and_can_be_repeated() -> None:
    def make() -> Try:
        def one(raw: bytes) -> bool:
            if b"\xff" in raw:
                raise KeyError("a bug")
            return True

        return one

    target = Target("a parser with a bug", [b"hello"], mutate.NUMBERS, make)
    found = run.fuzz(target, inputs=2_000, seed=1, failures=1)
    (said,) = found.failures
    assert "KeyError" in said
    again = run.fuzz(target, inputs=0, seed=1, number=found.inputs)
    assert again.failures == found.failures


def test_what_takes_all_memory_is_found() -> None:
    def make() -> Try:
        def one(raw: bytes) -> bool:
            return len(bytearray(8 << 20)) > 0

        return one

    found = run.fuzz(Target("a hungry parser", [b"hello"], mutate.TEXT, make), inputs=run.LOOK_EVERY, seed=1)
    assert "bytes at its peak" in found.failures[0]
