"""`CustomRules`: one version of a CRD behind the protocol `kinds.Rules`.

The order of steps is that of apiextensions' strategy: schema, scale, embedded resources, sets and maps, then rules, and
rules only when nothing is wrong that would make them meaningless.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from devkube import causes
from devkube.builtin import metadata
from devkube.builtin.document import document
from devkube.custom import cel, cells, lists, structural, validation
from devkube.errors import Cause, bad_request
from devkube.kinds import Column, FieldValidation, Object
from devkube.schema import Schema

Node = Mapping[str, Any]
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

    group: str
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
    def _without_meta(self) -> Node:
        """The root's metadata has been checked as ObjectMeta; its schema may add to name and generateName only."""
        fields = {
            k: v for k, v in (self.node.get("properties") or {}).items() if k != "metadata" or v.get("properties")
        }
        return {**self.node, "properties": fields}

    @cached_property
    def _checks(self) -> cel.Checks | None:
        return cel.compiled(self.node)

    @cached_property
    def _cells(self) -> list[tuple[str, Callable[[Any], list[Any]]]]:
        return [(column.type, cells.parse(column.path)) for column in self.columns]

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
        structural.default(obj, self._without_meta)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        if not self.status:
            return
        if subresource == "status" and old is not None:
            kept = {key: new[key] for key in ("status",) if key in new}
            managed = (new.get("metadata") or {}).get("managedFields")
            new.clear()
            new.update({**copy.deepcopy({k: v for k, v in old.items() if k != "status"}), **kept})
            if managed is not None:
                new["metadata"]["managedFields"] = managed
        elif old is not None and "status" in old:
            new["status"] = copy.deepcopy(old["status"])
        else:
            new.pop("status", None)

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        found = [*self._schema(new, old, subresource), *self._scale(new, subresource)]
        if subresource != "status":
            found += self._embedded(new)
        repeated = list(lists.duplicates(self.node, new))
        if repeated and (old is None or not any(lists.duplicates(self.node, old))):
            found += repeated
        if self._checks is None:
            return found
        if any(cause.reason in causes.BLOCKING for cause in found):
            return [*found, causes.invalid("", None, _NOT_CHECKED)]
        return found + cel.validate(self._checks, new, old)

    def _schema(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        if subresource != "status":
            return validation.validate(self._without_meta, new, "", validation.UNKNOWN if old is None else old)
        node = (self.node.get("properties") or {}).get("status")
        if node is None or "status" not in new:
            return []
        before = (old or {}).get("status", validation.UNKNOWN)
        return validation.validate(node, new["status"], "status", before)

    def _scale(self, obj: Object, subresource: str) -> Iterator[Cause]:
        if self.scale is None:
            return
        spec, status, _ = self.scale
        for path in (status,) if subresource == "status" else (spec, status):
            value = (cells.parse(path)(obj) or [0])[0]
            if type(value) is not int:
                yield causes.invalid(path, 0, f"{path} accessor error: {causes.shown(value)} is no int64")
            elif not 0 <= value < 2**31:
                yield causes.invalid(path, value, causes.between(0, 2**31 - 1))

    def _embedded(self, obj: Object) -> Iterator[Cause]:
        for path, held in structural.embedded(obj, self.node):
            for name in ("apiVersion", "kind"):
                if not held.get(name):
                    yield causes.required(f"{path}.{name}")
            meta = held.get("metadata") or {}
            yield from metadata.labels(meta.get("labels") or {}, f"{path}.metadata.labels")
            yield from metadata.annotations(meta.get("annotations") or {}, f"{path}.metadata.annotations")

    def table(self, obj: Object, now: float) -> list[Any]:
        return [cells.cell(kind, find(obj), now) for kind, find in self._cells]
