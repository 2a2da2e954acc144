"""A CustomResourceDefinition: its defaults, what its status says, and every reason why a real server would refuse it.

Rules of apiextensions' validation. Three reasons are devkube's own, refused here and never ignored later: conversion by
webhook is not built, a rule that uses a CEL function which devkube lacks cannot be evaluated, and a column whose path
cannot be parsed shows nothing. Left out: estimated costs of rules.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube import causes
from devkube.builtin import names
from devkube.custom import cells, schemas
from devkube.custom.structural import leads_to
from devkube.errors import Cause
from devkube.kinds import Object

Part = Mapping[str, Any]
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_APPROVED: Final = "api-approved.kubernetes.io"
_PARTS: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def default(crd: Object) -> None:
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    called = spec.setdefault("names", {})
    kind = called.get("kind") or ""
    called["singular"] = called.get("singular") or kind.lower()
    called["listKind"] = called.get("listKind") or f"{kind}List"
    spec["conversion"] = spec.get("conversion") or {"strategy": "None"}


def prepare(new: Object, old: Object | None, subresource: str) -> None:
    """On a write of the CRD its status stays; storedVersions gains the storage version."""
    if subresource == "status":
        return
    status = (old or {}).get("status") or {}
    stored = status.get("storedVersions") or []
    versions = (new.get("spec") or {}).get("versions") or ()
    storage = [one.get("name") for one in versions if one.get("storage") and one.get("name") not in stored]
    new["status"] = {**status, "storedVersions": [*stored, *storage]}


def validate(new: Object, old: Object | None, subresource: str) -> list[Cause]:
    """Every violation of a create (old None) or an update. What the kind's own schema requires is there."""
    if subresource == "status":
        return []
    spec, meta = new["spec"], new["metadata"]
    found = [*_spec(spec), *_names(spec["names"]), *_versions(spec["versions"])]
    if not meta.get("deletionTimestamp"):  # one that ends can be let go, whatever its status says
        found += _stored(new, spec)
    if meta.get("name") != f"{spec['names']['plural']}.{spec['group']}":
        found.append(causes.invalid("metadata.name", meta.get("name"), 'must be spec.names.plural+"."+spec.group'))
    protected = f".{spec['group']}".endswith((".k8s.io", ".kubernetes.io"))
    if protected and old is None and _APPROVED not in (meta.get("annotations") or {}):
        detail = f'protected groups must have approval annotation "{_APPROVED}"'
        found.append(causes.required(f"metadata.annotations[{_APPROVED}]", detail))
    return [*found, *(_unchanged(spec, old["spec"]) if old is not None else ())]


def _stored(crd: Object, spec: Part) -> Iterator[Cause]:
    known = [version["name"] for version in spec["versions"]]
    for index, name in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if name not in known:
            detail = f"missing from spec.versions; {name} was previously a storage version of objects that may be left"
            yield causes.invalid(f"status.storedVersions[{index}]", name, detail)


def _unchanged(spec: Part, before: Part) -> Iterator[Cause]:
    for path in ("group", "scope"):
        yield from causes.unchanged(f"spec.{path}", spec[path], before[path])
    for path in ("plural", "kind"):
        yield from causes.unchanged(f"spec.names.{path}", spec["names"][path], before["names"][path])


def _spec(spec: Part) -> Iterator[Cause]:
    group, scope, strategy = spec["group"], spec["scope"], spec["conversion"]["strategy"]
    wrong = ",".join(names.dns_subdomain(group)) or ("" if "." in group else "should be a domain with at least one dot")
    if wrong:
        yield causes.invalid("spec.group", group, wrong)
    if scope not in ("Cluster", "Namespaced"):
        yield causes.unsupported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in the schemas instead"
        yield causes.invalid("spec.preserveUnknownFields", True, detail)
    if strategy == "Webhook":
        yield causes.forbidden("spec.conversion.strategy", "devkube does not convert by webhook; use None")
    elif strategy != "None":
        yield causes.unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _names(called: Part) -> Iterator[Cause]:
    labels = {field: called[field] for field in ("plural", "singular")}
    labels |= {field: called[field].lower() for field in ("kind", "listKind")}
    for field in ("shortNames", "categories"):
        labels |= {f"{field}[{index}]": value for index, value in enumerate(called.get(field) or ())}
    for field, value in labels.items():
        yield from _label(value, f"spec.names.{field}")
    if called["kind"] == called["listKind"]:
        yield causes.invalid("spec.names.listKind", called["listKind"], "kind and listKind may not be the same")


def _label(value: str, path: str) -> Iterator[Cause]:
    if wrong := ",".join(names.dns_1035_label(value)):
        yield causes.invalid(path, value, wrong)


def _versions(versions: list[Part]) -> Iterator[Cause]:
    called = [version["name"] for version in versions]
    if len(set(called)) < len(called):
        yield causes.invalid("spec.versions", called, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield causes.invalid("spec.versions", called, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        yield from _label(called[index], f"{path}.name")
        if schemas.of(version) is None:
            yield causes.required(f"{path}.schema.openAPIV3Schema")
        for part in _PARTS:
            # What all versions have alike stands once in upstream's internal form, and that is where errors point to.
            alike = all(other.get(part) == version.get(part) for other in versions)
            shared = "spec.validation" if part == "schema" else f"spec.{part}"
            if not alike or index == 0:
                yield from _part(part, version, shared if alike else f"{path}.{part}")


def _part(part: str, version: Part, path: str) -> Iterator[Cause]:
    subresources, node = version.get("subresources") or {}, schemas.of(version)
    if part == "schema" and node is not None:
        yield from schemas.validate(node, f"{path}.openAPIV3Schema")
    elif part == "subresources" and subresources.get("scale") is not None:
        yield from _scale(subresources["scale"], f"{path}.scale")
    elif part == "additionalPrinterColumns":
        for index, column in enumerate(version.get(part) or ()):
            yield from _column(column, f"{path}[{index}]")
    elif part == "selectableFields":
        yield from _selectable([one["jsonPath"] for one in version.get(part) or ()], node or {}, path)


def _scale(scale: Part, path: str) -> Iterator[Cause]:
    for name, parents in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        if not scale[name].startswith(parents):
            yield causes.invalid(f"{path}.{name}", scale[name], f"should be a json path under {parents}")
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        yield causes.invalid(f"{path}.labelSelectorPath", selector, "should be a json path under .spec. or .status.")


def _column(column: Part, path: str) -> Iterator[Cause]:
    if column["type"] not in _COLUMN_TYPES:
        yield causes.invalid(f"{path}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
    try:
        cells.parse(column["jsonPath"])
    except ValueError as error:
        yield causes.invalid(f"{path}.JSONPath", column["jsonPath"], str(error))


def _selectable(fields: list[str], node: Part, path: str) -> Iterator[Cause]:
    for index, where in enumerate(fields):
        kind = (leads_to(where, node) or {}).get("type")
        if kind not in ("string", "boolean", "integer") or where.startswith(".metadata"):
            detail = "must point to a field of type string, boolean or integer outside of metadata"
            yield causes.invalid(f"{path}[{index}].jsonPath", where, detail)
