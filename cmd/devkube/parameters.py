"""Query parameters as values: what may be asked with which verb, checked as upstream checks it.

Rules: apimachinery's meta/v1/validation (create, update, patch) and meta/internalversion/validation (list, watch).
Options of deletions: `deleting`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from devkube import causes, selectors
from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import FieldValidation, Resource
from devkube.requests import Request
from devkube.store import Stored


def flag(text: str | None) -> bool:
    """As apimachinery's conversion of booleans: everything but false, 0 and absence is true."""
    return text is not None and text.lower() not in ("false", "0")


def number(query: Mapping[str, str], name: str) -> int | None:
    """One that Go could hold: what the parameter means need not end in numbers of any size."""
    text = query.get(name)
    if text is None:
        return None
    number = re.fullmatch("[+-]?[0-9]{1,19}", text)
    if number and -(2**63) <= (found := int(text)) < 2**63:
        return found
    why = "value out of range" if re.fullmatch("[+-]?[0-9]+", text) else "invalid syntax"
    raise bad_request(f'strconv.ParseInt: parsing "{text}": {why} (query parameter {name})')


def is_version(text: str) -> bool:
    """Whether it may be a resourceVersion."""
    return text.isdecimal() and len(text) < 20


def refused(kind: str, found: Iterable[Cause]) -> StatusError:
    return invalid(About("meta.k8s.io", "", "", kind), found)


def _check(kind: str, checks: Iterable[tuple[object, Cause]]) -> None:
    if found := [cause for wrong, cause in checks if wrong]:
        raise refused(kind, found)


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
    query = request.query
    manager, dry = query.get("fieldManager", ""), query.get("dryRun")
    validation = query.get("fieldValidation") or "Warn"
    known, forced = ("Ignore", "Warn", "Strict"), kind == "PatchOptions" and not applies and "force" in query
    checks = (
        (applies and not manager, causes.required("fieldManager", "is required for apply patch")),
        (forced, causes.forbidden("force", "may not be specified for non-apply patch")),
        (len(manager) > 128, causes.too_long("fieldManager", 128)),
        (not manager.isprintable(), causes.invalid("fieldManager", manager, "has characters that cannot be printed")),
        (dry not in (None, "All"), causes.unsupported("dryRun", dry, ["All"])),
        (validation not in known, causes.unsupported("fieldValidation", validation, known)),
    )
    _check(kind, checks)
    program = "".join(c for c in request.agent.partition("/")[0] if c.isprintable())[:128]
    checked = cast(FieldValidation, validation)
    return Write(dry == "All", manager or program or "unknown", checked, flag(query.get("force")), query)


@dataclass(frozen=True)
class Read:
    """Options of list, watch and deletecollection."""

    predicate: Callable[[Stored], bool] | None  # which objects the selectors choose; None: all
    version: str
    exact: bool
    limit: int
    token: str
    timeout: int | None
    bookmarks: bool
    initial: bool | None


def read(query: Mapping[str, str], resource: Resource, *, watch: bool = False) -> Read:
    match, version, token = (query.get(k, "") for k in ("resourceVersionMatch", "resourceVersion", "continue"))
    initial = flag(query["sendInitialEvents"]) if "sendInitialEvents" in query else None
    field, known = "resourceVersionMatch", ["NotOlderThan"] if watch else ["Exact", "NotOlderThan"]

    if version and not is_version(version):
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{version}": it must be a number')
    if token and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")

    def forbidden(why: str, name: str = field, at: str = "") -> Cause:
        return causes.forbidden(at or name, f"{name} {why}")

    streams = forbidden(f"requires setting {field} to NotOlderThan", "sendInitialEvents", field)
    checks = (
        (match and match not in known, causes.unsupported(field, match, known)),
        (match and token, forbidden("is forbidden when continue is provided")),
        (watch and match and initial is None, forbidden("is forbidden for watch unless sendInitialEvents is provided")),
        (watch and initial is not None and match != "NotOlderThan", streams),
        (not watch and match and not version, forbidden("is forbidden unless resourceVersion is provided")),
        (match == "Exact" and version == "0", forbidden('"exact" is forbidden for resourceVersion "0"')),
        (not watch and initial is not None, forbidden("is forbidden for list", "sendInitialEvents")),
    )
    _check("ListOptions", checks)
    return Read(
        predicate=_predicate(query, resource),
        version=version,
        exact=match == "Exact",
        limit=(number(query, "limit") or 0) if version != "0" or token else 0,  # what a cache has comes as a whole
        token=token,
        timeout=number(query, "timeoutSeconds"),
        bookmarks=flag(query.get("allowWatchBookmarks")),
        initial=initial,
    )


def _predicate(query: Mapping[str, str], resource: Resource) -> Callable[[Stored], bool] | None:
    fields = selectors.parse_fields(query.get("fieldSelector", ""), selectors.supported(resource))
    text = query.get("labelSelector", "")
    labels = selectors.parse_labels(text) if text.strip() else None
    if labels is None and not fields.terms:
        return None
    return lambda one: (labels is None or labels(one.labels)) and fields.matches(one.namespace, one.name, one.fields)
