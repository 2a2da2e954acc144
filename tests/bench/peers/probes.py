"""Blocks that nobody has asked for before: what a latency measurement stores and then asks for, one block each."""

from typing import Final

from tests.bench.peers import history

_BASE: Final = 140_000  # above every token id of a history


def tokens(part: int, number: int) -> list[int]:
    return [_BASE + part, *range(_BASE + 16 * number, _BASE + 16 * number + history.BLOCK - 1)]


def hash_of(part: int, number: int) -> int:
    return 1 << 63 | part << 32 | number
