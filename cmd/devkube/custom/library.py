"""Kubernetes' own CEL functions, and those of cel-go's extensions that the C++ library lacks, given to it as Python.

Each function is written once with two faces: signatures for the checker, where Quantity, IP and the like are types of
their own, and one implementation for evaluation, where their values are tagged strings. Left out, and so refused when a
CRD is created: `format`, `authorizer`, comprehensions with two variables, `sortBy`. (apiserver/pkg/cel/library)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from devkube.custom import functions

OPAQUE: Final = ("kubernetes.Quantity", "kubernetes.URL", "kubernetes.Semver", "net.IP", "net.CIDR")
Q, URL, SEMVER, IP, CIDR = OPAQUE
_LISTED: Final = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")


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


_ANY = ("list", "dyn")


def _of_lists(result: str = "") -> list[tuple[list[str], str]]:
    return [([f"list<{one}>"], result or one) for one in _LISTED]


FUNCTIONS: Final = (
    Function("quantity", [(["string"], Q)], functions.quantity_of),
    Function("isQuantity", [(["string"], "bool")], functions.holds(functions.quantity_of)),
    Function("sign", [([Q], "int")], lambda q: (functions.number_of(q) > 0) - (functions.number_of(q) < 0), True),
    Function("isInteger", [([Q], "bool")], functions.holds(functions.as_integer), True),
    Function("asInteger", [([Q], "int")], functions.as_integer, True),
    Function("asApproximateFloat", [([Q], "double")], lambda q: float(functions.number_of(q)), True),
    Function(
        "add",
        [([Q, Q], Q), ([Q, "int"], Q)],
        lambda a, b: functions.tagged("q", str(functions.number_of(a) + functions.number_of(b))),
        True,
    ),
    Function(
        "sub",
        [([Q, Q], Q), ([Q, "int"], Q)],
        lambda a, b: functions.tagged("q", str(functions.number_of(a) - functions.number_of(b))),
        True,
    ),
    Function("compareTo", [([Q, Q], "int"), ([SEMVER, SEMVER], "int")], functions.order, True),
    Function(
        "isGreaterThan", [([Q, Q], "bool"), ([SEMVER, SEMVER], "bool")], lambda a, b: functions.order(a, b) > 0, True
    ),
    Function(
        "isLessThan", [([Q, Q], "bool"), ([SEMVER, SEMVER], "bool")], lambda a, b: functions.order(a, b) < 0, True
    ),
    Function("semver", [(["string"], SEMVER)], functions.semver_of),
    Function("semver", [(["string", "bool"], SEMVER)], functions.semver_of),
    Function("isSemver", [(["string"], "bool")], functions.holds(functions.semver_of)),
    Function("isSemver", [(["string", "bool"], "bool")], functions.holds(functions.semver_of)),
    Function("major", [([SEMVER], "int")], lambda v: functions.precedence(v)[0], True),
    Function("minor", [([SEMVER], "int")], lambda v: functions.precedence(v)[1], True),
    Function("patch", [([SEMVER], "int")], lambda v: functions.precedence(v)[2], True),
    Function("url", [(["string"], URL)], functions.url_of),
    Function("isURL", [(["string"], "bool")], functions.holds(functions.url_of)),
    Function("getScheme", [([URL], "string")], lambda u: urlsplit(functions.text_of(u)).scheme, True),
    Function("getHost", [([URL], "string")], functions.host_of, True),
    Function(
        "getHostname", [([URL], "string")], lambda u: re.sub(r":\d*$", "", functions.host_of(u)).strip("[]"), True
    ),
    Function("getPort", [([URL], "string")], lambda u: str(urlsplit(functions.text_of(u)).port or ""), True),
    Function(
        "getEscapedPath",
        [([URL], "string")],
        lambda u: quote(urlsplit(functions.text_of(u)).path, safe="%/:@!$&'()*+,;=~"),
        True,
    ),
    Function(
        "getQuery",
        [([URL], "map<string, list<string>>")],
        lambda u: parse_qs(urlsplit(functions.text_of(u)).query, keep_blank_values=True),
        True,
    ),
    Function("ip", [(["string"], IP)], functions.ip_of),
    Function("isIP", [(["string"], "bool")], functions.holds(functions.ip_of)),
    Function("ip.isCanonical", [(["string"], "bool")], lambda text: functions.text_of(functions.ip_of(text)) == text),
    Function("family", [([IP], "int")], lambda i: functions.address(i).version, True),
    Function("isUnspecified", [([IP], "bool")], lambda i: functions.address(i).is_unspecified, True),
    Function("isLoopback", [([IP], "bool")], lambda i: functions.address(i).is_loopback, True),
    Function(
        "isGlobalUnicast",
        [([IP], "bool")],
        lambda i: (
            not any(
                (
                    functions.address(i).is_unspecified,
                    functions.address(i).is_loopback,
                    functions.address(i).is_multicast,
                    functions.address(i).is_link_local,
                )
            )
            and functions.text_of(i) != "255.255.255.255"
        ),
        True,
    ),
    Function("cidr", [(["string"], CIDR)], functions.cidr_of),
    Function("isCIDR", [(["string"], "bool")], functions.holds(functions.cidr_of)),
    Function("containsIP", [([CIDR, "string"], "bool"), ([CIDR, IP], "bool")], functions.contains_ip, True),
    Function("containsCIDR", [([CIDR, "string"], "bool"), ([CIDR, CIDR], "bool")], functions.contains_cidr, True),
    Function("ip", [([CIDR], IP)], lambda c: functions.ip_of(functions.text_of(c).partition("/")[0]), True),
    Function("masked", [([CIDR], CIDR)], lambda c: functions.tagged("c", str(functions.network(c))), True),
    Function("prefixLength", [([CIDR], "int")], lambda c: functions.network(c).prefixlen, True),
    Function("find", [(["string", "string"], "string")], functions.find, True),
    Function("findAll", [(["string", "string"], "list<string>")], functions.find_all, True),
    Function("findAll", [(["string", "string", "int"], "list<string>")], functions.find_all, True),
    Function("isSorted", _of_lists("bool"), functions.is_sorted, True, ["list"]),
    Function(
        "sum",
        [([f"list<{one}>"], one) for one in ("int", "uint", "double", "duration")],
        functions.total,
        True,
        ["list"],
    ),
    Function("min", _of_lists(), functions.best(min, "min"), True, ["list"]),
    Function("max", _of_lists(), functions.best(max, "max"), True, ["list"]),
    Function("indexOf", [(_ANY, "int")], functions.index_of, True, _ANY),
    Function("lastIndexOf", [(_ANY, "int")], functions.last_index_of, True, _ANY),
    Function("distinct", [(["list"], "list")], functions.distinct, True, ["list"]),
    Function("flatten", [(["list"], "list")], functions.flatten, True, ["list"]),
    Function("flatten", [(["list", "int"], "list")], functions.flatten, True, ["list", "int"]),
    Function("slice", [(["list", "int", "int"], "list")], functions.part, True, ["list", "int", "int"]),
    Function("sort", [(["list"], "list")], sorted, True, ["list"]),
    Function("lists.range", [(["int"], "list<int>")], lambda n: list(range(n))),
    Function("sets.contains", [(["list", "list"], "bool")], lambda a, b: all(one in a for one in b)),
    Function("sets.intersects", [(["list", "list"], "bool")], lambda a, b: any(one in a for one in b)),
    Function(
        "sets.equivalent",
        [(["list", "list"], "bool")],
        lambda a, b: all(one in a for one in b) and all(one in b for one in a),
    ),
)
# Numbers of different types compare in Kubernetes; the evaluator does so anyway, the checker must be told.
COMPARISONS: Final = [
    (operator, left, right)
    for operator in ("_<_", "_<=_", "_>_", "_>=_")
    for left in ("int", "uint", "double")
    for right in ("int", "uint", "double")
    if left != right
]
