"""Scalars that are strings in JSON and more in Go: each is rewritten to the one text that Go would write back.

Every function takes text and returns its canonical form, or raises ValueError with Go's (or apimachinery's) own words.
Rules: `apimachinery/pkg/api/resource` (quantities), `apis/meta/v1` Time, MicroTime and Duration.
"""

import binascii
import re
from datetime import UTC, datetime
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eEinumkKMGTP]*[-+]?[0-9]*)")
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NANO = Decimal("1e-9")
_LONGEST = 100  # characters; nobody writes longer ones, and arithmetic has to end


_EXPONENT = re.compile(r"[eE][-+]?[0-9]{1,2}")
_EXACT = Context(prec=250, rounding=ROUND_UP)  # more than _LONGEST digits times 10**99


def _parse(text: str) -> tuple[Decimal, str]:
    """The value (rounded up to 1e-9) and the family of its suffix: binary, decimal or exponent."""
    match = _QUANTITY.fullmatch(text)
    if match is None or len(text) > _LONGEST:
        raise ValueError(_WRONG)
    number, suffix = Decimal(match[1]), match[2]
    if suffix in _BINARY:
        number, family = _EXACT.multiply(number, Decimal(1024 ** _BINARY[suffix])), "binary"
    elif suffix in _DECIMAL:
        number, family = number.scaleb(_DECIMAL[suffix], _EXACT), "decimal"
    elif _EXPONENT.fullmatch(suffix):
        number, family = number.scaleb(int(suffix[1:]), _EXACT), "exponent"
    else:
        raise ValueError("unable to parse quantity's suffix")
    return number.quantize(_NANO, context=_EXACT), family


def quantity_value(text: str | int | float) -> Decimal:
    return _parse(str(text))[0]


@lru_cache(maxsize=4096)
def quantity(text: str) -> str:
    number, family = _parse(text)
    if not number:
        return "0"
    if family == "binary" and -1024 < number < 1024:
        family = "decimal"  # as upstream: small binary amounts are written in decimal
    nanos = int(_EXACT.scaleb(number, 9))
    if family == "binary" and nanos % 10**9 == 0:
        whole, power = nanos // 10**9, 0
        while whole % 1024 == 0 and power < 6:
            whole, power = whole // 1024, power + 1
        return f"{whole}{next((s for s, p in _BINARY.items() if p == power), '')}"
    exponent = -9
    while exponent < 18 and nanos % 1000 == 0:
        nanos, exponent = nanos // 1000, exponent + 3
    if family == "exponent":
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{next(s for s, p in _DECIMAL.items() if p == exponent)}"


_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_MICRO = re.compile(r"[^.]{19}\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _moment(text: str, layout: str) -> datetime:
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        fraction = (match[2] or ".0")[:7]
        zone = "+00:00" if match[3] == "Z" else match[3]
        return datetime.fromisoformat(match[1] + fraction.ljust(7, "0") + zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"') from None


def time(text: str) -> str:
    moment = _moment(text, "2006-01-02T15:04:05Z07:00")  # also where it looks canonical: the 31st of February
    if _SECONDS.fullmatch(text):
        return text
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_time(text: str) -> str:
    """Exactly six digits, as Go's layout has them."""
    layout = "2006-01-02T15:04:05.000000Z07:00"
    moment = _moment(text, layout)
    if not _MICRO.fullmatch(text):
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text[19:]}" as ".000000"')
    return text if text.endswith("Z") else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)


def duration(text: str) -> str:
    """Checked, not rewritten: no served kind keeps a duration that others compare."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'time: invalid duration "{text}"')
    return text


def base64(text: str) -> str:
    try:
        return binascii.b2a_base64(binascii.a2b_base64(text, strict_mode=True), newline=False).decode()
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/\r\n]", text)
        raise ValueError(f"illegal base64 data at input byte {bad.start() if bad else len(text) // 4 * 4}") from None
