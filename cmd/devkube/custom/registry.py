"""CRDs become resources: their served versions enter the catalog with the rules of their objects, and leave it again.

Pure but for the catalog: who stores a CRD calls `status` and stores what it returns, then `established`; `removed` when
the CRD is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from devkube import causes
from devkube.builtin import types
from devkube.builtin.document import document
from devkube.custom import cel, cells, schemas, structural, validation
from devkube.custom.structural import UNKNOWN, Node
from devkube.errors import Cause
from devkube.kinds import Catalog, Column, FieldValidation, Object, Resource, Subresource, preference
from devkube.schema import Schema

_WRITES: Final = ("get", "patch", "update")
_CONDITIONS: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_TYPE_META: Final = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": f"#/$defs/{structural.OBJECT_META}"},
}


def resources_of(crd: Object) -> list[Resource]:
    """A row for each served version, the preferred one first."""
    served = [one for one in crd["spec"]["versions"] if one.get("served")]
    since = int(crd["metadata"].get("resourceVersion") or 0)
    return [_resource(crd["spec"], one, since) for one in sorted(served, key=lambda one: preference(one["name"]))]


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any], since: int) -> Resource:
    called, name, subresources = spec["names"], version["name"], version.get("subresources") or {}
    columns = tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()) or (cells.AGE,)
    offered, paths = {}, Resource.scale_paths
    if subresources.get("status") is not None:
        offered["status"] = Subresource("status", called["kind"], _WRITES)
    if (scale := subresources.get("scale")) is not None:
        paths = scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""
        offered["scale"] = Subresource("scale", "Scale", _WRITES, "autoscaling", "v1")
    rules = CustomRules(name, called["kind"], schemas.of(version) or {}, columns)
    return Resource(
        group=spec["group"],
        version=name,
        plural=called["plural"],
        kind=called["kind"],
        singular=called["singular"],
        namespaced=spec["scope"] == "Namespaced",
        rules=rules,
        short_names=tuple(called.get("shortNames") or ()),
        categories=tuple(called.get("categories") or ()),
        subresources=offered,
        columns=columns,
        list_kind=called["listKind"],
        custom=True,
        scale_paths=paths,
        selectable=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        since=since,
    )


def _column(column: Mapping[str, Any]) -> Column:
    form, about, priority = column.get("format") or "", column.get("description") or "", column.get("priority") or 0
    return Column(column["name"], column["type"], column["jsonPath"], form, about, priority)


@dataclass(frozen=True)
class CustomRules:
    """One version of a CRD behind the protocol `kinds.Rules`; `node` is its openAPIV3Schema.

    Rules are asked only when nothing is wrong that would make them meaningless.
    """

    version: str
    kind: str
    node: Node
    columns: tuple[Column, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        fields = {**(self.node.get("properties") or {}), **_TYPE_META}
        return Schema({**self.node, "properties": fields}, document())

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        """Nulls that mean nothing go here too, so that apply does not own them."""
        unknown = structural.prune(obj, self.node)
        try:
            unknown = sorted(unknown + structural.coerce(obj, self.node))
        except ValueError as error:
            raise types.refused(self.kind, self.version, str(error)) from None
        structural.drop_nulls(obj, self.node)
        return types.told(self.kind, self.version, unknown, validation)

    def default(self, obj: Object) -> None:
        structural.default(obj, self.node)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        """Nothing beside what holds for all kinds."""

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        before = UNKNOWN if old is None else old
        found = validation.validate(self.node, new, before)
        if not any(cause.reason in causes.BLOCKING for cause in found):
            return found + cel.validate(self.node, new, before)
        return found + ([causes.invalid("", None, _UNCHECKED)] if cel.RULES in repr(self.node) else [])

    def table(self, obj: Object, now: float) -> list[Any]:
        return [cells.cell(column.type, cells.parse(column.path)(obj), now) for column in self.columns]


class Registry:
    """The CRDs of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def status(self, crd: Object, now: str) -> Object:
        """The CRD's status with its names accepted; `now` is a timestamp for conditions that are new. Names that
        another CRD of the group has are accepted, too."""
        before = crd.get("status") or {}
        new = [
            {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
            for kind, reason, message in _CONDITIONS
        ]
        return {**before, "acceptedNames": crd["spec"]["names"], "conditions": before.get("conditions") or new}

    def established(self, crd: Object) -> None:
        """Serve the CRD's versions, and no others of its."""
        self.removed(crd)
        self._catalog.put(resources_of(crd))

    def removed(self, crd: Object) -> None:
        self._catalog.drop(crd["spec"]["group"], crd["spec"]["names"]["plural"])
