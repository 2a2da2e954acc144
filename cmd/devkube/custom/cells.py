"""Printer columns of custom resources: JSONPath as CRDs write it, and what a cell of each type holds.

Of the language: names, indexes, wildcards and filters that compare for equality. Missing keys are no error; only the
first result counts, as upstream.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from devkube.builtin.columns import human
from devkube.custom import formats
from devkube.kinds import Column

_STEP = re.compile(
    r"""\.?(?P<name>(?:\\.|[^.\[\]\\*])+)|\.?\*|\[\*\]|\[(?P<index>-?\d+)\]|\[(?P<quoted>'[^']*'|"[^"]*")\]
    |\[\?\(\s*@\.?(?P<left>[^=!<>()\[\]]+?)\s*==\s*(?P<right>[^()]+?)\s*\)\]""",
    re.X,
)
AGE: Final = Column("Age", "date", ".metadata.creationTimestamp", description="How long ago the object was created.")


@lru_cache(1024)
def parse(path: str) -> Callable[[Any], list[Any]]:
    """A function from an object to what the path finds. ValueError when it is no path."""
    if not path.startswith("."):
        raise ValueError("must be a simple json path starting with .")
    steps: list[Callable[[Any], Iterable[Any]]] = []
    end = 0
    while end < len(path) and path[end:] != ".":
        match = _STEP.match(path, end)
        if match is None:
            raise ValueError(f"unrecognized column definition {json.dumps(path)}")
        steps.append(_step(**match.groupdict()))
        end = match.end()

    def find(obj: Any) -> list[Any]:
        found = [obj]
        for step in steps:
            found = [one for value in found for one in step(value)]
        return found

    return find


def _step(
    name: str | None, index: str | None, quoted: str | None, left: str | None, right: str
) -> Callable[[Any], Iterable[Any]]:
    if left is not None:
        find, wanted = parse(f".{left}"), right[1:-1] if right[:1] in "'\"" else json.loads(right)
        return lambda value: [one for one in _below(value) if find(one)[:1] == [wanted]]
    if index is not None:
        at = int(index)
        return lambda value: value[at:][:1] if isinstance(value, list) and -len(value) <= at else []
    if name is None and quoted is None:
        return _below
    key = quoted[1:-1] if quoted is not None else re.sub(r"\\(.)", r"\1", name or "")
    return lambda value: [value[key]] if isinstance(value, dict) and key in value else []


def _below(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else []


def cell(kind: str, found: list[Any], now: float) -> Any:
    """What a column of a type shows of what its path found; None where it shows nothing."""
    value = found[0] if found else None
    if kind == "string" and not isinstance(value, str | None):
        return json.dumps(value, separators=(",", ":"))
    if kind == "date" and isinstance(value, str):
        return _age(value, now)
    wanted = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}.get(kind, ())
    return value if type(value) in wanted else None


def _age(text: str, now: float) -> str:
    try:
        return human(int(now - formats.parse_datetime(text).timestamp()))
    except (ValueError, OverflowError):  # the latter: its zone leads before the year 1
        return "<invalid>"
