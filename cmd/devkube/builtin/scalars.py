"""Scalars that are strings in JSON and more in Go: each is rewritten to the one text that Go would write back.

Every function takes text and returns its canonical form, or raises ValueError with Go's (or apimachinery's) own words.
Rules: `apimachinery/pkg/api/resource` (quantities), `apis/meta/v1` Time and MicroTime.
"""

import binascii
import re
from contextlib import suppress
from datetime import UTC, datetime
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eEinumkKMGTP]*[-+]?[0-9]*)")
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")  # powers of 1024
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")  # powers of 1000, from -3
_EXPONENT = re.compile(r"[eE][-+]?[0-9]{1,2}")
_LONGEST = 100  # characters; nobody writes longer ones, and arithmetic has to end
_EXACT = Context(prec=250, rounding=ROUND_UP)  # more than _LONGEST digits times 10**99


def quantity_value(text: str | int | float) -> Decimal:
    """Rounded up to 1e-9."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None or len(match[0]) > _LONGEST:
        raise ValueError(_WRONG)
    number, suffix = Decimal(match[1]), match[2]
    if suffix in _DECIMAL:
        number = number.scaleb(3 * _DECIMAL.index(suffix) - 9, _EXACT)
    elif suffix in _BINARY:
        number = _EXACT.multiply(number, Decimal(1024 ** _BINARY.index(suffix)))
    elif _EXPONENT.fullmatch(suffix):
        number = number.scaleb(int(suffix[1:]), _EXACT)
    else:
        raise ValueError("unable to parse quantity's suffix")
    return number.quantize(Decimal("1e-9"), context=_EXACT)


@lru_cache(maxsize=4096)
def quantity(text: str) -> str:
    """In the family of its suffix: binary, decimal or exponent."""
    number = quantity_value(text)
    if not number:
        return "0"
    nanos = int(_EXACT.scaleb(number, 9))
    # Small binary amounts are written in decimal, as upstream does.
    if text.endswith("i") and abs(number) >= 1024 and nanos % 10**9 == 0:
        whole, power = _shortened(nanos // 10**9, 1024, len(_BINARY) - 1)
        return f"{whole}{_BINARY[power]}"
    whole, power = _shortened(nanos, 1000, len(_DECIMAL) - 1)
    if _EXPONENT.search(text):
        return f"{whole}e{3 * power - 9}" if power != 3 else str(whole)
    return f"{whole}{_DECIMAL[power]}"


def _shortened(whole: int, base: int, most: int) -> tuple[int, int]:
    power = 0
    while whole % base == 0 and power < most:
        whole, power = whole // base, power + 1
    return whole, power


_SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_ZONE = r"(Z|[+-]\d\d:\d\d)"


def _moment(text: str, fraction: str, layout: str) -> datetime:
    """In UTC, without saying so."""
    with suppress(ValueError, OverflowError):  # the 31st of February
        if re.fullmatch(_SECONDS + fraction + _ZONE, text, re.ASCII):
            return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')


def time(text: str) -> str:
    return _moment(text, r"(\.\d+)?", "2006-01-02T15:04:05Z07:00").isoformat(timespec="seconds") + "Z"


def micro_time(text: str) -> str:
    """Exactly six digits, as Go's layout has them."""
    return _moment(text, r"\.\d{6}", "2006-01-02T15:04:05.000000Z07:00").isoformat(timespec="microseconds") + "Z"


def base64(text: str) -> str:
    try:
        return binascii.b2a_base64(binascii.a2b_base64(text, strict_mode=True), newline=False).decode()
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/\r\n]", text)
        raise ValueError(f"illegal base64 data at input byte {bad.start() if bad else len(text) // 4 * 4}") from None
