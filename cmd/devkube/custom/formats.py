"""The formats of strings that a schema may name: those that CRDs really use (of apiextensions' list of supported ones).

Any other is no constraint. Patterns are RE2, Go's own dialect.
"""

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

_PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_GO_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART})+)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGER: Final = _SECONDS | {"d": 86400.0, "w": 604800.0}
_WORDS = re.compile(
    r"(?P<ns>ns$|nano)|(?P<us>(us|µs)$|micro)|(?P<ms>ms$|milli)|(?P<s>s$|sec)|(?P<m>m$|min)|(?P<h>(h|hr)$|hour)"
    r"|(?P<d>d$|day)|(?P<w>(w|wk)$|week)"
)
_DATETIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


@lru_cache(4096)
def pattern(text: str) -> Any:
    """A compiled RE2 pattern. ValueError with RE2's words when it is none."""
    import re2  # not needed for a start

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode()) from None


def parse_bytes(text: str) -> bytes:
    if not text:
        raise ValueError("no bytes")
    return base64.b64decode(text, validate=True)


def parse_datetime(text: str) -> datetime:
    """RFC 3339."""
    if _DATETIME.fullmatch(text) is None:
        raise ValueError(f"Invalid date-time formatted string {text}")
    return datetime.fromisoformat(text.upper()).astimezone(UTC)


def parse_date(text: str) -> datetime:
    return parse_datetime(f"{text}T00:00:00Z")


def parse_duration(text: str) -> timedelta:
    """Go's time.ParseDuration (`1h30m`, `-1.5s`), else the sum of what looks like `2 weeks` in it, as kube-openapi's
    strfmt has it."""
    if _GO_DURATION.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text, re.ASCII))
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    found = [(int(number), _WORDS.match(word.lower())) for number, word in re.findall(r"([0-9]+)\s*([A-Za-zµ]+)", text)]
    if not any(word for _, word in found):
        raise ValueError(f"unable to parse {text} as duration")
    return timedelta(seconds=sum(number * _LONGER[word.lastgroup or ""] for number, word in found if word))


def _matches(text: str, flags: int = 0) -> Callable[[str], Any]:
    compiled = re.compile(text, re.ASCII | flags)

    def parse(value: str) -> None:
        if compiled.fullmatch(value) is None:
            raise ValueError(value)

    return parse


def _network(text: str) -> Any:
    address, _, length = text.partition("/")
    if not length.isdecimal():
        raise ValueError(text)
    return ipaddress.ip_interface(f"{address}/{int(length)}")


_HOST: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_TOP: Final = r"[a-z]{2,63}"  # the last of several labels
# Each refuses with a ValueError.
FORMATS: Final[dict[str, Callable[[str], Any]]] = {
    "uri": _matches(r"(/|[a-z][a-z0-9+.-]*:)[^\s\x00-\x1f]*", re.I),
    "email": _matches(r"([^<>@]*<)?[^\s@<>,;]+@[^\s@<>,;]+>?"),
    "hostname": _matches(rf"(?=.{{1,255}}$){_HOST}((\.{_HOST})*\.{_TOP})?", re.I),
    "ipv4": ipaddress.IPv4Address,
    "ipv6": lambda text: ipaddress.IPv6Address(text.replace("%", " ")),  # no zones
    "cidr": _network,
    "uuid": _matches("[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.I),
    "byte": parse_bytes,
    "date": parse_date,
    "duration": parse_duration,
    "datetime": parse_datetime,
}


def fits(name: str, text: str) -> bool:
    """Whether a string is of a format; any is where the name means nothing."""
    try:
        FORMATS.get(name.replace("-", ""), str)(text)
    except (ValueError, OverflowError):
        return False
    return True
