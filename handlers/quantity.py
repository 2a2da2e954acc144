"""Kubernetes quantities, exactly: `250m`, `8Gi`, `1e3`. Values are fractions, so nothing is rounded here.

Rules: k8s.io/apimachinery/pkg/api/resource, the grammar of Quantity.
"""

import re
from fractions import Fraction
from typing import Final

_FORM: Final = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([eE][+-]?\d{1,3}|[numkMGTPE]|[KMGTPE]i|)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
GIB: Final = 1 << 30


class QuantityError(ValueError):
    """A text that is no quantity."""


def parse(text: str | int) -> Fraction:
    """Raises QuantityError."""
    found = _FORM.fullmatch(str(text)) if len(str(text)) <= 64 else None
    if found is None:
        raise QuantityError(f"{str(text)[:64]!r} is no quantity: a number with a suffix such as m, k, Mi or Gi is")
    number, suffix = Fraction(found[1]), found[2]
    if suffix in _BINARY:
        return number * Fraction(1024) ** _BINARY[suffix]
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return number * Fraction(10) ** int(suffix[1:])
    return number * Fraction(10) ** _DECIMAL[suffix]


def ceil_gib(text: str | int) -> int:
    """Whole GiB, rounded up."""
    return -(-parse(text) // GIB)
