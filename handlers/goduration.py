"""Go's durations as Kubernetes writes them: `5m`, `1h30m`, `90s`, `1.5h`.

Rules: time.ParseDuration.
"""

import re
from fractions import Fraction
from typing import Final

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def nanoseconds(text: str) -> int | None:
    """A Go duration (`1h30m`, `1.5s`, `-2us`, `0`) in nanoseconds, or None when it is none."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":
        return 0
    if len(rest) > 64:
        return None
    at, total = 0, Fraction(0)
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            return None
        total += Fraction(part[1]) * _UNITS[part[2]]
        at = part.end()
    whole = int(total)
    return sign * whole if rest and whole < 2**63 else None
