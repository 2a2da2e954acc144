"""`metadata.managedFields`: who owns which fields, kept through every write that is not an apply (that is `apply`).

An entry belongs to a manager, an operation, for updates an apiVersion, and a subresource. A write takes what it changed
from every entry and gives it to the writer's own, whose time is set; a write that changes nothing leaves no trace.
Follows apimachinery's `managedfields` package. All versions of a kind have the same fields here (conversion None), so
entries of other versions are treated alike.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from devkube.changes import Changes, compare
from devkube.fieldsets import FieldSet
from devkube.kinds import Object
from devkube.schema import Schema
from devkube.typed import Type, Untypable, compiled

Entry = dict[str, Any]
Owner = tuple[str, str, str, str]  # manager, operation, apiVersion (updates only), subresource
Managers = dict[Owner, Entry]

# Never owned by anybody: the server's, or the object's identity.
_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_META = frozenset(
    ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")  # noqa: RUF005
    + ("selfLink", "clusterName")  # long gone, and still on upstream's list
)
# Go's zero value of a built-in type has these fields already: structs held by value. They do not count as added.
_VALUES = frozenset(
    ("metadata", "spec", "status", "strategy", "updateStrategy", "template", "jobTemplate", "loadBalancer")  # noqa: RUF005
    + ("resources", "source")  # of a PersistentVolumeClaim's spec and of an Event
)


def track_update(
    new: Object,
    old: Object | None,
    *,
    manager: str,
    schema: Schema,
    subresource: str = "",
    now: str,
    group_version: str,
    reset: Collection[str] = (),
) -> None:
    """Set `new`'s managedFields after a create (`old` None), an update or a patch. Only `new["metadata"]` is replaced.

    `now` is a metav1.Time (`Clock.timestamp()`); `reset` names what this endpoint does not write ("status", or "spec").
    Who sends valid managedFields replaces them, who sends `[]` or `[{}]` drops them, and objects without any are not
    tracked until somebody applies.
    """
    managers = _current(new, old, subresource)
    if managers or old is None:
        of = compiled(schema)
        try:
            changes = changes_of(new, old, of).without(FieldSet.paths(reset))
            owner = owner_of(manager, "Update", group_version, subresource)
            managers = _updated(fitting(managers, of), changes, owner, group_version, now)
        except (Untypable, RecursionError):  # what ownership cannot describe is not tracked
            managers = {}
    put(new, managers)


def owner_of(manager: str, operation: str, group_version: str, subresource: str) -> Owner:
    return manager or "unknown", operation, group_version if operation == "Update" else "", subresource


def entry(owner: Owner, fields: FieldSet, group_version: str, time: str | None) -> Entry:
    manager, operation, _, subresource = owner
    found: Entry = {"manager": manager, "operation": operation, "apiVersion": group_version}
    if time is not None:
        found["time"] = time
    found |= {"fieldsType": "FieldsV1", "fieldsV1": fields.tree}
    return found | {"subresource": subresource} if subresource else found


def fields_of(one: Entry) -> FieldSet:
    return FieldSet(one["fieldsV1"])


def entries_of(obj: Mapping[str, Any] | None) -> Any:
    meta = (obj or {}).get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def decode(entries: Any, *, ours: bool = False) -> Managers:
    """ValueError where they are malformed. `ours` were written here and need no check."""
    managers: Managers = {}
    if not isinstance(entries, list | None):
        raise ValueError("managedFields is a list")
    for one in entries or ():
        checked = one if ours else _checked(one)
        if checked["fieldsV1"]:
            owner = (checked["manager"], checked["operation"], checked["apiVersion"], checked.get("subresource", ""))
            managers[owner_of(*owner)] = checked
    return managers


def managers_of(live: Object | None) -> Managers:
    try:
        return decode(entries_of(live), ours=True)
    except (ValueError, KeyError, TypeError):  # an object that came into the store by another way
        return {}


def put(obj: Object, managers: Managers) -> None:
    """Set managedFields in upstream's order: applies first, then by time."""
    meta = obj.get("metadata")
    rest = {k: v for k, v in meta.items() if k != "managedFields"} if isinstance(meta, dict) else {}
    order = ("operation", "time", "manager", "apiVersion", "subresource")
    entries = sorted(managers.values(), key=lambda one: [one.get(key, "") for key in order])
    obj["metadata"] = rest | ({"managedFields": entries} if entries else {})


