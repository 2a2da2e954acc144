"""`metadata.managedFields`: who owns which fields, kept through every write that is not an apply (that is `apply`).

An entry belongs to a manager, an operation, for updates an apiVersion, and a subresource. A write takes what it changed
from every entry and gives it to the writer's own, whose time is set; a write that changes nothing leaves no trace.
Follows apimachinery's `managedfields` package. All versions of a kind have the same fields here (conversion None), so
entries of other versions are treated alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from devkube.errors import StatusError
from devkube.fieldsets import NOTHING, Fields, nodes, read, tree, written
from devkube.kinds import Object
from devkube.schema import Schema
from devkube.typed import Untypable, compiled
from devkube.values import check_depth

# Never owned by anybody: the server's, or the object's identity.
_UNOWNED: Final = frozenset({"apiVersion", "kind"})
_UNOWNED_META: Final = frozenset(
    ["name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"]
)


class Owner(NamedTuple):
    manager: str
    operation: str  # Apply or Update
    group_version: str  # of updates only
    subresource: str


@dataclass(frozen=True)
class Managed:
    """What an owner has, written in an apiVersion at a time."""

    fields: Fields
    group_version: str
    time: str | None


Managers = dict[Owner, Managed]


def owner_of(manager: str, operation: str, group_version: str, subresource: str) -> Owner:
    return Owner(manager or "unknown", operation, group_version if operation == "Update" else "", subresource)


def track_update(
    new: Object,
    old: Object | None,
    *,
    manager: str,
    schema: Schema,
    subresource: str = "",
    now: str,
    group_version: str,
) -> None:
    """Set `new`'s managedFields after a create (`old` None), an update or a patch. Only `new["metadata"]` is replaced.

    `now` is a metav1.Time (`Clock.timestamp()`). Who sends valid managedFields replaces them, who sends `[]` or `[{}]`
    drops them, and objects without any are not tracked until somebody applies.
    """
    managers = _current(new, old, subresource)
    if managers or old is None:
        of = compiled(schema)
        try:
            before, after = nodes(tracked(old), of) if old else {}, nodes(tracked(new), of)
            changed = written(before, after)
            managers = taken_from(managers, changed | (before.keys() - after.keys()))
            if changed:
                owner = owner_of(manager, "Update", group_version, subresource)
                mine = managers[owner].fields if owner in managers else NOTHING
                managers[owner] = Managed(mine | changed, group_version, now)
        except (Untypable, RecursionError):  # what ownership cannot describe is not tracked
            managers = {}
    put(new, managers)


def entries_of(obj: Mapping[str, Any] | None) -> Any:
    meta = (obj or {}).get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def managers_of(live: Object | None) -> Managers:
    try:
        return _decode(entries_of(live))
    except (ValueError, OverflowError):  # an object that came into the store by another way
        return {}


def put(obj: Object, managers: Managers) -> None:
    """Set managedFields in upstream's order: applies first, then by time."""
    meta = obj.get("metadata")
    rest = {k: v for k, v in meta.items() if k != "managedFields"} if isinstance(meta, dict) else {}
    order = ("operation", "time", "manager", "apiVersion", "subresource")
    entries = [_entry(owner, one) for owner, one in managers.items() if one.fields]
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
    if sent in ([], [{}]):
        return {}
    try:
        return _decode(sent) or managers_of(old)
    except (ValueError, OverflowError):  # malformed, or a time out of range
        return managers_of(old)


def _entry(owner: Owner, one: Managed) -> Object:
    found = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": one.group_version,
        "time": one.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree(one.fields),
        "subresource": owner.subresource,
    }
    return {key: value for key, value in found.items() if key == "fieldsV1" or value}


def _decode(entries: Any) -> Managers:
    """ValueError where they are malformed."""
    managers: Managers = {}
    if not isinstance(entries, list | None):
        raise ValueError("managedFields is a list")
    for one in entries or ():
        if not isinstance(one, dict) or one.get("operation") not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        if not one.get("apiVersion") or one.get("fieldsType") != "FieldsV1":
            raise ValueError("an entry has an apiVersion and fields of type FieldsV1")
        texts = [one.get(key) or "" for key in ("manager", "apiVersion", "subresource", "time")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("manager, apiVersion, subresource and time are texts")
        manager, version, subresource, time = texts
        moment = datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else None
        try:
            check_depth(one.get("fieldsV1"), "fieldsV1")
            fields = frozenset(read(one.get("fieldsV1") or {}))
        except (StatusError, RecursionError) as why:
            raise ValueError(str(why)) from why
        if fields:
            managers[owner_of(manager, one["operation"], version, subresource)] = Managed(fields, version, moment)
    return managers
