"""The versions of a CRD: names, the one that is stored, and of each its schema, columns, scale and selectable fields.

Words of apiextensions' validation. Only a column whose path cannot be parsed is refused here and not upstream, which
then shows no column at all.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube import causes
from devkube.builtin import names
from devkube.custom import cells, schemas, views
from devkube.errors import Cause

COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
MOST_SELECTABLE: Final = 8
# Parts of a version, and their names where all versions share one.
_PARTS: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def validate(versions: list[Mapping[str, Any]]) -> Iterator[Cause]:
    called = [version.get("name") or "" for version in versions]
    if len(set(called)) < len(called):
        yield causes.invalid("spec.versions", called, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield causes.invalid("spec.versions", called, detail)
    if not versions:
        return
    if wrong := ",".join(names.dns_1035_label(called[0])):
        yield causes.invalid("spec.version", called[0], wrong)
    status = [(version.get("subresources") or {}).get("status") is not None for version in versions]
    # What all versions have alike stands once in upstream's internal form, and that is where errors point to.
    alike = [part for part in _PARTS if all(version.get(part) == versions[0].get(part) for version in versions)]
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        yield from _version(version, path)
        for part in _PARTS:
            if part not in alike:
                yield from _part(part, version, f"{path}.{part}", status[index])
    for part in alike:
        yield from _part(part, versions[0], f"spec.{_PARTS[part]}", any(status))


def _version(version: Mapping[str, Any], path: str) -> Iterator[Cause]:
    name = version.get("name") or ""
    if wrong := ",".join(names.dns_1035_label(name)):
        yield causes.invalid(f"{path}.name", name, wrong)
    if version.get("deprecationWarning") is not None and not version.get("deprecated"):
        detail = "can only be set for deprecated versions"
        yield causes.invalid(f"{path}.deprecationWarning", version["deprecationWarning"], detail)
    if schemas.of(version) is None:
        yield causes.required(f"{path}.schema.openAPIV3Schema")


def _part(part: str, version: Mapping[str, Any], path: str, status: bool) -> Iterator[Cause]:
    node = schemas.of(version)
    if part == "schema" and node is not None:
        yield from schemas.validate(node, f"{path}.openAPIV3Schema", status)
    elif part == "subresources":
        yield from _scale((version.get(part) or {}).get("scale"), f"{path}.scale")
    elif part == "additionalPrinterColumns":
        for index, column in enumerate(version.get(part) or ()):
            yield from _column(column, f"{path}[{index}]")
    elif part == "selectableFields":
        yield from _selectable(version.get(part) or [], node or {}, path)


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
    kind, where = column.get("type") or "", column.get("jsonPath") or ""
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if not column.get("name"):
        yield causes.required(f"{path}.name")
    if not kind:
        yield causes.required(f"{path}.type", types)
    elif kind not in COLUMN_TYPES:
        yield causes.invalid(f"{path}.type", kind, types)
    if not where:
        yield causes.required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield causes.invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")
    else:
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
            told, found = views.resolved(where, node, brackets=False)
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
