"""Values of options and variables in one form, so that equal meanings have equal texts. None: no usable value.

Rules: spec/kernelcache.md section 2.2; a hash is of JSON with sorted keys where the text is JSON, else of the text.
"""

import hashlib
import json
import re
from fractions import Fraction
from typing import Any, Final

TRUE: Final = ("1", "t", "T", "true", "True", "TRUE")
FALSE: Final = ("0", "f", "F", "false", "False", "FALSE")
_DTYPES: Final = {"half": "float16", "float": "float32"}
_HUMAN: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_POWER: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
#: Longer numbers are nobody's sizes, and slow to read.
_LONGEST: Final = 40


def bare(value: str) -> str:
    """Without blanks around it and without the quotes that YAML kept."""
    text = value.strip()
    while len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text


def integer(value: str) -> str | None:
    """Greater than 0, as the engine reads it: 08, 4k (4000), 4K (4096), 25.6k."""
    found = _number(bare(value))
    return str(found) if found is not None and found > 0 else None


def _number(text: str) -> int | None:
    if len(text) > _LONGEST:
        return None
    if human := _HUMAN.fullmatch(text):
        number, suffix = human.groups()
        if suffix.isupper():
            return None if "." in number else int(number) * 1024 ** _POWER[suffix.lower()]
        return int(Fraction(number) * 1000 ** _POWER[suffix])
    try:
        return int(text)
    except ValueError:
        return None


def length(value: str) -> str | None:
    """A model length: -1 and auto mean that the engine chooses."""
    return "auto" if bare(value).lower() in ("-1", "auto") else integer(value)


def boolean(value: str) -> str | None:
    text = bare(value)
    return "true" if text in TRUE else "false" if text in FALSE else None


def listing(value: str) -> str | None:
    """A set, with commas: order and repetition do not matter."""
    return ",".join(sorted({part.strip() for part in bare(value).split(",")} - {""})) or None


def string(value: str) -> str | None:
    return bare(value).lower() or None


def dtype(value: str) -> str | None:
    text = string(value)
    return None if text is None else _DTYPES.get(text, text)


def hashed(value: str) -> str | None:
    text = bare(value)
    return "sha256:" + hashlib.sha256(_canonical(text).encode("utf-8", "surrogatepass")).hexdigest() if text else None


def _canonical(text: str) -> str:
    try:
        value: Any = json.loads(text)
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


KINDS: Final = {
    "int": integer,
    "length": length,
    "bool": boolean,
    "list": listing,
    "string": string,
    "dtype": dtype,
    "hash": hashed,
}
