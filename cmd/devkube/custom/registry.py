"""CRDs become resources: names are accepted or in conflict, served versions enter the catalog, and leave it again.

Pure but for the catalog: who stores a CRD calls `status` and stores what it returns, then `established`; `removed` when
the CRD is gone. Nothing is served before its names are accepted.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from devkube.custom import cells, schemas
from devkube.custom.definition import is_established
from devkube.custom.rules import CustomRules
from devkube.kinds import Catalog, Column, Object, Resource, Subresource

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES: Final = {None: 2, "beta": 1, "alpha": 0}
_WRITES: Final = ("get", "patch", "update")


def preference(version: str) -> tuple[Any, ...]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta1, v1alpha1, then other names by alphabet."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, version)
    return (0, -_STAGES[match[2]], -int(match[1]), -int(match[3] or 0))


def resources_of(crd: Object, before: Iterable[Resource] = ()) -> list[Resource]:
    """A row for each served version, the preferred one first. `before`: the rows that were served until now; a version
    whose schema is still the same needs not read its objects anew."""
    spec, served = crd["spec"], [one for one in crd["spec"]["versions"] if one.get("served")]
    known = {one.version: one for one in before}
    now = int(crd["metadata"].get("resourceVersion") or 0)
    rows = []
    for version in sorted(served, key=lambda one: preference(one["name"])):
        row, old = _resource(spec, version), known.get(version["name"])
        same = old is not None and old.rules.schema.node == row.rules.schema.node
        rows.append(replace(row, since=old.since if same and old is not None else now))
    return rows


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any]) -> Resource:
    called, subresources = spec["names"], version.get("subresources") or {}
    columns = tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()) or (cells.AGE,)
    scale = subresources.get("scale")
    paths = _scale_paths(scale) if scale is not None else None
    rules = CustomRules(
        group=spec["group"],
        version=version["name"],
        kind=called["kind"],
        node=schemas.of(version) or {},
        status=subresources.get("status") is not None,
        scale=paths,
        columns=columns,
        warning=_deprecation(spec, version),
    )
    offered = {}
    if rules.status:
        offered["status"] = Subresource("status", called["kind"], _WRITES)
    if paths is not None:
        offered["scale"] = Subresource("scale", "Scale", _WRITES, "autoscaling", "v1")
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=called["plural"],
        kind=called["kind"],
        singular=called.get("singular") or called["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        rules=rules,
        short_names=tuple(called.get("shortNames") or ()),
        categories=tuple(called.get("categories") or ()),
        subresources=offered,
        columns=columns,
        list_kind=called.get("listKind") or f"{called['kind']}List",
        custom=True,
        scale_paths=paths or Resource.scale_paths,
        selectable=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
    )


def _scale_paths(scale: Mapping[str, Any]) -> tuple[str, str, str]:
    return scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""


def _column(column: Mapping[str, Any]) -> Column:
    path = column["jsonPath"]
    description = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        column["name"], column["type"], path, column.get("format") or "", description, column.get("priority") or 0
    )


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    kind = spec["names"]["kind"]
    return version.get("deprecationWarning") or f"{spec['group']}/{version['name']} {kind} is deprecated"


class Registry:
    """The CRDs of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._served: dict[str, Any] = {}  # name of the CRD -> the spec that is served

    def status(self, crd: Object, now: str) -> Object:
        """The CRD's status with its names accepted, or the reason why some are not. `now` is a timestamp for
        conditions that change."""
        status = dict(crd.get("status") or {})
        accepted, problem = self._accepted(crd["spec"], status.get("acceptedNames") or {"plural": "", "kind": ""})
        status["acceptedNames"] = accepted
        if problem is None:
            conditions = [
                ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
                ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
            ]
        else:
            conditions = [("NamesAccepted", "False", *problem)]
            if not is_established(crd):
                conditions.append(("Established", "False", "NotAccepted", "not all names are accepted"))
        status["conditions"] = _with(status.get("conditions") or [], conditions, now)
        return status

    def _accepted(self, spec: Mapping[str, Any], had: Mapping[str, Any]) -> tuple[Object, tuple[str, str] | None]:
        """Names that are free are taken one by one; of several that are not, upstream reports the last."""
        called = spec["names"]
        others = [one for one in self._catalog if one.group == spec["group"] and one.plural != called["plural"]]
        words = {word for one in others for word in (one.plural, one.singular, *one.short_names)}
        kinds = {word for one in others for word in (one.kind, one.listing)}
        accepted, problem = dict(had), None
        for field in ("plural", "singular", "shortNames", "kind", "listKind"):
            wanted = called.get(field)
            names = wanted if isinstance(wanted, list) else [wanted or ""]
            used = [name for name in names if name in (kinds if field in ("kind", "listKind") else words)]
            if used and wanted != had.get(field):
                problem = (f"{field[0].upper()}{field[1:]}Conflict", f'"{used[0]}" is already in use')
            elif wanted:
                accepted[field] = wanted
            else:
                accepted.pop(field, None)
        if called.get("categories"):
            accepted["categories"] = called["categories"]
        else:
            accepted.pop("categories", None)
        return accepted, problem

    def established(self, crd: Object) -> bool:
        """Serve the CRD's versions if its names are accepted; whether what is served has changed."""
        name, spec = crd["metadata"]["name"], crd["spec"]
        if not is_established(crd) or self._served.get(name) == spec:
            return False
        group, plural = spec["group"], spec["names"]["plural"]
        before = [one for one in self._catalog if one.group == group and one.plural == plural]
        self._catalog.drop(group, plural)
        self._catalog.put(resources_of(crd, before))
        self._served[name] = spec
        return True

    def removed(self, crd: Object) -> None:
        if self._served.pop(crd["metadata"]["name"], None) is not None:
            self._catalog.drop(crd["spec"]["group"], crd["spec"]["names"]["plural"])


def _with(before: list[Object], wanted: Iterable[tuple[str, str, str, str]], now: str) -> list[Object]:
    """Conditions as they should be; the time of a transition stays while the status does."""
    known = {one.get("type") or "": one for one in before}
    for kind, state, reason, message in wanted:
        old = known.get(kind) or {}
        since = old.get("lastTransitionTime") if old.get("status") == state else now
        made = {"type": kind, "status": state, "lastTransitionTime": since, "reason": reason, "message": message}
        known[kind] = made
    return list(known.values())
