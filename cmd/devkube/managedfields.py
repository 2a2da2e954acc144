"""`metadata.managedFields`: who owns which fields, kept through every write that is not an apply (that is `apply`).

An entry belongs to a manager, an operation, for updates an apiVersion, and a subresource. A write takes what it changed
from every entry and gives it to the writer's own, whose time is set; a write that changes nothing leaves no trace.
Follows apimachinery's `managedfields` package. All versions of a kind have the same fields here (conversion None), so
entries of other versions are treated alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from devkube.fieldsets import NOTHING, Fields, nodes, read, tree, written
from devkube.kinds import Object
from devkube.schema import Schema, Untypable

# Never owned by anybody: the server's, or the object's identity.
_UNOWNED: Final = frozenset({"apiVersion", "kind"})
_UNOWNED_META: Final = frozenset(
    ["name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"]
)


class Owner(NamedTuple):
    manager: str
    operation: Literal["Apply", "Update"]
    group_version: str  # of updates only
    subresource: str


class _Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    operation: Literal["Apply", "Update"]
    api_version: Annotated[str, msgspec.Meta(min_length=1)]
    fields_type: Literal["FieldsV1"]
    fields: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")
    time: str | None = None
    manager: str = ""
    subresource: str = ""


@dataclass(frozen=True)
class Managed:
    """What an owner has, written in an apiVersion at a time (metav1.Time)."""

    fields: Fields
    group_version: str
    time: str | None


Managers = dict[Owner, Managed]


@dataclass(frozen=True)
class Author:
    """Who writes objects of a type through an endpoint, and when."""

    manager: str
    schema: Schema
    group_version: str
    now: str
    subresource: str = ""

    def owner(self, operation: Literal["Apply", "Update"]) -> Owner:
        return Owner(self.manager, operation, self.group_version if operation == "Update" else "", self.subresource)

    def managed(self, fields: Fields) -> Managed:
        return Managed(fields, self.group_version, self.now)


def track_update(new: Object, old: Object | None, author: Author) -> None:
    """Set `new`'s managedFields after a create (`old` None), an update or a patch. Only `new["metadata"]` is replaced.

    Who sends valid managedFields replaces them, who sends `[]` or `[{}]` drops them, and objects without any are not
    tracked until somebody applies.
    """
    managers = _current(new, old, author.subresource)
    if managers or old is None:
        of, owner = author.schema, author.owner("Update")
        try:
            one, other = tracked(old) if old else {}, tracked(new)
            some = {key for key in {*one, *other} if key not in one or key not in other or one[key] != other[key]}
            before, after = (nodes({key: obj[key] for key in obj.keys() & some}, of) for obj in (one, other))
            changed = written(before, after)
            managers = taken_from(managers, changed | (before.keys() - after.keys()))
            if changed:
                mine = managers[owner].fields if owner in managers else NOTHING
                managers[owner] = author.managed(mine | changed)
        except (Untypable, RecursionError):  # what ownership cannot describe is not tracked
            managers = {}
    put(new, managers)


def entries_of(obj: Mapping[str, Any] | None) -> Any:
    meta = (obj or {}).get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def managers_of(live: Object | None) -> Managers:
    return _decoded(entries_of(live)) or {}


def put(obj: Object, managers: Managers) -> None:
    """Set managedFields."""
    meta = obj.get("metadata")
    rest = {k: v for k, v in meta.items() if k != "managedFields"} if isinstance(meta, dict) else {}
    owned = ((owner, one) for owner, one in managers.items() if one.fields)
    entries = [
        msgspec.to_builtins(_Entry(who, one.group_version, "FieldsV1", tree(one.fields), one.time, name, sub))
        for (name, who, _, sub), one in owned
    ]
    # In upstream's order: applies first, then by time.
    order = ("operation", "time", "manager", "apiVersion", "subresource")
    entries.sort(key=lambda one: [one.get(key, "") for key in order])
    obj["metadata"] = rest | ({"managedFields": entries} if entries else {})


def tracked(obj: Mapping[str, Any]) -> Object:
    """The object without what nobody owns. Shares everything below metadata."""
    meta = obj.get("metadata")
    rest = {key: value for key, value in meta.items() if key not in _UNOWNED_META} if isinstance(meta, dict) else {}
    return {key: value for key, value in obj.items() if key not in _UNOWNED} | {"metadata": rest}


def taken_from(managers: Managers, lost: Fields) -> Managers:
    """Everybody without the fields that somebody else wrote or removed."""
    return {owner: Managed(one.fields - lost, one.group_version, one.time) for owner, one in managers.items()}


def _current(new: Object, old: Object | None, subresource: str) -> Managers:
    sent = entries_of(new)
    if subresource or sent is None or sent == entries_of(old):
        return managers_of(old)
    return {} if sent in ([], [{}]) else _decoded(sent) or managers_of(old)


def _decoded(entries: Any) -> Managers | None:
    """None where they are malformed."""
    managers: Managers = {}
    try:
        for one in msgspec.convert(entries or [], list[_Entry]):
            time = one.time and datetime.fromisoformat(one.time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            version = one.api_version if one.operation == "Update" else ""
            owner = Owner(one.manager or "unknown", one.operation, version, one.subresource)
            managers[owner] = Managed(frozenset(read(one.fields)), one.api_version, time)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
        return None
    return managers
