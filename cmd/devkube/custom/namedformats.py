"""CEL's `format.dns1123Label().validate(text)` and its siblings: what is wrong with a name, as an optional list.

Python cannot hand an optional to the CEL library. What `validate` gives is a type of its own for the checker, with the
members of an optional that rules use (hasValue, value), and at evaluation a list that is empty or holds the
list of faults. Other uses of it as an optional do not compile, and are refused like `format.named`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from devkube.builtin import names
from devkube.custom import formats, functions

Faults = Sequence[str]


def _prefix(check: Callable[[str], Faults]) -> Callable[[str], Faults]:
    """A prefix of generated names may end in a dash, which a name may not."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> Faults:
    return () if formats.FORMATS["uri"](text) else (f'parse "{text}": invalid URI for request',)


def _as(name: str, words: str) -> Callable[[str], Faults]:
    check = formats.FORMATS[name]
    return lambda text: () if check(text) else (words,)


CHECKS: Final[Mapping[str, Callable[[str], Faults]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified,
    "dns1123LabelPrefix": _prefix(names.dns_label),
    "dns1123SubdomainPrefix": _prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix(names.dns_1035_label),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _as("uuid", "does not match the UUID format"),
    "byte": _as("byte", "invalid base64"),
    "date": _as("date", "invalid date"),
    "datetime": _as("datetime", "invalid datetime"),
}


def constant(name: str) -> Callable[[], str]:
    return lambda: functions.tagged("f", name)


def validate(form: str, text: str) -> list[list[str]]:
    faults = list(CHECKS[functions.text_of(form)](text))
    return [faults] if faults else []


def value(found: list[Any]) -> Any:
    if not found:
        raise ValueError("optional.none() dereference")
    return found[0]
