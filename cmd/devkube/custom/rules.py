"""`CustomRules`: one version of a CRD behind the protocol `kinds.Rules`.

The order of steps is that of apiextensions' strategy: schema, scale, embedded resources, sets and maps, then rules, and
rules only when nothing is wrong that would make them meaningless.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from devkube import causes
from devkube.builtin.document import document
from devkube.custom import cel, cells, schemas, structural, validation
from devkube.custom.places import UNKNOWN, Node, root
from devkube.errors import Cause, bad_request
from devkube.kinds import Column, FieldValidation, Object
from devkube.schema import Schema

_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_TYPE_META: Final = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": f"#/$defs/{structural.OBJECT_META}"},
}


@dataclass(frozen=True)
class CustomRules:
    """`node`: the version's openAPIV3Schema. `warning`: told with every write to a deprecated version."""

    version: str
    kind: str
    node: Node
    status: bool = False
    scale: tuple[str, str, str] | None = None
    columns: tuple[Column, ...] = ()
    warning: str = ""

    @cached_property
    def schema(self) -> Schema:
        fields = {**(self.node.get("properties") or {}), **_TYPE_META}
        return Schema({**self.node, "properties": fields}, document())

    @cached_property
    def _rules(self) -> cel.Rules:
        return cel.Rules(self.node)

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        """Nulls that mean nothing go here too, so that apply does not own them."""
        unknown = structural.prune(obj, self.node)
        try:
            unknown = sorted(unknown + structural.coerce(obj, self.node))
        except ValueError as error:
            raise bad_request(self._refused(str(error))) from None
        structural.drop_nulls(obj, self.node)
        told = [f'unknown field "{path}"' for path in unknown]
        if told and validation == "Strict":
            raise bad_request(self._refused("strict decoding error: " + ", ".join(told)))
        return ([self.warning] if self.warning else []) + (told if validation == "Warn" else [])

    def _refused(self, why: str) -> str:
        return f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'

    def default(self, obj: Object) -> None:
        structural.default(obj, self.node)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        """Where status is a subresource, a write there changes only it and managedFields, and other writes all else."""
        if not self.status:
            return
        if subresource == "status" and old is not None:
            status, managed = new.get("status"), (new.get("metadata") or {}).get("managedFields")
            new.clear()
            new.update(copy.deepcopy(old))
            if managed is not None:
                new["metadata"]["managedFields"] = managed
        else:
            status = copy.deepcopy((old or {}).get("status"))
        new.pop("status", None)
        if status is not None:
            new["status"] = status

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        before = UNKNOWN if old is None else old
        found = [*validation.validate(self.node, new, before), *self._embedded(new, before)]
        repeated = list(validation.duplicates(self.node, new))
        if repeated and (old is None or not any(validation.duplicates(self.node, old))):
            found += repeated
        if not any(cause.reason in causes.BLOCKING for cause in found):
            found += self._rules.validate(new, before)
        elif any(spot.node.get(cel.RULES) for spot in schemas.Spot(self.node, "").walk()):
            found.append(causes.invalid("", None, _NOT_CHECKED))
        return found

    def _embedded(self, obj: Object, before: Any) -> Iterator[Cause]:
        """Resources inside the object need their type, as any."""
        for place in root(obj, self.node, before).walk():
            if not place.path or not place.resource or not isinstance(place.value, dict) or place.unchanged:
                continue
            for name in ("apiVersion", "kind"):
                if not place.value.get(name):
                    yield causes.required(f"{place.path}.{name}")

    def table(self, obj: Object, now: float) -> list[Any]:
        return [cells.cell(column.type, cells.parse(column.path)(obj), now) for column in self.columns]
