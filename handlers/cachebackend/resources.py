"""What a container's resources may say, as the API server would judge the Pod that is rendered from them.

Nine rules, each named. Both maps are checked on their own, then against each other.

Rules: seed 004, "Resources"; spec/inferencecache.md section 6.3; k8s.io/kubernetes/pkg/apis/core/validation.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from crds.cachebackend import ResourceRequirements
from handlers import quantity
from handlers.admission.decision import Violation

STANDARD: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
HUGE: Final = "hugepages-"
_PREFIX: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"(?=.{1,63}$)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_RESERVED: Final = ("kubernetes.io", "requests.kubernetes.io")

Amounts = Mapping[str, Fraction]


def violations(resources: ResourceRequirements, at: str) -> list[Violation]:
    """Every violation below the path `at`, such as `spec.remoteStorage.redis.resources`."""
    limits, requests = resources.limits or {}, resources.requests or {}
    found: list[Violation] = []
    if resources.claims:
        detail = "claims are not supported: the rendered Pod has no resourceClaims"
        found.append(Violation("Forbidden", f"{at}.claims", detail))
    for below, given in (("requests", requests), ("limits", limits)):
        for name, value in given.items():
            found += _amount(name, value, f"{at}.{below}[{name}]")
    read = {"limits": _read(limits), "requests": _read(requests)}
    found += _together(read["requests"], read["limits"], at)
    return found


def _read(given: Mapping[str, str | int]) -> dict[str, Fraction]:
    """What can be read; what cannot is a violation of its own."""
    found = {}
    for name, value in given.items():
        try:
            found[name] = quantity.parse(value)
        except quantity.QuantityError:
            continue
    return found


def _amount(name: str, value: str | int, at: str) -> Iterator[Violation]:
    if why := wrong_name(name):
        yield Violation("Invalid", at, why, name)
    try:
        amount = quantity.parse(value)
    except quantity.QuantityError as error:
        yield Violation("Invalid", at, str(error), str(value))
        return
    if amount < 0:
        yield Violation("Invalid", at, "must be greater than or equal to 0", str(value))
    if extended(name) and amount.denominator != 1:
        yield Violation("Invalid", at, "must be an integer: it is allocated in whole units", str(value))
    page = _page(name)
    if page and amount > 0 and amount % page != 0:
        yield Violation("Invalid", at, f"must be a whole number of pages of {name.removeprefix(HUGE)}", str(value))


def wrong_name(name: str) -> str:
    """Why it is no name of a container resource, "" when it is one."""
    if name in STANDARD:
        return ""
    if name.startswith(HUGE):
        return "" if _page(name) else "hugepages- must be followed by a page size such as 2Mi"
    prefix, slash, rest = name.partition("/")
    if not slash:
        return "must be cpu, memory, ephemeral-storage, hugepages-<size> or a vendor's example.com/name"
    if prefix in _RESERVED:
        return f"the prefix {prefix}/ is reserved for Kubernetes"
    if not _PREFIX.fullmatch(prefix) or not _NAME.fullmatch(rest):
        return "must be a qualified name such as example.com/name"
    return ""


def extended(name: str) -> bool:
    return name not in STANDARD and not name.startswith(HUGE)


def _page(name: str) -> Fraction | None:
    if not name.startswith(HUGE):
        return None
    try:
        size = quantity.parse(name.removeprefix(HUGE))
    except quantity.QuantityError:
        return None
    return size if size > 0 else None


def _together(requests: Amounts, limits: Amounts, at: str) -> Iterator[Violation]:
    for name, request in requests.items():
        limit = limits.get(name)
        if name in STANDARD:
            if limit is not None and limit < request:
                yield Violation("Invalid", f"{at}.limits[{name}]", "must be greater than or equal to the request")
        elif limit is None:
            detail = "a limit of the same amount must be set too: it cannot be overcommitted"
            yield Violation("Invalid", f"{at}.requests[{name}]", detail)
        elif limit != request:
            yield Violation("Invalid", f"{at}.limits[{name}]", "must equal the request: it cannot be overcommitted")