def tracked(obj: Mapping[str, Any], *, whole: bool = False) -> Object:
    """The object without what nobody owns; `whole`: without managedFields only. Shares everything below metadata."""
    meta = obj.get("metadata")
    hidden = frozenset({"managedFields"}) if whole else _UNOWNED_META
    rest = {key: value for key, value in meta.items() if key not in hidden} if isinstance(meta, dict) else {}
    found = {key: value for key, value in obj.items() if key != "metadata" and (whole or key not in _UNOWNED)}
    return found | {"metadata": rest} if rest or whole else found


def changes_of(new: Object, old: Object | None, of: Type) -> Changes:
    after = tracked(new)
    before = tracked(old) if old is not None else _zero(after, of) if of.builtin else {}
    for one, other in ((before, after), (after, before)):  # metadata itself is nobody's
        if "metadata" in one:
            other.setdefault("metadata", {})
    return compare(before, after, of)


def fitting(managers: Managers, of: Type) -> Managers:
    """Entries as the present schema allows them."""
    if of.builtin:
        return managers
    return {owner: with_fields(one, fields_of(one).fitting(of)) for owner, one in managers.items()}


def with_fields(one: Entry, fields: FieldSet) -> Entry:
    return one if fields.tree is one["fieldsV1"] else {**one, "fieldsV1": fields.tree}


def taken_from(managers: Managers, lost: FieldSet) -> Managers:
    """Everybody without the fields that somebody else wrote or removed; nobody is left with nothing."""
    left = {owner: with_fields(one, fields_of(one) - lost) for owner, one in managers.items()} if lost else managers
    return {owner: one for owner, one in left.items() if one["fieldsV1"]}


def _current(new: Object, old: Object | None, subresource: str) -> Managers:
    before, live = entries_of(old), managers_of(old)
    sent = entries_of(new)
    if subresource or sent is None or sent == before:
        return live
    if sent in ([], [{}]):
        return {}
    try:
        return decode(sent) or live
    except (ValueError, OverflowError):  # malformed, or a time out of range
        return live


def _updated(managers: Managers, changes: Changes, owner: Owner, group_version: str, now: str) -> Managers:
    written = changes.written
    left = taken_from(managers, written | changes.removed)
    if written:
        mine = left.get(owner)
        left[owner] = entry(owner, written | fields_of(mine) if mine else written, group_version, now)
    return left


def _zero(value: Mapping[str, Any], of: Type) -> Object:
    """What Go's zero value of a built-in type would show of the fields of `value`."""
    found: Object = {}
    for name, item in value.items():
        child = of.child(name)
        if name in _VALUES and isinstance(item, dict) and child is not None and child.is_struct:
            found[name] = {} if child.atomic_map else _zero(item, child)
        elif item is None or (name in of.required and item not in ([], {})):
            found[name] = None
    return found


def _checked(one: Any) -> Entry:
    """An entry that a client sent, in our spelling."""
    if not isinstance(one, dict) or one.get("operation") not in ("Apply", "Update"):
        raise ValueError("operation must be `Apply` or `Update`")
    if not one.get("apiVersion"):
        raise ValueError("apiVersion must not be empty")
    if one.get("fieldsType") != "FieldsV1":
        raise ValueError(f"invalid fieldsType {one.get('fieldsType')!r} in managed fields entry")
    texts = [one.get(key) or "" for key in ("manager", "apiVersion", "subresource", "time")]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("manager, apiVersion, subresource and time are texts")
    manager, version, subresource, time = texts
    owner = (manager, one["operation"], version, subresource)
    moment = datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else None
    return entry(owner, FieldSet.read(one.get("fieldsV1")), version, moment)
