"""What the server knows of a resource, and the rules of its type as one protocol.

`Resource` is a row of discovery. `Rules` is everything that depends on the type of an object: two kinds of it exist,
`builtin` (schemas of a package, plus hand-written rules for Pods and a few others) and `custom` (from a CRD). Verbs
know neither. `Catalog` finds resources by URL or by kind and changes while the server runs, as CRDs come and go.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from devkube.errors import About, Cause
from devkube.schema import Schema

Object = dict[str, Any]  # a Kubernetes object as JSON: apiVersion, kind, metadata, …
FieldValidation = Literal["Ignore", "Warn", "Strict"]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


@dataclass(frozen=True)
class Column:
    """One column of a server-side table. `path` is a JSONPath as CRDs write it (`.spec.min`)."""

    name: str
    type: str  # integer, number, string, boolean, date
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Subresource:
    """`status`, `scale`, `token`, `eviction`, … `kind` with its group and version when it is not the parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class Rules(Protocol):
    """What depends on the type of the object. Nothing here changes state outside its arguments."""

    @property
    def schema(self) -> Schema: ...

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        """Prune what the type does not know, in place. Warnings (texts as upstream: `unknown field "spec.x"`) for Warn;
        StatusError 400 for Strict. A wrong JSON type where a Go struct could not decode it is a 400 too (built-ins)."""

    def default(self, obj: Object) -> None:
        """Fill defaults in place. Called before and after mutating webhooks."""

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None:
        """What a strategy does before validation on create (old None) and update: derived fields, dropped fields."""

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        """Every violation of a create (old None) or an update."""

    def table(self, obj: Object, now: float) -> list[Any]:
        """The cells of one row, without the leading Name, one per column of the resource."""


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    rules: Rules = field(repr=False)
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    list_kind: str = ""
    custom: bool = False
    # JSONPaths of the scale subresource (specReplicasPath, statusReplicasPath, labelSelectorPath), CRDs and workloads.
    scale_paths: tuple[str, str, str] = (".spec.replicas", ".status.replicas", "")
    # What field selectors may ask for, of a CRD (its selectableFields, `spec.color`); built-ins: `selectors`.
    selectable: tuple[str, ...] = ()
    # Of a CRD's version: objects stored up to this store version were made under another schema, and are read anew.
    since: int = 0

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """The key under which objects are stored: all served versions of a CRD share it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def listing(self) -> str:
        return self.list_kind or f"{self.kind}List"

    def about(self, name: str = "") -> About:
        return About(self.group, self.plural, name, self.kind)


def preference(version: str) -> tuple[Any, ...]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta1, v1alpha1, then other names by alphabet."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, version)
    return (0, {"beta": 1, "alpha": 2}.get(match[2], 0), -int(match[1]), -int(match[3] or 0))


class Catalog:
    """Every resource that is served now."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self.put(resources)

    def put(self, resources: Iterable[Resource]) -> None:
        for one in resources:
            self._resources[one.group, one.version, one.plural] = one

    def drop(self, group: str, plural: str) -> None:
        for key in [k for k in self._resources if k[0] == group and k[2] == plural]:
            del self._resources[key]

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def of_kind(self, group_version: str, kind: str) -> Resource | None:
        return next((r for r in self if r.kind == kind and r.group_version == group_version), None)

    def stored_as(self, key: str) -> Resource | None:
        """A resource whose objects are stored under this key (the first version served)."""
        return next((r for r in self if r.key == key), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._resources.values()))

    def groups(self) -> Mapping[str, Sequence[str]]:
        """group -> its versions in order of preference, whichever CRDs they come from."""
        found: dict[str, set[str]] = {}
        for one in self:
            found.setdefault(one.group, set()).add(one.version)
        return {group: sorted(versions, key=preference) for group, versions in found.items()}
