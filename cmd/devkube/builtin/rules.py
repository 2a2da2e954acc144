"""`BuiltinRules`: a built-in kind behind the protocol `kinds.Rules`.

The schema decides what decodes; tables by Go struct and by kind decide the rest. A rules object is cheap: no schema is
read before the first object arrives.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from devkube.builtin import types
from devkube.builtin.columns import cells
from devkube.builtin.defaults import DERIVED, Derive, default
from devkube.builtin.document import schema_of
from devkube.builtin.fields import problems
from devkube.builtin.others import KINDS, STRUCTS
from devkube.errors import Cause, bad_request
from devkube.kinds import FieldValidation, Object
from devkube.schema import Schema


@dataclass(frozen=True)
class BuiltinRules:
    group: str
    version: str
    kind: str
    derive: Derive | None = field(default=None, repr=False)  # of this server's own: addresses of Services

    @cached_property
    def schema(self) -> Schema:
        return schema_of(self.group, self.version, self.kind)

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        gone: list[str] = []
        try:
            types.decode(obj, self.schema.node, "", gone)
        except (types.Undecodable, RecursionError) as error:
            why = str(error) if isinstance(error, types.Undecodable) else "exceeded max depth"
            raise bad_request(self._refused(why)) from None
        unknown = [f'unknown field "{path}"' for path in gone]
        if unknown and validation == "Strict":
            raise bad_request(self._refused("strict decoding error: " + ", ".join(unknown)))
        return unknown if validation == "Warn" else []

    def _refused(self, why: str) -> str:
        # Upstream leaves the group out.
        return f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'

    def default(self, obj: Object) -> None:
        default(obj, self.schema.node)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        if derive := self.derive or DERIVED.get(self.kind):
            derive(new, old, subresource)

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        found = list(problems(new, self.schema.node, STRUCTS))
        if rule := KINDS.get(self.kind):
            found += [cause for cause in rule(new, old, subresource) if cause not in found]
        return found

    def table(self, obj: Object, now: float) -> list[Any]:
        return cells(self.kind, obj, now)
