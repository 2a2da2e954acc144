"""A container's environment as its process will see it, as far as a manifest tells.

The last of two variables of one name counts. `$(NAME)` is replaced by what was defined before it, `$$` is a dollar
sign; what comes from Secrets, ConfigMaps and fields is unknown.

Rules: core/v1 Container (the kubelet's expansion); spec/kernelcache.md section 2.6.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from handlers.outcome import Object

_REFERENCE: Final = re.compile(r"\$(\$|\(([^()$\s]*)\))")


class Environment(NamedTuple):
    """`values` are known; `references` are variables whose value is elsewhere, as their source tells. `unsure` are
    literal ones that refer to what is not known."""

    values: Mapping[str, str]
    references: Mapping[str, Any]
    unsure: frozenset[str]
    sources: tuple[Any, ...]  # envFrom


class Expanded(NamedTuple):
    text: str
    whole: bool  # everything that it refers to is known


def read(container: Object) -> Environment:
    values: dict[str, str] = {}
    references: dict[str, Any] = {}
    unsure: set[str] = set()
    for one in container.get("env") or ():
        name = one.get("name", "")
        for old in (values, references):
            old.pop(name, None)
        unsure.discard(name)
        if one.get("valueFrom") is not None:
            references[name] = one["valueFrom"]
            continue
        made = expand(one.get("value") or "", values)
        values[name] = made.text
        if not made.whole:
            unsure.add(name)
    return Environment(values, references, frozenset(unsure), tuple(container.get("envFrom") or ()))


def expand(text: str, values: Mapping[str, str], unsure: frozenset[str] | set[str] = frozenset()) -> Expanded:
    """What is not known stays as it is written."""
    whole = True

    def replaced(found: re.Match[str]) -> str:
        nonlocal whole
        if found[1] == "$":
            return "$"
        value = values.get(found[2])
        whole = whole and value is not None and found[2] not in unsure
        return found[0] if value is None else value

    return Expanded(_REFERENCE.sub(replaced, text), whole)
