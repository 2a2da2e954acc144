"""Label selectors, as text (query parameters) and as LabelSelector objects.

Grammar and messages are those of apimachinery's `labels.Parse`. What does not parse is a 400.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from devkube.builtin import names
from devkube.errors import bad_request

Matcher = Callable[[Mapping[str, str]], bool]
Operator = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]


@dataclass(frozen=True)
class Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, found: Mapping[str, str]) -> bool:
        value = found.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not re.fullmatch(r"[+-]?\d+", value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == "gt" else int(value) < int(bound)


def _all(requirements: Collection[Requirement]) -> Matcher:
    if not requirements:
        return lambda found: True
    if len(requirements) == 1:
        return next(iter(requirements)).matches
    return lambda found: all(one.matches(found) for one in requirements)


_TOKEN: Final = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_OPERATORS: Final[Mapping[str, Operator]] = {
    "=": "=",
    "==": "==",
    "!=": "!=",
    "in": "in",
    "notin": "notin",
    ">": "gt",
    "<": "lt",
}
_SPECIAL: Final = frozenset(["", "=", "==", "!=", "!", ",", "(", ")", "<", ">"])
_EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"  # labels.binaryOperators, sorted as upstream prints them


class _Labels:
    """One parse: tokens and where it stands. The end is the empty token."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN.finditer(text.strip())] + [""]
        self._at = 0

    def peek(self) -> str:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def take(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while token := self.peek():
            if token in _SPECIAL and token != "!":
                raise bad_request(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except _Wrong as error:
                raise bad_request(f"unable to parse requirement: {error}") from None
            match self.take():
                case "":
                    break
                case ",":
                    if self.peek() in _SPECIAL and self.peek() != "!":
                        raise bad_request(f"found '{self.peek()}', expected: identifier after ','")
                case other:
                    raise bad_request(f"found '{other}', expected: ',' or 'end of string'")
        return found

    def _requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.take()
        key = self.take()
        if key in _SPECIAL:
            raise _Wrong(f"found '{key}', expected: identifier")
        if told := ", ".join(names.qualified(key)):
            raise _Wrong(f'<nil>: Invalid value: "{key}": {told}')
        if self.peek() in ("", ","):
            return Requirement(key, "!" if absent else "exists")
        if absent:
            return Requirement(key, "!")
        token = self.take()
        operator = _OPERATORS.get(token)
        if operator is None:
            raise _Wrong(f"found '{token}', expected: {_EXPECTED}")
        values = self._values() if operator in ("in", "notin") else [self._value()]
        for at, value in enumerate(sorted(set(values))):
            if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?\d+", value):
                raise _Wrong(
                    f"values[{at}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
            if told := ", ".join(names.label_value(value)):
                raise _Wrong(f'values[{at}][{key}]: Invalid value: "{value}": {told}')
        return Requirement(key, operator, frozenset(values))

    def _value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        token = self.take()
        if token in _SPECIAL:
            raise _Wrong(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> list[str]:
        if (token := self.take()) != "(":
            raise _Wrong(f"found '{token}' expected: '('")
        found, want = list[str](), True  # want: a value may follow; if none does, it is the empty one
        while True:
            token = self.take()
            match token:
                case ")":
                    return [*found, ""] if want else found
                case ",":
                    if want:
                        found.append("")
                    want = True
                case _ if token in _SPECIAL:
                    raise _Wrong(f"found '{token}', expected: ',', or identifier")
                case _ if not want:
                    raise _Wrong(f"found '{token}', expected: ',' or ')'")
                case _:
                    found.append(token)
                    want = False


class _Wrong(Exception):
    pass


@lru_cache(1024)
def parse_labels(text: str) -> Matcher:
    return _all(_Labels(text).requirements())


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A metav1.LabelSelector object: None selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(k) == v for k, v in wanted.items()) and all(
        _expression(one).matches(labels) for one in selector.get("matchExpressions") or ()
    )


def _expression(one: Mapping[str, Any]) -> Requirement:
    operators: dict[str, Operator] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    operator = operators.get(str(one.get("operator")))
    if operator is None:
        raise bad_request(f'"{one.get("operator")}" is not a valid label selector operator')
    return Requirement(str(one.get("key")), operator, frozenset(one.get("values") or ()))


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector object as the text of a query, as Scale's status.selector tells it."""
    if not selector:
        return ""
    found = [f"{k}={v}" for k, v in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        texts = {
            "In": f"{one['key']} in ({values})",
            "NotIn": f"{one['key']} notin ({values})",
            "Exists": one["key"],
            "DoesNotExist": f"!{one['key']}",
        }
        found.append(texts[one["operator"]])
    return ",".join(found)
