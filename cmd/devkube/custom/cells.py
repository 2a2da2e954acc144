"""Printer columns of custom resources: JSONPath as client-go reads it, and what a cell of each type holds.

Of the language: names, indexes, slices, wildcards, recursive descent and filters with one comparison. Missing keys are
no error; only the first result counts, as upstream.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from devkube.builtin.podcells import human
from devkube.custom import times
from devkube.kinds import Column

Step = Callable[[Any], Iterable[Any]]
_STEP = re.compile(
    r"""(?P<deep>\.\.)?(?:\.?(?P<name>(?:\\.|[^.\[\]\\*])+)|\.?(?P<any>\*)|\[(?P<all>\*)\]|\[(?P<index>-?\d+)\]
    |\[(?P<slice>-?\d*:-?\d*)\]|\[(?P<quoted>'[^']*'|"[^"]*")\]|\[\?\(\s*(?P<filter>@.*?)\s*\)\])""",
    re.X,
)
_FILTER = re.compile(r"@(?P<left>[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>.+))?")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
AGE: Final = Column(
    "Age",
    "date",
    ".metadata.creationTimestamp",
    description="CreationTimestamp is a timestamp representing the server time when this object was created.",
)


def parse(path: str) -> Callable[[Any], list[Any]]:
    """A function from an object to what the path finds. ValueError when it is no path."""
    steps: list[Step] = []
    end = 0
    while end < len(path):
        match = _STEP.match(path, end)
        if match is None or match.end() == end:
            if path[end:] == ".":
                break
            raise ValueError(f"unrecognized column definition {json.dumps(path)}")
        steps.append(_step(match))
        end = match.end()

    def find(obj: Any) -> list[Any]:
        found = [obj]
        for step in steps:
            found = [one for value in found for one in step(value)]
        return found

    return find


def _step(match: re.Match[str]) -> Step:
    step = _simple(match)
    if match["deep"]:
        return lambda value: (one for below in _all_below(value) for one in step(below))
    return step


def _simple(match: re.Match[str]) -> Step:
    if match["name"] is not None or match["quoted"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["name"]) if match["name"] is not None else match["quoted"][1:-1]
        return lambda value: [value[name]] if isinstance(value, dict) and name in value else []
    if match["index"] is not None:
        index = int(match["index"])
        return lambda value: value[index:][:1] if isinstance(value, list) and -len(value) <= index else []
    if match["slice"] is not None:
        part = slice(*(int(one) if one else None for one in match["slice"].split(":")))
        return lambda value: value[part] if isinstance(value, list) else []
    if match["filter"] is not None:
        return _filter(match["filter"])
    return _below


def _below(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else []


def _all_below(value: Any) -> Iterator[Any]:
    yield value
    for one in _below(value):
        yield from _all_below(one)


def _filter(text: str) -> Step:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ValueError(f"unrecognized filter {text!r}")
    left = parse(match["left"])
    if match["op"] is None:
        return lambda value: [one for one in _below(value) if left(one)]
    literal = match["right"].strip()
    wanted = literal[1:-1] if literal[:1] in "'\"" else json.loads(literal)
    compare = _OPERATORS[match["op"]]

    def holds(one: Any) -> bool:
        found = left(one)
        try:
            return bool(found) and compare(found[0], wanted)
        except TypeError:
            return False

    return lambda value: [one for one in _below(value) if holds(one)]


def cell(kind: str, found: list[Any], now: float) -> Any:
    """What a column of a type shows of what its path found; None where it shows nothing."""
    value = found[0] if found else None
    number = type(value) in (int, float)
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return value if number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return _age(value, now) if isinstance(value, str) else None


def _age(text: str, now: float) -> str:
    try:
        return human(int(now - times.parse_datetime(text).timestamp()))
    except ValueError:
        return "<invalid>"
