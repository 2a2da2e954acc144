"""Selectors of labels, as text (query parameters) and as LabelSelector objects, and of fields.

The fields of built-in kinds stand in `FIELDS`, those of a CRD in its selectableFields; the store keeps what `values`
finds of an object. What does not parse or cannot be asked for is a 400.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from devkube.builtin import names
from devkube.errors import bad_request
from devkube.kinds import Object, Resource

Matcher = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True)
class Requirement:
    key: str
    operator: str  # as written, "exists" or "!"
    values: frozenset[str] = frozenset()

    def matches(self, found: Mapping[str, str]) -> bool:
        value = found.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _NUMBER.fullmatch(value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


_NUMBER: Final = re.compile(r"[+-]?\d+")
_WORD: Final = r"[^\s=!,()<>]+"
_REQUIREMENT: Final = re.compile(
    rf"""\s*(?: !\s*(?P<absent>{_WORD}) | (?P<key>{_WORD})
        (?: \s*(?P<operator>==|!=|=|<|>)\s*(?P<value>(?:{_WORD})?) | \s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\) )?
    )\s*(?P<end>,\s*(?=\S)|$)""",
    re.VERBOSE,
)


@lru_cache(1024)
def parse_labels(text: str) -> Matcher:
    text, at, found = text.strip(), 0, list[Requirement]()
    while at < len(text):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            told = "found no label, with one of in, notin, =, ==, !=, <, > and values, or with ! before it"
            raise bad_request(f"unable to parse requirement: {told} in '{text[at:]}'")
        found.append(_requirement(match))
        at = match.end()
    return lambda labels: all(one.matches(labels) for one in found)


def _requirement(match: re.Match[str]) -> Requirement:
    key, operator = match["absent"] or match["key"], match["set"] or match["operator"]
    if told := ", ".join(names.qualified(key)):
        raise bad_request(f'unable to parse requirement: Invalid value: "{key}": {told}')
    if operator is None:
        return Requirement(key, "!" if match["absent"] else "exists")
    values = [one.strip() for one in match["values"].split(",")] if match["set"] else [match["value"]]
    for value in values:
        wrong = list(names.label_value(value))
        if operator in ("<", ">") and not _NUMBER.fullmatch(value):
            wrong = ["for 'Gt', 'Lt' operators, the value must be an integer"]
        if wrong:
            raise bad_request(f'unable to parse requirement: Invalid value: "{value}": {", ".join(wrong)}')
    return Requirement(key, operator, frozenset(values))


_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A metav1.LabelSelector object: None selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(k) == v for k, v in wanted.items()) and all(
        _expression(one).matches(labels) for one in selector.get("matchExpressions") or ()
    )


def _expression(one: Mapping[str, Any]) -> Requirement:
    operator = _OPERATORS.get(str(one.get("operator")))
    if operator is None:
        raise bad_request(f'"{one.get("operator")}" is not a valid label selector operator')
    return Requirement(str(one.get("key")), operator, frozenset(one.get("values") or ()))


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector object as the text of a query, by key, as Scale's status.selector tells it."""
    found = [(key, f"{key}={value}") for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for one in map(_expression, (selector or {}).get("matchExpressions") or ()):
        values = f" {one.operator} ({','.join(sorted(one.values))})" if one.values else ""
        found.append((one.key, f"{'!' if one.operator == '!' else ''}{one.key}{values}"))
    return ",".join(text for _, text in sorted(found, key=lambda one: one[0]))


_POD_SPEC: Final = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "hostNetwork")
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
# Of built-in kinds, besides metadata.name and metadata.namespace; upstream: AddFieldLabelConversionFunc per kind.
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        *(f"spec.{name}" for name in _POD_SPEC),
        *(f"status.{name}" for name in ("phase", "podIP", "nominatedNodeName")),
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "jobs.batch": ("status.successful",),
    "events": (*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "source", "type"),
}
_ABSENT: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.successful": "0"}


def supported(resource: Resource) -> tuple[str, ...]:
    """The fields that this resource can be selected by."""
    common = ("metadata.name", "metadata.namespace") if resource.namespaced else ("metadata.name",)
    return common + FIELDS.get(resource.key, ()) + resource.selectable


def values(resource: Resource, obj: Object) -> dict[str, str]:
    """What the store keeps of an object so that field selectors need not decode it."""
    found = {}
    for path in FIELDS.get(resource.key, ()) + resource.selectable:
        value: Any = obj
        for name in ("source.component" if path == "source" else path).split("."):  # of an Event
            value = value.get(name) if isinstance(value, dict) else None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found[path] = _ABSENT.get(path, "") if value is None else text
    return found


@dataclass(frozen=True)
class Fields:
    """A parsed field selector."""

    terms: tuple[Requirement, ...] = ()

    def matches(self, namespace: str, name: str, found: Mapping[str, str]) -> bool:
        """`found` as `values` makes it."""
        own = {"metadata.name": name, "metadata.namespace": namespace}
        asked = ((term, own.get(term.key, found.get(term.key, ""))) for term in self.terms)
        return all((value in term.values) == (term.operator == "=") for term, value in asked)


def parse_fields(text: str, fields: Iterable[str]) -> Fields:
    allowed, terms = frozenset(fields), []
    for term in re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL):
        match = re.fullmatch(r"([^=!\\]*)(!=|==|=)((?:[^,=\\]|\\[\\,=])*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid field selector: can't understand '{term}'; write \\ before , = and \\")
        if match[1] not in allowed:
            raise bad_request(f"field label not supported: {match[1]}")
        value = re.sub(r"\\(.)", r"\1", match[3])
        terms.append(Requirement(match[1], "!=" if match[2] == "!=" else "=", frozenset([value])))
    return Fields(tuple(terms))
