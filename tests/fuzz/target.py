"""One parser of foreign bytes, as the runner drives it."""

from collections.abc import Callable
from typing import NamedTuple

#: Takes one input; True when the parser understood it, False for its own error. Anything else that it raises is a bug.
Try = Callable[[bytes], bool]


class Target(NamedTuple):
    name: str
    corpus: list[bytes]  # valid inputs of every form
    words: tuple[bytes, ...]
    make: Callable[[], Try]  # with fresh state
    most: int = 2 << 20  # bytes that one input may take at its peak, beside 300 a byte of it
    renew: int = 0  # make it again after so many inputs: state that grows by what was valid is no leak
