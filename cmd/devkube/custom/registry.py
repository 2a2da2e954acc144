"""CRDs become resources: their served versions enter the catalog, and leave it again.

Pure but for the catalog: who stores a CRD calls `status` and stores what it returns, then `established`; `removed` when
the CRD is gone.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from devkube.custom import cells, schemas
from devkube.custom.rules import CustomRules
from devkube.kinds import Catalog, Column, Object, Resource, Subresource

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES: Final = {None: 2, "beta": 1, "alpha": 0}
_WRITES: Final = ("get", "patch", "update")
_CONDITIONS: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)


def preference(version: str) -> tuple[Any, ...]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta1, v1alpha1, then other names by alphabet."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, version)
    return (0, -_STAGES[match[2]], -int(match[1]), -int(match[3] or 0))


def resources_of(crd: Object, before: Iterable[Resource] = ()) -> list[Resource]:
    """A row for each served version, the preferred one first. `before`: the rows that were served until now; a version
    whose schema is still the same needs not read its objects anew."""
    served = [one for one in crd["spec"]["versions"] if one.get("served")]
    schemas_before = {one.version: (one.rules.schema.node, one.since) for one in before}
    rows = []
    for version in sorted(served, key=lambda one: preference(one["name"])):
        row = _resource(crd["spec"], version)
        node, since = schemas_before.get(row.version, (None, 0))
        now = int(crd["metadata"].get("resourceVersion") or 0)
        rows.append(replace(row, since=since if row.rules.schema.node == node else now))
    return rows


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any]) -> Resource:
    called, name, subresources = spec["names"], version["name"], version.get("subresources") or {}
    columns = tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()) or (cells.AGE,)
    offered, paths, warning = {}, None, ""
    if subresources.get("status") is not None:
        offered["status"] = Subresource("status", called["kind"], _WRITES)
    if (scale := subresources.get("scale")) is not None:
        paths = scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""
        offered["scale"] = Subresource("scale", "Scale", _WRITES, "autoscaling", "v1")
    if version.get("deprecated"):
        warning = version.get("deprecationWarning") or f"{spec['group']}/{name} {called['kind']} is deprecated"
    rules = CustomRules(name, called["kind"], schemas.of(version) or {}, "status" in offered, paths, columns, warning)
    return Resource(
        group=spec["group"],
        version=name,
        plural=called["plural"],
        kind=called["kind"],
        singular=called.get("singular") or called["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        rules=rules,
        short_names=tuple(called.get("shortNames") or ()),
        categories=tuple(called.get("categories") or ()),
        subresources=offered,
        columns=columns,
        list_kind=called.get("listKind") or "",
        custom=True,
        scale_paths=paths or Resource.scale_paths,
        selectable=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
    )


def _column(column: Mapping[str, Any]) -> Column:
    path, form, priority = column["jsonPath"], column.get("format") or "", column.get("priority") or 0
    about = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(column["name"], column["type"], path, form, about, priority)


class Registry:
    """The CRDs of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._served: dict[str, Any] = {}  # name of the CRD -> the spec that is served

    def status(self, crd: Object, now: str) -> Object:
        """The CRD's status with its names accepted; `now` is a timestamp for conditions that are new. Names that
        another CRD of the group has are accepted, too."""
        before = crd.get("status") or {}
        had = {one.get("type"): one for one in before.get("conditions") or ()}
        conditions = []
        for kind, reason, message in _CONDITIONS:
            since = (had.pop(kind, None) or {}).get("lastTransitionTime") or now
            made = {"type": kind, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message}
            conditions.append(made)
        return {**before, "acceptedNames": crd["spec"]["names"], "conditions": [*conditions, *had.values()]}

    def established(self, crd: Object) -> None:
        """Serve the CRD's versions."""
        name, spec = crd["metadata"]["name"], crd["spec"]
        if self._served.get(name) != spec:
            group, plural = spec["group"], spec["names"]["plural"]
            before = [one for one in self._catalog if one.group == group and one.plural == plural]
            self._catalog.drop(group, plural)
            self._catalog.put(resources_of(crd, before))
            self._served[name] = spec

    def removed(self, crd: Object) -> None:
        if self._served.pop(crd["metadata"]["name"], None) is not None:
            self._catalog.drop(crd["spec"]["group"], crd["spec"]["names"]["plural"])
