"""Prometheus' text format, as much of it as gauges and counters need. Pure.

A line is `name{label="value",…} number [timestamp]`; comments, blank lines and lines that are none of this are passed
over, because a page of an engine holds hundreds of families that do not concern us and one odd line among them must
not cost the others. Values that are not finite are left out.

Rules: the Prometheus text exposition format 0.0.4, of which OpenMetrics' sample lines are a superset.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

_LINE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)")
_LABEL: Final = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPED: Final = re.compile(r"\\(.)")
_UNESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}


class Sample(msgspec.Struct, frozen=True):
    """One finite value of one series."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str, prefixes: tuple[str, ...]) -> Iterator[Sample]:
    """The samples whose names begin with one of `prefixes`."""
    for line in text.splitlines():
        if not line.startswith(prefixes) or (match := _LINE.match(line)) is None:
            continue
        name, labels, number = match.groups()
        try:
            value = float(number)
        except ValueError:
            continue
        if math.isfinite(value):
            yield Sample(name, {key: _unescape(text) for key, text in _LABEL.findall(labels or "")}, value)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _UNESCAPED.get(match[1], match[0]), text)
