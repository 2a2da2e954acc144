"""Ports of a laptop's processes."""

import random

from warmlog.children import free_port


def test_a_port_comes_once_whoever_seeds_random() -> None:
    """Two processes of one test were given the same; the second could not listen."""
    found = []
    for _ in range(400):
        random.seed(0)
        found.append(free_port())
    assert len(set(found)) == len(found)
    assert all(20_000 <= port < 32_000 for port in found)
