"""Kubernetes' own CEL functions that are given to the library as Python: quantities, regular expressions, lists, sets.

Each function is written once with two faces: signatures for the checker, where a Quantity is a type of its own, and one
implementation on plain values, where it is a string with a tag and its canonical text, so that equal values are equal
strings. A ValueError becomes an error of the rule. Rules that use others (url, ip, cidr, semver, format.named and its
siblings, authorizer, lists' newer functions) are refused when the CRD is created. (apiserver/pkg/cel/library)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from devkube.builtin.scalars import quantity_value
from devkube.custom import formats

Q: Final = "kubernetes.Quantity"
OPAQUE: Final = (Q,)
_TAG: Final = "quantity\x1f"


@dataclass(frozen=True)
class Function:
    """`signatures`: parameters and result as the checker has them (the first parameter of a member is its target)."""

    name: str
    signatures: Sequence[tuple[Sequence[str], str]]
    implementation: Callable[..., Any]
    member: bool = False
    parameters: Sequence[str] = ()  # at evaluation, where dynamic is not enough to tell overloads apart

    @property
    def arity(self) -> int:
        return len(self.signatures[0][0])


def quantity(text: str) -> str:
    return _tagged(Fraction(quantity_value(text)))


def _tagged(value: Fraction) -> str:
    return f"{_TAG}{value}"


def _number(value: str | int) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(value.removeprefix(_TAG))


def _integer(value: str) -> int:
    found = _number(value)
    if found.denominator != 1 or not -(2**63) <= found < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(found)


def _order(a: str, b: str) -> int:
    return int(_number(a) > _number(b)) - int(_number(a) < _number(b))


def _holds(parse: Callable[..., Any]) -> Callable[..., bool]:
    def check(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return check


def _best(choose: Callable[[Iterable[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def best(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return best


def _total(values: list[Any]) -> Any:
    total = sum(values[1:], values[0]) if values else 0
    if type(total) is int and not -(2**63) <= total < 2**63:
        raise ValueError("integer overflow")
    return total


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((i for i, one in enumerate(values) if one == wanted), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    return next((i for i in range(len(values) - 1, -1, -1) if values[i] == wanted), -1)


def _find(text: str, wanted: str) -> str:
    match = formats.pattern(wanted).search(text)
    return str(match.group(0)) if match else ""


def _find_all(text: str, wanted: str, most: int = -1) -> list[str]:
    found = [str(match.group(0)) for match in formats.pattern(wanted).finditer(text)]
    return found if most < 0 else found[:most]


def _contains(values: list[Any], wanted: list[Any]) -> bool:
    return all(one in values for one in wanted)


_ANY: Final = ("list", "dyn")
_NUMBERS: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = (*_NUMBERS, "bool", "string", "bytes", "timestamp")


def _global(name: str, parameters: str, result: str, does: Callable[..., Any]) -> Function:
    return Function(name, [(parameters.split(), result)], does)


def _member(name: str, parameters: str, result: str, does: Callable[..., Any]) -> Function:
    return Function(name, [(parameters.split(), result)], does, True)


def _lists(name: str, items: Sequence[str], result: str, does: Callable[..., Any]) -> Function:
    """A member of lists of comparable items; a result of "" is an item."""
    return Function(name, [([f"list<{one}>"], result or one) for one in items], does, True, ["list"])


FUNCTIONS: Final = (
    _global("quantity", "string", Q, quantity),
    _global("isQuantity", "string", "bool", _holds(quantity)),
    _global("sign", Q, "int", lambda value: _order(value, _tagged(Fraction()))),
    _member("isInteger", Q, "bool", _holds(_integer)),
    _member("asInteger", Q, "int", _integer),
    _member("asApproximateFloat", Q, "double", lambda value: float(_number(value))),
    Function("add", [((Q, Q), Q), ((Q, "int"), Q)], lambda a, b: _tagged(_number(a) + _number(b)), True),
    Function("sub", [((Q, Q), Q), ((Q, "int"), Q)], lambda a, b: _tagged(_number(a) - _number(b)), True),
    _member("compareTo", f"{Q} {Q}", "int", _order),
    _member("isGreaterThan", f"{Q} {Q}", "bool", lambda a, b: _order(a, b) > 0),
    _member("isLessThan", f"{Q} {Q}", "bool", lambda a, b: _order(a, b) < 0),
    _member("find", "string string", "string", _find),
    _member("findAll", "string string", "list<string>", _find_all),
    _member("findAll", "string string int", "list<string>", _find_all),
    _lists("isSorted", _COMPARABLE, "bool", lambda values: all(not b < a for a, b in pairwise(values))),
    _lists("sum", _NUMBERS, "", _total),
    _lists("min", _COMPARABLE, "", _best(min, "min")),
    _lists("max", _COMPARABLE, "", _best(max, "max")),
    Function("indexOf", [(_ANY, "int")], _index_of, True, _ANY),
    Function("lastIndexOf", [(_ANY, "int")], _last_index_of, True, _ANY),
    _global("sets.contains", "list list", "bool", _contains),
    _global("sets.intersects", "list list", "bool", lambda a, b: any(one in a for one in b)),
    _global("sets.equivalent", "list list", "bool", lambda a, b: _contains(a, b) and _contains(b, a)),
)
# Numbers of different types compare in Kubernetes; the evaluator does so anyway, the checker must be told.
COMPARISONS: Final = [
    (operator, left, right)
    for operator in ("_<_", "_<=_", "_>_", "_>=_")
    for left in ("int", "uint", "double")
    for right in ("int", "uint", "double")
    if left != right
]
