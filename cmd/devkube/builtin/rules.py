"""`BuiltinRules`: a built-in kind behind the protocol `kinds.Rules`.

The schema decides what decodes; hand-written functions, found by the kind, decide the rest. A rules object is cheap:
nothing is compiled before the first object of its kind arrives.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from devkube.builtin import types
from devkube.builtin.demands import unmet
from devkube.builtin.document import definition, schema_of
from devkube.errors import Cause, bad_request
from devkube.kinds import FieldValidation, Object
from devkube.schema import Schema

Default = Callable[[Object], None]
Prepare = Callable[[Object, Object | None, str], None]
Validate = Callable[[Object, Object | None, str], Iterable[Cause]]
Cells = Callable[[Object, float], list[Any]]


@dataclass(frozen=True)
class Behaviour:
    """What is written by hand for one kind; each part may be absent."""

    defaults: tuple[Default, ...] = ()
    prepares: tuple[Prepare, ...] = ()
    validates: tuple[Validate, ...] = ()
    cells: Cells | None = None
    warning: str = ""  # told with every write: what devkube keeps but does not do


@dataclass(frozen=True)
class BuiltinRules:
    group: str
    version: str
    kind: str
    behaviour: Behaviour = field(default_factory=Behaviour, repr=False)

    @cached_property
    def schema(self) -> Schema:
        return schema_of(self.group, self.version, self.kind)

    @cached_property
    def type(self) -> types.Type:
        return types.named(definition(self.group, self.version, self.kind))

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        warnings = [self.behaviour.warning] if self.behaviour.warning else []
        gone: list[str] = []
        try:
            if self.type.fits(obj):
                return warnings
            self.type.decode(obj, "", gone)
        except types.Undecodable as error:
            raise bad_request(self._refused(str(error))) from None
        except RecursionError:
            raise bad_request(self._refused("exceeded max depth")) from None
        unknown = [f'unknown field "{path}"' for path in gone]
        if unknown and validation == "Strict":
            raise bad_request(self._refused("strict decoding error: " + ", ".join(unknown)))
        return warnings + (unknown if validation == "Warn" else [])

    def _refused(self, why: str) -> str:
        # Upstream leaves the group out.
        return f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'

    def default(self, obj: Object) -> None:
        for one in self.behaviour.defaults:
            one(obj)

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        for one in self.behaviour.prepares:
            one(new, old, subresource)

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        found = unmet(self.type, new)
        for one in self.behaviour.validates:
            told = set(found)
            found += [cause for cause in one(new, old, subresource) if cause not in told]
        return found

    def table(self, obj: Object, now: float) -> list[Any]:
        return self.behaviour.cells(obj, now) if self.behaviour.cells else []
