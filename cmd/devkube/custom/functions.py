"""What Kubernetes' CEL functions do, on plain Python values.

Values of types that JSON does not have (quantities, addresses, URLs, versions) are strings with a tag and their
canonical text, so that equal values are equal strings. A ValueError becomes an error of the rule.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from devkube.builtin.scalars import quantity_value
from devkube.custom import formats

_TAG: Final = "\x1f"


def holds(parse: Callable[..., Any]) -> Callable[..., bool]:
    def check(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return check


# --- opaque values: a tag and their canonical text, so that equality is equality of strings


def tagged(tag: str, text: str) -> str:
    return f"{tag}{_TAG}{text}"


def text_of(value: str) -> str:
    return value.partition(_TAG)[2]


def quantity_of(text: str) -> str:
    return tagged("q", str(Fraction(quantity_value(text))))


def number_of(value: str | int) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(text_of(value))


def as_integer(value: str) -> int:
    found = number_of(value)
    if found.denominator != 1 or not -(2**63) <= found < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(found)


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z.-]+))?",
    re.ASCII,
)


def semver_of(text: str, normalize: bool = False) -> str:
    if normalize:
        numbers, rest = re.fullmatch(r"v?([\d.]*)(.*)", text, re.S).groups()  # type: ignore[union-attr]
        parts = [part.lstrip("0") or "0" for part in numbers.split(".")] if numbers else []
        text = ".".join([*parts, "0", "0"][: max(3, len(parts))]) + rest
    match = _SEMVER.fullmatch(text)
    if match is None or any(p.isdigit() and len(p) > 1 and p[0] == "0" for p in (match[4] or "").split(".")):
        raise ValueError(f"invalid semantic version: {text}")
    return tagged("v", text)


def precedence(value: str) -> tuple[Any, ...]:
    """What orders versions: build metadata does not; a release comes after its pre-releases."""
    match = _SEMVER.fullmatch(text_of(value))
    assert match is not None
    before = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in match[4].split(".")) if match[4] else ()
    return (int(match[1]), int(match[2]), int(match[3]), not before, before)


def order(a: str, b: str) -> int:
    left: Any = number_of(a) if a.startswith("q") else precedence(a)
    right: Any = number_of(b) if b.startswith("q") else precedence(b)
    return int(left > right) - int(left < right)


def url_of(text: str) -> str:
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")) or re.search(r"[\s\x00-\x1f]", text):
        raise ValueError(f"URL parse error: parse {text!r}: invalid URI for request")
    _ = parts.port  # ValueError when it is no number
    return tagged("u", text)


def host_of(value: str) -> str:
    return urlsplit(text_of(value)).netloc.rpartition("@")[2]


def ip_of(text: str) -> str:
    address = ipaddress.ip_address(text)
    if "%" in text or getattr(address, "ipv4_mapped", None) is not None:
        raise ValueError(f"IP Address {text!r} parse error: zones and IPv4-mapped addresses are not allowed")
    return tagged("i", str(address))


def address(value: str) -> Any:
    return ipaddress.ip_address(text_of(value))


def cidr_of(text: str) -> str:
    address, _, length = text.partition("/")
    if re.fullmatch(r"\d+", length) is None:
        raise ValueError(f"network address parse error: {text!r} is no CIDR")
    return tagged("c", str(ipaddress.ip_interface(f"{text_of(ip_of(address))}/{length}")))


def network(value: str) -> Any:
    return ipaddress.ip_interface(text_of(value)).network


def contains_ip(value: str, other: str) -> bool:
    return address(other if _TAG in other else ip_of(other)) in network(value)


def contains_cidr(value: str, other: str) -> bool:
    outer, inner = network(value), network(other if _TAG in other else cidr_of(other))
    return bool(outer.version == inner.version and inner.subnet_of(outer))


# --- lists and strings


def is_sorted(values: list[Any]) -> bool:
    return all(not b < a for a, b in pairwise(values))


def best(choose: Callable[[Iterable[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def best(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return best


def total(values: list[Any]) -> Any:
    total = sum(values[1:], values[0]) if values else 0
    if type(total) is int and not -(2**63) <= total < 2**63:
        raise ValueError("integer overflow")
    return total


def index_of(values: list[Any], wanted: Any) -> int:
    return next((i for i, one in enumerate(values) if one == wanted), -1)


def last_index_of(values: list[Any], wanted: Any) -> int:
    return next((i for i in range(len(values) - 1, -1, -1) if values[i] == wanted), -1)


def distinct(values: list[Any]) -> list[Any]:
    return [one for i, one in enumerate(values) if one not in values[:i]]


def flatten(values: list[Any], depth: int = 1) -> list[Any]:
    flat: list[Any] = []
    for one in values:
        flat += flatten(one, depth - 1) if isinstance(one, list) and depth > 0 else [one]
    return flat


def part(values: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise ValueError(f"cannot slice({start}, {end}), list has length {len(values)}")
    return values[start:end]


def find(text: str, wanted: str) -> str:
    match = formats.pattern(wanted).search(text)
    return str(match.group(0)) if match else ""


def find_all(text: str, wanted: str, most: int = -1) -> list[str]:
    found = [str(match.group(0)) for match in formats.pattern(wanted).finditer(text)]
    return found if most < 0 else found[:most]


# --- what members of opaque types do


def add(value: str, other: str | int) -> str:
    return tagged("q", str(number_of(value) + number_of(other)))


def sub(value: str, other: str | int) -> str:
    return tagged("q", str(number_of(value) - number_of(other)))


def sign(value: str) -> int:
    return int(number_of(value) > 0) - int(number_of(value) < 0)


def as_float(value: str) -> float:
    return float(number_of(value))


def greater(value: str, other: str) -> bool:
    return order(value, other) > 0


def less(value: str, other: str) -> bool:
    return order(value, other) < 0


def scheme(value: str) -> str:
    return urlsplit(text_of(value)).scheme


def hostname(value: str) -> str:
    return re.sub(r":\d*$", "", host_of(value)).strip("[]")


def port(value: str) -> str:
    return str(urlsplit(text_of(value)).port or "")


def escaped_path(value: str) -> str:
    return quote(urlsplit(text_of(value)).path, safe="%/:@!$&'()*+,;=~")


def query(value: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(text_of(value)).query, keep_blank_values=True)


def is_local_multicast(value: str) -> bool:
    ip = address(value)
    return bool(ip.is_multicast and (str(ip).startswith("224.0.0.") or str(ip).startswith("ff02:")))


def is_global(value: str) -> bool:
    ip = address(value)
    special = ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local
    return not special and str(ip) != "255.255.255.255"


def holds_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(one in values for one in wanted)
