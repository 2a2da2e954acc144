"""The formats of strings that a schema may name (kube-openapi's strfmt, apiextensions' list of supported ones).

A format outside the list is no constraint, as upstream strips it; the CRD's writer gets a warning. Patterns are RE2,
Go's own dialect. Where a format is lax (`hostname`, `email`, `uri`), it is as lax as upstream.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from devkube.custom import times


@lru_cache(4096)
def pattern(text: str) -> Any:
    """A compiled RE2 pattern. ValueError with RE2's words when it is none."""
    import re2  # not needed for a start

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        told = error.args[0] if error.args else error
        raise ValueError(told.decode() if isinstance(told, bytes) else str(told)) from None


def parse_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, OverflowError, binascii.Error):
            return False
        return True

    return check


def _matches(text: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(text, re.ASCII | flags)
    return lambda value: compiled.fullmatch(value) is not None


def _uri(text: str) -> Any:
    """What Go's url.ParseRequestURI takes: an absolute URI or an absolute path, fragments being part of the path."""
    if text == "*":
        return None
    scheme = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text)
    if not (scheme or text.startswith("/")) or re.search(r"[\x00-\x1f\x7f]|%(?![0-9a-fA-F]{2})", text):
        raise ValueError(text)
    rest = text[scheme.end() :] if scheme else text
    if not rest.startswith("//"):
        if not rest:
            return None
        if scheme and not rest.startswith("/"):
            return None  # opaque, as mailto:
        return None
    host = re.split(r"[/?]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
    name, _, port = host.rpartition("]") if "]" in host else host.partition(":")
    if re.search(r"[ #^{}|\\`]", host) or re.fullmatch(r":?\d*", port, re.ASCII) is None or "[" in host[1:]:
        raise ValueError(text)
    return name


def _sloppy(text: str) -> Any:
    """An address as Go's older parser took it: leading zeros are no octal."""
    return ipaddress.ip_address(re.sub(r"(^|\.|:)0+(?=\d+(\.|$))", r"\1", text))


def _ipv4(text: str) -> Any:
    if "." not in text or "%" in text:
        raise ValueError(text)
    return _sloppy(text)


def _ipv6(text: str) -> Any:
    if ":" not in text or "%" in text:
        raise ValueError(text)
    return ipaddress.ip_address(text)


def _cidr(text: str) -> Any:
    address, _, length = text.partition("/")
    if re.fullmatch(r"\d+", length, re.ASCII) is None or "%" in text:
        raise ValueError(text)
    return ipaddress.ip_interface(f"{_sloppy(address)}/{int(length)}")


def _email(text: str) -> bool:
    """An address of RFC 5322, with or without a name before it."""
    inner = re.fullmatch(r"(?:[^<>@]*|\"(?:[^\"\\]|\\.)*\"\s*)<([^<>]*)>", text.strip())
    address = inner[1] if inner else text.strip()
    atom = r"[^\s@<>(),;:\\\"\[\].]+"
    local = rf"(?:{atom}(?:\.{atom})*|\"(?:[^\"\\\r\n]|\\.)*\")"
    return re.fullmatch(rf"{local}@(?:{atom}(?:\.{atom})*|\[[^\[\]\\\s]*\])", address) is not None


def _hostname(text: str) -> bool:
    """One label, or labels before a name of two letters or more; symbols and letters of any script are allowed."""
    return (
        len(text.encode()) <= 255
        and all(len(label.encode()) <= 63 for label in text.split("."))
        and pattern(_HOSTNAME).search(text) is not None
    )


_CHAR: Final = r"[a-zA-Z0-9\pS\pL]"
_HOSTNAME: Final = (
    rf"^(?:{_CHAR}(?:-?{_CHAR}{{0,62}})?"
    rf"|(?:{_CHAR}(?:[-a-zA-Z0-9\pS\pL]{{0,61}}{_CHAR})?\.)+(?:[a-zA-Z\pL]){{2,63}})$"
)


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _card(digits):
        return False
    doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits))]
    return sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    return sum((10 - i) * (10 if c == "X" else int(c)) for i, c in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    return (
        re.fullmatch(r"[0-9]{13}", digits) is not None
        and sum(int(c) * (1, 3)[i % 2] for i, c in enumerate(digits)) % 10 == 0
    )


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_long_name = _matches(rf"{_LABEL}(\.{_LABEL})*")
_ssn = _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_TONE = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"


def _mac_form(size: int) -> str:
    """`size` bytes in pairs, in fours, or in one."""
    pairs = rf"[0-9a-f]{{2}}(?P<by{size}>[:-])[0-9a-f]{{2}}((?P=by{size})[0-9a-f]{{2}}){{{size - 2}}}"
    return rf"{pairs}|[0-9a-f]{{4}}(\.[0-9a-f]{{4}}){{{size // 2 - 1}}}|[0-9a-f]{{{2 * size}}}"


_mac = _matches("|".join(_mac_form(size) for size in (6, 8, 20)), re.I)
_card = _matches(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
)


def _uuid(third: str = "[0-9a-f]", fourth: str = "[0-9a-f]") -> Callable[[str], bool]:
    return _matches(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}[0-9a-f]{{3}}-?{fourth}[0-9a-f]{{3}}-?[0-9a-f]{{12}}", re.I)


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-f]{24}", re.I),
    "uri": _parses(_uri),
    "email": _email,
    "hostname": _hostname,
    "ipv4": _parses(_ipv4),
    "ipv6": _parses(_ipv6),
    "cidr": _parses(_cidr),
    "mac": _mac,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": lambda text: len(text) == 11 and _ssn(text),
    "hexcolor": _matches(r"#?([0-9a-f]{3}|[0-9a-f]{6})", re.I),
    "rgbcolor": _matches(rf"rgb\(\s*{_TONE}(\s*,\s*{_TONE}){{2}}\s*\)"),
    "byte": lambda text: text != "" and _parses(parse_bytes)(text),
    "password": lambda text: True,
    "date": times.is_date,
    "duration": _parses(times.parse_duration),
    "datetime": times.is_datetime,
    "k8sshortname": lambda text: len(text) <= 63 and _matches(_LABEL)(text),
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
}


def checker(name: str) -> Callable[[str], bool] | None:
    """The check of a format of strings, None where the name means nothing."""
    return FORMATS.get(name.replace("-", ""))


def recognized(name: str, kind: str) -> bool:
    """Whether a format constrains values of this type (`GetUnrecognizedFormats`)."""
    if kind in ("", "string"):
        return checker(name) is not None
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
