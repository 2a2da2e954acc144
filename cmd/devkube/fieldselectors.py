"""Field selectors: which fields a kind can be selected by, what the store keeps of them, and the text of a selector.

Grammar and messages are those of apimachinery's `fields.ParseSelector`; the fields of built-in kinds stand in `FIELDS`,
those of a CRD in its selectableFields. What does not parse or cannot be asked for is a 400.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube.errors import bad_request
from devkube.kinds import Object, Resource
from devkube.selectors import Requirement

# Of built-in kinds, besides metadata.name and metadata.namespace; upstream: AddFieldLabelConversionFunc per kind.
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "jobs.batch": ("status.successful",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
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
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if path == "source":  # of an Event: its component
            value = (obj.get("source") or {}).get("component")
        found[path] = _text(value, _ABSENT.get(path, ""))
    return found


def _text(value: Any, absent: str) -> str:
    if value is None:
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Fields:
    """A parsed field selector. `name` is the one that metadata.name must have, if it asks so."""

    terms: tuple[Requirement, ...] = ()

    @property
    def name(self) -> str | None:
        return next((v for t in self.terms if t.key == "metadata.name" and t.operator == "=" for v in t.values), None)

    def matches(self, namespace: str, name: str, found: Mapping[str, str]) -> bool:
        """`found` as `values` makes it."""
        for term in self.terms:
            if term.key == "metadata.name":
                value = name
            elif term.key == "metadata.namespace":
                value = namespace
            else:
                value = found.get(term.key, "")
            if (value in term.values) != (term.operator == "="):
                return False
        return True


def parse_fields(text: str, fields: Iterable[str], *, own: bool = True) -> Fields:
    """`own`: the kind has fields of its own; of others upstream tells which two there are."""
    fields = tuple(fields)
    allowed, terms = frozenset(fields), []
    for term in re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL):
        match = re.fullmatch(r"((?:[^=!\\]|!(?!=))*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
        key, operator, value = match[1], match[2], _unescaped(match[3])
        if key not in allowed:
            if own:
                raise bad_request(f"field label not supported: {match[1]}")
            known = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{match[1]}" is not a known field selector: only {known}')
        terms.append(Requirement(key, "!=" if operator == "!=" else "=", frozenset([value])))
    return Fields(tuple(terms))


def _unescaped(value: str) -> str:
    if match := re.search(r"\\(?![\\,=])(.?)", re.sub(r"\\[\\,=]", "", value), re.DOTALL):
        raise bad_request(f"invalid field selector: invalid escape sequence: \\{match[1]}")
    if match := re.search(r"[,=]", re.sub(r"\\[\\,=]", "", value)):
        raise bad_request(f"invalid field selector: unescaped character in value: {ord(match[0])}")
    return re.sub(r"\\([\\,=])", r"\1", value)
