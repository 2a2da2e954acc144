"""Kubernetes' own CEL functions, and those of cel-go's extensions that the C++ library lacks, given to it as Python.

Each function is written once with two faces: signatures for the checker, where Quantity, IP and the like are types of
their own, and one implementation for evaluation, where their values are tagged strings. Left out, and so refused when a
CRD is created: `format.named`, `authorizer`, comprehensions with two variables, `sortBy`. (apiserver/pkg/cel/library)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from devkube.custom import functions as f
from devkube.custom import namedformats

OPAQUE: Final = (
    *("kubernetes.Quantity", "kubernetes.URL", "kubernetes.Semver", "net.IP", "net.CIDR"),
    *("kubernetes.NamedFormat", "kubernetes.Faults"),
)
Q, URL, SEMVER, IP, CIDR, FORMAT, FAULTS = OPAQUE


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


_ANY: Final = ("list", "dyn")
_NUMBERS: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = (*_NUMBERS, "bool", "string", "bytes", "timestamp")


def _global(name: str, parameters: str, result: str, does: Callable[..., Any]) -> Function:
    return Function(name, [(parameters.split(), result)], does)


def _member(name: str, parameters: str, result: str, does: Callable[..., Any]) -> Function:
    return Function(name, [(parameters.split(), result)], does, True)


def _either(name: str, results: Sequence[tuple[str, str, str]], does: Callable[..., Any]) -> Function:
    """A member with several signatures of two parameters each."""
    return Function(name, [((target, other), result) for target, other, result in results], does, True)


def _lists(name: str, items: Sequence[str], result: str, does: Callable[..., Any]) -> Function:
    """A member of lists of comparable items; a result of "" is an item."""
    return Function(name, [([f"list<{one}>"], result or one) for one in items], does, True, ["list"])


def _orders(name: str, result: str, does: Callable[..., Any]) -> Function:
    return _either(name, [(Q, Q, result), (SEMVER, SEMVER, result)], does)


FUNCTIONS: Final = (
    _global("quantity", "string", Q, f.quantity_of),
    _global("isQuantity", "string", "bool", f.holds(f.quantity_of)),
    _global("sign", Q, "int", f.sign),
    _member("isInteger", Q, "bool", f.holds(f.as_integer)),
    _member("asInteger", Q, "int", f.as_integer),
    _member("asApproximateFloat", Q, "double", f.as_float),
    _either("add", [(Q, Q, Q), (Q, "int", Q)], f.add),
    _either("sub", [(Q, Q, Q), (Q, "int", Q)], f.sub),
    _orders("compareTo", "int", f.order),
    _orders("isGreaterThan", "bool", f.greater),
    _orders("isLessThan", "bool", f.less),
    _global("semver", "string", SEMVER, f.semver_of),
    _global("semver", "string bool", SEMVER, f.semver_of),
    _global("isSemver", "string", "bool", f.holds(f.semver_of)),
    _global("isSemver", "string bool", "bool", f.holds(f.semver_of)),
    _member("major", SEMVER, "int", lambda v: f.precedence(v)[0]),
    _member("minor", SEMVER, "int", lambda v: f.precedence(v)[1]),
    _member("patch", SEMVER, "int", lambda v: f.precedence(v)[2]),
    _global("url", "string", URL, f.url_of),
    _global("isURL", "string", "bool", f.holds(f.url_of)),
    _member("getScheme", URL, "string", f.scheme),
    _member("getHost", URL, "string", f.host_of),
    _member("getHostname", URL, "string", f.hostname),
    _member("getPort", URL, "string", f.port),
    _member("getEscapedPath", URL, "string", f.escaped_path),
    _member("getQuery", URL, "map<string, list<string>>", f.query),
    _global("ip", "string", IP, f.ip_of),
    _global("isIP", "string", "bool", f.holds(f.ip_of)),
    _global("ip.isCanonical", "string", "bool", lambda text: f.text_of(f.ip_of(text)) == text),
    _member("family", IP, "int", lambda i: f.address(i).version),
    _member("isUnspecified", IP, "bool", lambda i: f.address(i).is_unspecified),
    _member("isLoopback", IP, "bool", lambda i: f.address(i).is_loopback),
    _member("isLinkLocalUnicast", IP, "bool", lambda i: f.address(i).is_link_local),
    _member("isLinkLocalMulticast", IP, "bool", f.is_local_multicast),
    _member("isGlobalUnicast", IP, "bool", f.is_global),
    _global("cidr", "string", CIDR, f.cidr_of),
    _global("isCIDR", "string", "bool", f.holds(f.cidr_of)),
    _either("containsIP", [(CIDR, "string", "bool"), (CIDR, IP, "bool")], f.contains_ip),
    _either("containsCIDR", [(CIDR, "string", "bool"), (CIDR, CIDR, "bool")], f.contains_cidr),
    _member("ip", CIDR, IP, lambda c: f.ip_of(f.text_of(c).partition("/")[0])),
    _member("masked", CIDR, CIDR, lambda c: f.tagged("c", str(f.network(c)))),
    _member("prefixLength", CIDR, "int", lambda c: f.network(c).prefixlen),
    _member("find", "string string", "string", f.find),
    _member("findAll", "string string", "list<string>", f.find_all),
    _member("findAll", "string string int", "list<string>", f.find_all),
    _lists("isSorted", _COMPARABLE, "bool", f.is_sorted),
    _lists("sum", _NUMBERS, "", f.total),
    _lists("min", _COMPARABLE, "", f.best(min, "min")),
    _lists("max", _COMPARABLE, "", f.best(max, "max")),
    Function("indexOf", [(_ANY, "int")], f.index_of, True, _ANY),
    Function("lastIndexOf", [(_ANY, "int")], f.last_index_of, True, _ANY),
    Function("distinct", [(["list"], "list")], f.distinct, True, ["list"]),
    Function("flatten", [(["list"], "list")], f.flatten, True, ["list"]),
    Function("flatten", [(["list", "int"], "list")], f.flatten, True, ["list", "int"]),
    Function("slice", [(["list", "int", "int"], "list")], f.part, True, ["list", "int", "int"]),
    _lists("sort", _COMPARABLE, "list", sorted),
    _global("lists.range", "int", "list<int>", lambda n: list(range(n))),
    *(_global(f"format.{name}", "", FORMAT, namedformats.constant(name)) for name in namedformats.CHECKS),
    _member("validate", f"{FORMAT} string", FAULTS, namedformats.validate),
    Function("hasValue", [([FAULTS], "bool")], bool, True, ["list"]),
    Function("value", [([FAULTS], "list<string>")], namedformats.value, True, ["list"]),
    _global("sets.contains", "list list", "bool", f.holds_all),
    _global("sets.intersects", "list list", "bool", lambda a, b: any(one in a for one in b)),
    _global("sets.equivalent", "list list", "bool", lambda a, b: f.holds_all(a, b) and f.holds_all(b, a)),
)
# Numbers of different types compare in Kubernetes; the evaluator does so anyway, the checker must be told.
COMPARISONS: Final = [
    (operator, left, right)
    for operator in ("_<_", "_<=_", "_>_", "_>=_")
    for left in ("int", "uint", "double")
    for right in ("int", "uint", "double")
    if left != right
]
