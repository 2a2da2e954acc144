"""Kubernetes' own CEL functions that are given to the library as Python: quantities, regular expressions, lists, sets.

A row of `FUNCTIONS` is read twice: by the checker, where a Quantity is a type of its own, and by the evaluator, whose
values are plain. There a Quantity is its canonical text in an object, so that equal ones are equal and none can be
taken for a string. A ValueError becomes an error of the rule. Rules that use others (url, ip, cidr, semver,
format.named and its siblings, authorizer, lists' newer functions) are refused when the CRD is created.
(apiserver/pkg/cel/library)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from devkube.builtin.scalars import quantity_value
from devkube.custom import formats
from devkube.custom.views import QUANTITY as Q

Quantity = dict[str, str]


@dataclass(frozen=True)
class Function:
    """`parameters` and `result` are CEL's names of types, the first parameter of a member being its target. ITEM stands
    for each of `items` in turn."""

    name: str
    parameters: tuple[str, ...]
    result: str
    does: Callable[..., Any]
    member: bool = True
    items: tuple[str, ...] = ("dyn",)


def _quantity(value: Fraction) -> Quantity:
    return {Q: str(value)}


def _number(value: Quantity | int) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(value[Q])


def _integer(value: Quantity) -> int:
    found = _number(value)
    if found.denominator != 1 or not -(2**63) <= found < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(found)


def _order(a: Quantity | int, b: Quantity | int) -> int:
    return int(_number(a) > _number(b)) - int(_number(a) < _number(b))


def quantity(text: str) -> Quantity:
    return _quantity(Fraction(quantity_value(text)))


def _holds(parse: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return check


def _best(choose: Callable[[Iterable[Any]], Any]) -> Callable[[list[Any]], Any]:
    def best(values: list[Any]) -> Any:
        if not values:
            raise ValueError("min and max need a list that is not empty")
        return choose(values)

    return best


def _total(values: list[Any]) -> Any:
    total = sum(values[1:], values[0]) if values else 0
    if type(total) is int and not -(2**63) <= total < 2**63:
        raise ValueError("integer overflow")
    return total


def _index(places: Iterable[int]) -> int:
    return next(iter(places), -1)


def _find_all(text: str, wanted: str, most: int = -1) -> list[str]:
    found = [str(match.group(0)) for match in formats.pattern(wanted).finditer(text)]
    return found if most < 0 else found[:most]


def _contains(values: list[Any], wanted: list[Any]) -> bool:
    return all(one in values for one in wanted)


ITEM: Final = "ITEM"
_LIST: Final = f"list<{ITEM}>"
_NUMBERS: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = (*_NUMBERS, "bool", "string", "bytes", "timestamp")
FUNCTIONS: Final = (
    Function("quantity", ("string",), Q, quantity, False),
    Function("isQuantity", ("string",), "bool", _holds(quantity), False),
    Function("sign", (Q,), "int", lambda value: _order(value, 0), False),
    Function("isInteger", (Q,), "bool", _holds(_integer)),
    Function("asInteger", (Q,), "int", _integer),
    Function("asApproximateFloat", (Q,), "double", lambda value: float(_number(value))),
    Function("add", (Q, ITEM), Q, lambda a, b: _quantity(_number(a) + _number(b)), items=(Q, "int")),
    Function("sub", (Q, ITEM), Q, lambda a, b: _quantity(_number(a) - _number(b)), items=(Q, "int")),
    Function("compareTo", (Q, Q), "int", _order),
    Function("isGreaterThan", (Q, Q), "bool", lambda a, b: _order(a, b) > 0),
    Function("isLessThan", (Q, Q), "bool", lambda a, b: _order(a, b) < 0),
    Function("find", ("string", "string"), "string", lambda text, wanted: "".join(_find_all(text, wanted, 1))),
    Function("findAll", ("string", "string"), "list<string>", _find_all),
    Function("findAll", ("string", "string", "int"), "list<string>", _find_all),
    Function("isSorted", (_LIST,), "bool", lambda a: all(not y < x for x, y in pairwise(a)), items=_COMPARABLE),
    Function("sum", (_LIST,), ITEM, _total, items=_NUMBERS),
    Function("min", (_LIST,), ITEM, _best(min), items=_COMPARABLE),
    Function("max", (_LIST,), ITEM, _best(max), items=_COMPARABLE),
    Function("indexOf", (_LIST, ITEM), "int", lambda a, b: _index(i for i, x in enumerate(a) if x == b)),
    Function("lastIndexOf", (_LIST, ITEM), "int", lambda a, b: _index(i for i in range(len(a))[::-1] if a[i] == b)),
    Function("sets.contains", ("list", "list"), "bool", _contains, False),
    Function("sets.intersects", ("list", "list"), "bool", lambda a, b: any(one in a for one in b), False),
    Function("sets.equivalent", ("list", "list"), "bool", lambda a, b: _contains(a, b) and _contains(b, a), False),
)
