"""Field selectors: which fields a kind can be selected by, what the store keeps of them, and the text of a selector.

The fields of built-in kinds stand in `FIELDS`, those of a CRD in its selectableFields. What does not parse or cannot be
asked for is a 400.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devkube.errors import bad_request
from devkube.kinds import Object, Resource
from devkube.selectors import Requirement

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
    """A parsed field selector. `name` is the one that metadata.name must have, if it asks so."""

    terms: tuple[Requirement, ...] = ()

    @property
    def name(self) -> str | None:
        return next((v for t in self.terms if t.key == "metadata.name" and t.operator == "=" for v in t.values), None)

    def matches(self, namespace: str, name: str, found: Mapping[str, str]) -> bool:
        """`found` as `values` makes it."""
        own = {"metadata.name": name, "metadata.namespace": namespace}
        asked = ((term, own.get(term.key, found.get(term.key, ""))) for term in self.terms)
        return all((value in term.values) == (term.operator == "=") for term, value in asked)


def parse_fields(text: str, fields: Iterable[str], *, own: bool = True) -> Fields:
    """`own`: the kind has fields of its own; of others upstream tells which two there are."""
    allowed, terms = frozenset(fields), []
    for term in re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL):
        match = re.fullmatch(r"([^=!\\]*)(!=|==|=)((?:[^,=\\]|\\[\\,=])*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid field selector: can't understand '{term}'; write \\ before , = and \\")
        if match[1] not in allowed:
            known = '"metadata.name", "metadata.namespace"'
            told = f'"{match[1]}" is not a known field selector: only {known}'
            raise bad_request(f"field label not supported: {match[1]}" if own else told)
        value = re.sub(r"\\(.)", r"\1", match[3])
        terms.append(Requirement(match[1], "!=" if match[2] == "!=" else "=", frozenset([value])))
    return Fields(tuple(terms))
