"""Query parameters and DeleteOptions as values: what may be asked with which verb, checked as upstream checks it.

Rules and texts: apimachinery's meta/v1/validation (create, update, patch, delete) and meta/internalversion/validation
(list, watch), and its string conversions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from devkube import bodies, selectors
from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import FieldValidation, Resource
from devkube.requests import Request
from devkube.values import go_type

_POLICIES: Final = ("Foreground", "Background", "Orphan")


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


def _options(kind: str, causes: Iterable[Cause]) -> StatusError:
    return invalid(About("meta.k8s.io", "", "", kind), causes)


def _unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in supported)
    return Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}', field)


# --------------------------------------------------------------------------------------------------- writes


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
        causes.append(_unsupported("dryRun", dry, ["All"]))
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(_unsupported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise _options(kind, causes)
    program = "".join(c for c in request.agent.partition("/")[0] if c.isprintable())[:128]
    return Write(
        dry == "All",
        manager or program or "unknown",
        cast(FieldValidation, validation),
        flag(query.get("force")),
        query,
    )


# --------------------------------------------------------------------------------------------------- deletes


@dataclass(frozen=True)
class Delete:
    """DeleteOptions, from the body or from the query. `policy` is empty where the client leaves it open."""

    dry_run: bool = False
    grace: int | None = None
    policy: str = ""
    uid: str | None = None
    version: str | None = None
    orphan: bool | None = None

    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace is not None:
            found["gracePeriodSeconds"] = self.grace
        conditions = {k: v for k, v in (("uid", self.uid), ("resourceVersion", self.version)) if v is not None}
        if conditions:
            found["preconditions"] = conditions
        if self.policy:
            found["propagationPolicy"] = self.policy
        if self.dry_run:
            found["dryRun"] = ["All"]
        return found


def delete(request: Request) -> Delete:
    query = request.query
    if request.body.strip():
        found, _ = bodies.decode_object(request.body, request.content_type, request.resource, kind="DeleteOptions")
    else:
        found = {k: query[k] for k in ("propagationPolicy",) if k in query}
        if (grace := number(query, "gracePeriodSeconds")) is not None:
            found["gracePeriodSeconds"] = grace
        if "orphanDependents" in query:
            found["orphanDependents"] = flag(query["orphanDependents"])
    found = {key: value for key, value in found.items() if value is not None}
    dry = found.get("dryRun", [query["dryRun"]] if query.get("dryRun") else [])
    conditions = found.get("preconditions", {})
    policy, orphan, grace = (
        found.get("propagationPolicy"),
        found.get("orphanDependents"),
        found.get("gracePeriodSeconds"),
    )
    _shape("dryRun", dry, list)
    _shape("preconditions", conditions, dict)
    for name, value, kind in (
        ("propagationPolicy", policy, str),
        ("orphanDependents", orphan, bool),
        ("gracePeriodSeconds", grace, int),
        ("preconditions.uid", conditions.get("uid"), str),
        ("preconditions.resourceVersion", conditions.get("resourceVersion"), str),
    ):
        if value is not None:
            _shape(name, value, kind)
    causes = []
    if orphan is not None and policy:
        told = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        causes.append(Cause("FieldValueInvalid", told, "propagationPolicy"))
    if policy and policy not in _POLICIES:
        causes.append(_unsupported("propagationPolicy", policy, [*_POLICIES[:2], "Orphan", "nil"]))
    if any(one != "All" for one in dry):
        causes.append(_unsupported("dryRun", dry, ["All"]))
    if causes:
        raise _options("DeleteOptions", causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if grace is not None and grace < 0:
        grace = 1
    return Delete(
        dry_run=bool(dry),
        grace=grace,
        policy=policy or "",
        uid=conditions.get("uid"),
        version=conditions.get("resourceVersion"),
        orphan=orphan,
    )


_JSON_NAMES: Final = {list: "an array", dict: "an object", str: "a string", bool: "a boolean", int: "a whole number"}


def _shape(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise bad_request(f"DeleteOptions.{name} must be {_JSON_NAMES[kind]}, not {go_type(value)}")


# --------------------------------------------------------------------------------------------------- reads


@dataclass(frozen=True)
class Read:
    """Options of list, watch and deletecollection."""

    labels: selectors.Matcher | None
    fields: selectors.Fields
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
        raise _options("ListOptions", [Cause("FieldValueInvalid", told, "resourceVersion")])
    causes = _watched(match, token, initial) if watch else _listed(match, version, token, initial)
    if causes:
        raise _options("ListOptions", causes)
    own = resource.custom or resource.key in selectors.FIELDS
    fields = selectors.parse_fields(query.get("fieldSelector", ""), selectors.supported(resource), own=own)
    if name:
        if fields.terms and fields.name != name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        if not fields.terms:
            fields = selectors.Fields((selectors.Requirement("metadata.name", "=", frozenset([name])),))
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
            causes.append(_unsupported(field, match, ["Exact", "NotOlderThan", ""]))
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
            causes.append(_unsupported(field, match, ["NotOlderThan"]))
        if token:
            causes.append(_forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    return causes
