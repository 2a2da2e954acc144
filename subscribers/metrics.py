"""Counters, gauges and histograms, and their text for Prometheus (exposition format 0.0.4).

Why not a client library: a lookup is counted and timed in 0.4 µs here, in 3 µs there (locks that one event loop does
not need), and the cap on label values would be ours anyway. Everything belongs to one loop: no locks.

Names are checked when a family is made, so that a bad one fails at start and in any test: `warmlog_<subsystem>_<what>`
then a base unit; `_total` on counters and only there. Where the contract gives a name (`inferencecache_…`) it is that
one. Labels whose values come from outside are capped: over the cap they become `other` (a tenant must not be able to
fill the server's memory, or Prometheus's).

Not here: which families exist (each edge makes its own), OpenMetrics, exemplars.

Rules: spec/conventions.md items 11 to 15.
"""

import bisect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, Literal, TypeVar

OTHER: Final = "other"
DEFAULT_CAP: Final = 1000

#: Seconds. A lookup in Python takes tens of microseconds to some milliseconds.
LOOKUP_SECONDS: Final = (
    *(0.000025, 0.00005, 0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)

_NAME: Final = re.compile(r"(warmlog|inferencecache)_[a-z][a-z0-9]*(_[a-z][a-z0-9]*)+")
_LABEL: Final = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED_ENDS: Final = ("_bucket", "_sum", "_count", "_created")
#: Units that are no base units: seconds, bytes and ratios are what a dashboard can rely on.
_FORBIDDEN_ENDS: Final = ("_ms", "_us", "_ns", "_milliseconds", "_microseconds", "_kb", "_mb", "_percent", "_minutes")

Kind = Literal["counter", "gauge", "histogram"]
Read = Callable[[], float | Mapping[tuple[str, ...], float]]


class MetricError(ValueError):
    """A family that breaks the naming rules, or two of one name: a bug, found at start."""


class Counter:
    """A number that only grows. Bind `add` once and call it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        self.value += amount


class Gauge:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """Observations in buckets; `bounds` are inclusive upper bounds in the family's unit."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value


Child = TypeVar("Child", Counter, Gauge, Histogram)


class Family(Generic[Child]):
    """All children of one name. `labels(...)` gives a child for ever: ask once, keep it."""

    def __init__(self, labels: tuple[str, ...], make: Callable[[], Child], *, cap: int, capped: Iterable[str]) -> None:
        self.label_names = labels
        self.children: dict[tuple[str, ...], Child] = {}
        self._make: Callable[[], Child] = make
        self._cap = cap
        self._capped = tuple(name in set(capped) for name in labels)

    def labels(self, *values: str) -> Child:
        """The child of these values, in the order of the family's label names."""
        child = self.children.get(values)
        if child is not None:
            return child
        if len(values) != len(self.label_names):
            raise MetricError(f"{len(values)} values for the labels {self.label_names}")
        if len(self.children) >= self._cap:
            values = tuple(OTHER if capped else value for value, capped in zip(values, self._capped, strict=True))
        child = self.children.get(values)
        if child is None:
            child = self.children[values] = self._make()
        return child


class _Entry:
    """A family with its name, as `render` writes it."""

    def __init__(self, kind: Kind, name: str, help_text: str, lines: Callable[[str], list[str]]) -> None:
        self.kind, self.name, self.help, self.lines = kind, name, help_text, lines


class Registry:
    """The families of one process, in the order in which they were made."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def counter(
        self,
        name: str,
        help_text: str,
        labels: tuple[str, ...] = (),
        *,
        cap: int = DEFAULT_CAP,
        capped: Iterable[str] | None = None,
    ) -> Family[Counter]:
        """`capped` names the labels that become `other` over the cap; all of them when not given."""
        family = Family(labels, Counter, cap=cap, capped=labels if capped is None else capped)
        self._add("counter", name, help_text, labels, lambda full: _value_lines(full, family))
        return family

    def gauge(
        self, name: str, help_text: str, labels: tuple[str, ...] = (), *, cap: int = DEFAULT_CAP
    ) -> Family[Gauge]:
        family = Family(labels, Gauge, cap=cap, capped=labels)
        self._add("gauge", name, help_text, labels, lambda full: _value_lines(full, family))
        return family

    def histogram(
        self,
        name: str,
        help_text: str,
        labels: tuple[str, ...] = (),
        *,
        buckets: Sequence[float],
        cap: int = DEFAULT_CAP,
    ) -> Family[Histogram]:
        if list(buckets) != sorted(set(buckets)):
            raise MetricError(f"{name}: buckets must ascend")
        family = Family(labels, lambda: Histogram(buckets), cap=cap, capped=labels)
        self._add("histogram", name, help_text, labels, lambda full: _histogram_lines(full, family))
        return family

    def read(
        self,
        kind: Literal["counter", "gauge"],
        name: str,
        help_text: str,
        labels: tuple[str, ...] = (),
        *,
        source: Read,
        cap: int = DEFAULT_CAP,
    ) -> None:
        """A family whose numbers live elsewhere and are read at each scrape: one number, or one per label values.

        Over `cap` the rest is left out, in the order that `source` gives.
        """
        self._add(kind, name, help_text, labels, lambda full: _read_lines(full, labels, source(), cap))

    def render(self) -> bytes:
        out: list[str] = []
        for entry in self._entries.values():
            out.append(f"# HELP {entry.name} {_escape_help(entry.help)}")
            out.append(f"# TYPE {entry.name} {entry.kind}")
            out += entry.lines(entry.name)
        return ("\n".join(out) + "\n").encode()

    def _add(
        self, kind: Kind, name: str, help_text: str, labels: tuple[str, ...], lines: Callable[[str], list[str]]
    ) -> None:
        problem = name_problem(kind, name, help_text, labels)
        if problem is None and name in self._entries:
            problem = "is made twice"
        if problem is not None:
            raise MetricError(f"{name}: {problem}")
        self._entries[name] = _Entry(kind, name, help_text, lines)


def name_problem(kind: Kind, name: str, help_text: str, labels: tuple[str, ...]) -> str | None:
    """Why a family may not be called so, or None."""
    if not _NAME.fullmatch(name):
        return "must be warmlog_<subsystem>_<what>_<unit> in lower case"
    if kind == "counter" and not name.endswith("_total"):
        return "a counter ends in _total"
    if kind != "counter" and name.endswith("_total"):
        return "only counters end in _total"
    if name.endswith(_RESERVED_ENDS):
        return "ends in a suffix that histograms use"
    if name.removesuffix("_total").endswith(_FORBIDDEN_ENDS):
        return "must use a base unit: seconds, bytes, ratio"
    if kind == "histogram" and not name.endswith(("_seconds", "_bytes", "_ratio")):
        return "a histogram names its unit: _seconds, _bytes or _ratio"
    if not help_text.strip() or "\n" in help_text:
        return "needs one line of help"
    for label in labels:
        if not _LABEL.fullmatch(label) or label == "le":
            return f"{label!r} is no label name"
        if f"_{label}_" in f"{name}_":
            return f"the label {label!r} must not be in the name"
    return None


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _pairs(names: Sequence[str], values: Sequence[str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _sample(name: str, pairs: str, value: float) -> str:
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _value_lines(name: str, family: Family[Counter] | Family[Gauge]) -> list[str]:
    children = family.children.items()
    return [_sample(name, _pairs(family.label_names, values), child.value) for values, child in children]


def _read_lines(
    name: str, labels: tuple[str, ...], got: float | Mapping[tuple[str, ...], float], cap: int
) -> list[str]:
    if not isinstance(got, Mapping):
        return [_sample(name, "", got)]
    return [_sample(name, _pairs(labels, values), value) for values, value in list(got.items())[:cap]]


def _histogram_lines(name: str, family: Family[Histogram]) -> list[str]:
    lines: list[str] = []
    for values, child in family.children.items():
        pairs = _pairs(family.label_names, values)
        comma = "," if pairs else ""
        running = 0
        for bound, count in zip((*child.bounds, math.inf), child.counts, strict=True):
            running += count
            lines.append(_sample(f"{name}_bucket", f'{pairs}{comma}le="{_number(bound)}"', running))
        lines.append(_sample(f"{name}_sum", pairs, child.sum))
        lines.append(_sample(f"{name}_count", pairs, running))
    return lines
