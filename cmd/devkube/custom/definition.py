"""A CustomResourceDefinition: its defaults, what its status says, and every reason why a real server would refuse it.

Rules and words of apiextensions' validation. Two reasons are devkube's own: conversion by webhook is not built, and a
rule that uses a CEL function which devkube lacks cannot be evaluated. Both are refused here, never ignored later.
Left out: estimated costs of rules, and approval of groups under k8s.io.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube.builtin import names
from devkube.custom import causes, cells, fieldpath, schemas
from devkube.errors import Cause
from devkube.kinds import Object

COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MOST_SELECTABLE: Final = 8


def default(crd: Object) -> None:
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    called = spec.setdefault("names", {})
    kind = called.get("kind") or ""
    if kind and not called.get("singular"):
        called["singular"] = kind.lower()
    if kind and not called.get("listKind"):
        called["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def prepare(new: Object, old: Object | None, subresource: str) -> None:
    """On a write of the CRD its status stays (storedVersions gains the storage version), on one of /status its spec."""
    if subresource == "status":
        if old is not None:
            new["spec"] = old["spec"]
        return
    status = dict((old or {}).get("status") or {})
    stored = list(status.get("storedVersions") or ())
    storage = next((v.get("name") for v in new.get("spec", {}).get("versions") or () if v.get("storage")), None)
    if storage and storage not in stored:
        stored.append(storage)
    new["status"] = {**status, "storedVersions": stored} if stored else status


def is_established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def validate(new: Object, old: Object | None, subresource: str) -> list[Cause]:
    """Every violation of a create (old None) or an update."""
    if subresource == "status":
        return []
    spec = new.get("spec")
    if not isinstance(spec, dict):
        return [causes.required("spec")]
    return [*_name(new), *_spec(spec), *_stored(new, spec), *(_unchanged(spec, old) if old is not None else ())]


def warnings(crd: Object) -> list[str]:
    """Formats that constrain nothing."""
    versions = (crd.get("spec") or {}).get("versions") or ()
    found = [name for version in versions for name in schemas.unrecognized(schemas.of(version))]
    return [f"unrecognized format {causes.quoted(name)}" for name in found]


def _name(crd: Object) -> Iterator[Cause]:
    spec, name = crd["spec"], (crd.get("metadata") or {}).get("name") or ""
    if name != f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _stored(crd: Object, spec: Mapping[str, Any]) -> Iterator[Cause]:
    known = [version.get("name") for version in spec.get("versions") or ()]
    for index, name in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            yield causes.invalid(f"status.storedVersions[{index}]", name, detail)


def _unchanged(spec: Mapping[str, Any], old: Object) -> Iterator[Cause]:
    before, called = old["spec"], spec.get("names") or {}
    fields = [("group", spec.get("group"), before.get("group"))]
    fields.append(("names.plural", called.get("plural"), before["names"].get("plural")))
    if is_established(old):
        fields.append(("scope", spec.get("scope"), before.get("scope")))
        fields.append(("names.kind", called.get("kind"), before["names"].get("kind")))
    for path, value, was in fields:
        if value != was:
            yield causes.invalid(f"spec.{path}", value, "field is immutable")


def _spec(spec: Mapping[str, Any]) -> Iterator[Cause]:
    group, scope = spec.get("group") or "", spec.get("scope") or ""
    if not group:
        yield causes.required("spec.group")
    elif wrong := ",".join(names.dns_subdomain(group)):
        yield causes.invalid("spec.group", group, wrong)
    elif "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield causes.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield causes.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield causes.invalid("spec.preserveUnknownFields", True, detail)
    yield from _versions(spec.get("versions") or [])
    yield from _names(spec.get("names") or {})
    yield from _conversion(spec.get("conversion") or {})


def _versions(versions: list[Mapping[str, Any]]) -> Iterator[Cause]:
    if not versions:
        yield causes.required("spec.versions")
        return
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]")
    called = [version.get("name") for version in versions]
    if len(set(called)) < len(called):
        yield causes.invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield causes.invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _version(version: Mapping[str, Any], path: str) -> Iterator[Cause]:
    name = version.get("name") or ""
    if wrong := ",".join(names.dns_1035_label(name)):
        yield causes.invalid(f"{path}.name", name, wrong)
    warning = version.get("deprecationWarning")
    if warning is not None:
        for detail in _warning(warning, bool(version.get("deprecated"))):
            yield causes.invalid(f"{path}.deprecationWarning", warning, detail)
    subresources = version.get("subresources") or {}
    node = schemas.of(version)
    if node is None:
        yield causes.required(f"{path}.schema.openAPIV3Schema")
    else:
        yield from schemas.validate(node, f"{path}.schema.openAPIV3Schema", subresources.get("status") is not None)
    yield from _scale(subresources.get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    yield from _selectable(version.get("selectableFields") or [], node or {}, f"{path}.selectableFields")


def _warning(text: str, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(text.encode()) > 256:
        yield "must be <= 256 characters long"
    if not text:
        yield "must not be an empty string"
    wrong = next((i for i, char in enumerate(text) if not char.isprintable()), None)
    if wrong is not None:
        yield f"must only contain printable UTF-8 characters; non-printable character found at index {wrong}"


def _scale(scale: Mapping[str, Any] | None, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    wanted = (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        ("labelSelectorPath", (".spec.", ".status."), "should be a json path under either .spec or .status"),
    )
    for name, prefixes, detail in wanted:
        value = scale.get(name) or ""
        if not value:
            if name != "labelSelectorPath":
                yield causes.required(f"{path}.{name}")
        elif not value.startswith("."):
            yield causes.invalid(f"{path}.{name}", value, "must be a simple json path starting with .")
        elif not value.startswith(prefixes):
            yield causes.invalid(f"{path}.{name}", value, detail)


def _column(column: Mapping[str, Any], path: str) -> Iterator[Cause]:
    kind, form, where = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if not column.get("name"):
        yield causes.required(f"{path}.name")
    if not kind:
        yield causes.required(f"{path}.type", types)
    elif kind not in COLUMN_TYPES:
        yield causes.invalid(f"{path}.type", kind, types)
    if form and form not in COLUMN_FORMATS:
        yield causes.invalid(f"{path}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}")
    if not where:
        yield causes.required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield causes.invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")
    else:  # upstream accepts what it cannot parse, and then shows no column at all
        try:
            cells.parse(where)
        except ValueError as error:
            yield causes.invalid(f"{path}.JSONPath", where, str(error))


def _selectable(fields: list[Mapping[str, Any]], node: Mapping[str, Any], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, one in enumerate(fields):
        here, where = f"{path}[{index}].jsonPath", one.get("jsonPath") or ""
        if not where:
            yield causes.required(here)
            continue
        try:
            told, found = fieldpath.resolved(where, node, brackets=False)
        except ValueError as error:
            yield causes.invalid(here, where, f"is an invalid path: {error}")
            continue
        if told.startswith(".metadata"):
            yield causes.invalid(here, where, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield causes.invalid(here, where, detail)
        if told in seen:
            yield causes.duplicate(here, where)
        seen.add(told)
    if len(seen) > MOST_SELECTABLE:
        yield causes.too_many(path, len(seen), MOST_SELECTABLE)


def _names(called: Mapping[str, Any]) -> Iterator[Cause]:
    for name in ("plural", "singular", "kind", "listKind"):
        value = called.get(name) or ""
        kind = name in ("kind", "listKind")
        if not value:
            yield causes.required(f"spec.names.{name}")
        elif wrong := ",".join(names.dns_1035_label(value.lower() if kind else value)):
            prefix = "may have mixed case, but should otherwise match: " if kind else ""
            yield causes.invalid(f"spec.names.{name}", value, prefix + wrong)
    if called.get("kind") and called.get("kind") == called.get("listKind"):
        yield causes.invalid("spec.names.listKind", called["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, value in enumerate(called.get(field) or ()):
            if wrong := ",".join(names.dns_1035_label(value)):
                yield causes.invalid(f"spec.names.{field}[{index}]", value, wrong)


def _conversion(conversion: Mapping[str, Any]) -> Iterator[Cause]:
    strategy = conversion.get("strategy") or ""
    if strategy not in ("None", "Webhook"):
        yield causes.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "Webhook":
        yield causes.forbidden("spec.conversion.strategy", "devkube does not convert by webhook; use None")
    elif conversion.get("webhook") is not None:
        detail = "should not be set when strategy is not set to Webhook"
        yield causes.forbidden("spec.conversion.webhookClientConfig", detail)
