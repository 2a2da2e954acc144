"""Quantities as apimachinery reads them: exact numbers with a suffix, kept to a billionth."""

import math
import re
from fractions import Fraction
from typing import Final

_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_NANO: Final = 10**9
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def parse(text: str) -> Fraction:
    """The value; what is finer than a billionth is rounded away from zero, as upstream does. ValueError otherwise."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    sign, digits, suffix = match[1], Fraction(match[2]), match[3] or ""
    if suffix.endswith("i"):
        scale = Fraction(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    elif suffix[:1] in ("e", "E") and len(suffix) > 1:
        exponent = int(suffix[1:])
        if abs(exponent) > 64:
            raise ValueError("unable to parse quantity's suffix")
        scale = Fraction(10) ** exponent
    else:
        scale = Fraction(10) ** _POWERS.get(suffix, 0)
    value = Fraction(math.ceil(digits * scale * _NANO), _NANO)
    return -value if sign == "-" else value
