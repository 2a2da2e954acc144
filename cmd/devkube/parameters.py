"""Query parameters as values: what may be asked with which verb, checked as upstream checks it.

Rules and texts: apimachinery's meta/v1/validation (create, update, patch) and meta/internalversion/validation (list,
watch), and its string conversions. Options of deletions: `deleteoptions`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from devkube import fieldselectors, selectors
from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import FieldValidation, Resource
from devkube.requests import Request


def flag(text: str | None) -> bool:
    """As apimachinery's conversion of booleans: everything but false, 0 and absence is true."""
    return text is not None and text.lower() not in ("false", "0")


def number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax (query parameter {name})') from None


def refused(kind: str, causes: Iterable[Cause]) -> StatusError:
    return invalid(About("meta.k8s.io", "", "", kind), causes)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in supported)
    return Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}', field)


@dataclass(frozen=True)
class Write:
    """Options of create, update and patch."""

    dry_run: bool
    manager: str
    validation: FieldValidation
    force: bool
    asked: Mapping[str, str]  # the query

    def options(self, kind: str) -> dict[str, Any]:
        """As the object that admission reviews show: what the client said, no defaults."""
        found: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            found["dryRun"] = ["All"]
        return found | {key: self.asked[key] for key in ("fieldManager", "fieldValidation") if self.asked.get(key)}


def write(request: Request, kind: str, *, applies: bool = False) -> Write:
    """`kind`: CreateOptions, UpdateOptions or PatchOptions. The default manager is the client's program."""
    query, causes = request.query, list[Cause]()
    manager = query.get("fieldManager", "")
    if kind == "PatchOptions":
        if applies and not manager:
            causes.append(Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
        if not applies and "force" in query:
            told = "Forbidden: may not be specified for non-apply patch"
            causes.append(Cause("FieldValueForbidden", told, "force"))
    if len(manager) > 128:
        causes.append(Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"))
    if bad := next(((at, c) for at, c in enumerate(manager) if not c.isprintable()), None):
        told = f'Invalid value: "{manager}": invalid character U+{ord(bad[1]):04X} (at position {bad[0]})'
        causes.append(Cause("FieldValueInvalid", told, "fieldManager"))
    dry = query.get("dryRun", "")
    if dry not in ("", "All"):
        causes.append(unsupported("dryRun", dry, ["All"]))
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(unsupported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise refused(kind, causes)
    program = "".join(c for c in request.agent.partition("/")[0] if c.isprintable())[:128]
    return Write(
        dry == "All",
        manager or program or "unknown",
        cast(FieldValidation, validation),
        flag(query.get("force")),
        query,
    )


@dataclass(frozen=True)
class Read:
    """Options of list, watch and deletecollection."""

    labels: selectors.Matcher | None
    fields: fieldselectors.Fields
    version: str
    match: str
    limit: int
    token: str
    timeout: int | None
    bookmarks: bool
    initial: bool | None

    @property
    def selective(self) -> bool:
        return self.labels is not None or bool(self.fields.terms)


def read(query: Mapping[str, str], resource: Resource, *, name: str = "", watch: bool = False) -> Read:
    match, version, token = (query.get(k, "") for k in ("resourceVersionMatch", "resourceVersion", "continue"))
    initial = flag(query["sendInitialEvents"]) if "sendInitialEvents" in query else None
    if version and not version.isdecimal():
        told = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise refused("ListOptions", [Cause("FieldValueInvalid", told, "resourceVersion")])
    causes = _watched(match, token, initial) if watch else _listed(match, version, token, initial)
    if causes:
        raise refused("ListOptions", causes)
    own = resource.custom or resource.key in fieldselectors.FIELDS
    fields = fieldselectors.parse_fields(query.get("fieldSelector", ""), fieldselectors.supported(resource), own=own)
    if name:
        if fields.terms and fields.name != name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        if not fields.terms:
            fields = fieldselectors.Fields((selectors.Requirement("metadata.name", "=", frozenset([name])),))
    labels = query.get("labelSelector", "")
    return Read(
        labels=selectors.parse_labels(labels) if labels.strip() else None,
        fields=fields,
        version=version,
        match=match,
        limit=number(query, "limit") or 0,
        token=token,
        timeout=number(query, "timeoutSeconds"),
        bookmarks=flag(query.get("allowWatchBookmarks")),
        initial=initial,
    )


def _forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def _listed(match: str, version: str, token: str, initial: bool | None) -> list[Cause]:
    field, causes = "resourceVersionMatch", list[Cause]()
    if match:
        if not version:
            causes.append(_forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if token:
            causes.append(_forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            causes.append(unsupported(field, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and version == "0":
            told = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(_forbidden(field, told))
    if initial is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watched(match: str, token: str, initial: bool | None) -> list[Cause]:
    field, causes = "resourceVersionMatch", list[Cause]()
    if initial is not None and match != "NotOlderThan":
        causes.append(_forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if initial is None:
            told = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            causes.append(_forbidden(field, told))
        if match != "NotOlderThan":
            causes.append(unsupported(field, match, ["NotOlderThan"]))
        if token:
            causes.append(_forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    return causes
