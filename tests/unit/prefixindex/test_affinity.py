"""The steady pick for a cold prompt: golden bytes, so that another implementation picks alike."""

import pytest

from handlers.prefixindex import affinity, keys

CHAIN = keys.chain(keys.pack_tokens(range(1, 33)), 16)
SEED = bytes.fromhex("00000008ea06fc71a5ee6e8800000008ad01835a37dd294c")


def test_the_seed_of_a_chain_is_golden() -> None:
    assert affinity.seed([keys.to_wire(key) for key in CHAIN], b"unused") == SEED
    assert affinity.seed_of(CHAIN) == SEED


@pytest.mark.parametrize(("count", "picked"), [(1, 0), (2, 1), (3, 0), (4, 1), (5, 3)])
def test_the_pick_is_golden(count: int, picked: int) -> None:
    names = [f"r{number}" for number in range(count)]
    assert affinity.pick(SEED, reversed(names)) == f"r{picked}"


def test_without_a_chain_the_exact_key_is_the_seed() -> None:
    assert affinity.seed([], b"exact") == b"exact"
    assert affinity.seed([], b"") == b""


def test_keys_of_other_lengths_are_told_apart() -> None:
    assert affinity.seed([b"ab", b"c"], b"") != affinity.seed([b"a", b"bc"], b"")


def test_of_no_replicas_none_is_picked() -> None:
    assert affinity.pick(SEED, []) is None
