"""Server-side apply: merge a manager's configuration into an object and keep who owns what. Pure.

Follows apimachinery's `managedfields` (`kubectl`'s way from client-side apply, `before-first-apply`) and
structured-merge-diff's `merge.Updater`. A configuration that does not fit the type ends upstream in a 500; here it
is a 400.
"""

import json
from collections import deque
from typing import Any

from devkube.errors import Cause, StatusError, bad_request
from devkube.fieldsets import NOTHING, Fields, Path, applied, kind_of, nodes, printed, with_parents, without, written
from devkube.kinds import Object
from devkube.managedfields import Author, Managed, Owner, entries_of, managers_of, put, taken_from, tracked
from devkube.schema import SCALAR, Schema, Untypable, element
from devkube.values import clone, compact

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(live: Object | None, config: Object, author: Author, *, force: bool) -> Object:
    """The object after an apply, managedFields included; `live` None creates. Shares nothing with its inputs.

    400 for a configuration that has no place in the type, 409 with the conflicts as causes where others own what it
    changes.
    """
    if isinstance(entries_of(config), list):
        raise bad_request("metadata.managedFields must be nil")
    # Clients send `creationTimestamp: null` and the like: in metadata a null says nothing.
    stated = {name: value for name, value in (config.get("metadata") or {}).items() if value is not None}
    config = {**config, "metadata": stated}
    of, owner = author.schema, author.owner("Apply")
    base = {"apiVersion": config.get("apiVersion"), "kind": config.get("kind")} if live is None else live
    try:
        own = applied(nodes(tracked(config), of, unique=True))
        before = nodes(tracked(base), of) if live else {}
        managers = managers_of(live)
        if live and not managers:
            first = author.owner("Update")._replace(manager="before-first-apply")
            managers = {first: author.managed(before.keys())}
        last = managers.pop(owner, None)
        owned = frozenset(own).union(*(one.fields for one in managers.values()))
        new = _prune(merge(base, config, of), last.fields if last else NOTHING, owned, of)
        after = nodes(tracked(new), of)
        changed = written(before, after)
        conflicts = [(one, path) for one, its in sorted(managers.items()) for path in sorted(its.fields & changed)]
        if conflicts and not force:
            _refuse(conflicts, _inherited(base, of, author.group_version) if author.manager == "kubectl" else NOTHING)
    except (Untypable, RecursionError) as why:
        raise bad_request(f"failed to create typed patch object: {why}") from None
    moved = changed | (before.keys() - after.keys())
    managers = taken_from(managers, moved)
    managers[owner] = author.managed(own)
    if live and not moved:  # who changes nothing leaves no time, or his last
        managers[owner] = Managed(own, author.group_version, last.time if last else None)
    merged: Object = clone(new)
    put(merged, managers)
    if author.manager == "kubectl":
        _renew_last_applied(merged, config)
    return merged


def merge(live: Any, config: Any, of: Schema) -> Any:
    """The live value with everything that the configuration says. Shares branches with both."""
    leaf = kind_of(config, of) == SCALAR
    if not leaf and isinstance(live, dict) and isinstance(config, dict | None):
        merged = dict(live)
        for name, item in (config or {}).items():
            merged[name] = merge(live[name], item, of.child(name)) if name in live else item
        return merged
    if not leaf and isinstance(live, list) and isinstance(config, list | None):
        return _merge_items(live, config or [], of)
    return config


def _merge_items(live: list[Any], config: list[Any], of: Schema) -> list[Any]:
    """In the order of the configuration; what only the live list has stays where it stands between those."""
    theirs = [(element(item, of), item) for item in live]
    mine = {element(item, of): item for item in config}
    before = dict(theirs)
    shared = deque(name for name in mine if name in before)
    rest = deque(theirs)
    merged: list[Any] = []
    for name, item in mine.items():
        while rest and (not shared or rest[0][0] != shared[0]):
            key, other = rest.popleft()
            if key not in mine:
                merged.append(other)
        merged.append(merge(before[name], item, of.items) if name in before else item)
        if shared and name == shared[0]:
            shared.popleft()
    return merged + [other for key, other in rest if key not in mine]


def _prune(merged: Object, last: Fields, owned: Fields, of: Schema) -> Object:
    """Without the fields that the manager applied before (`last`) and nobody owns now (`owned`, its own included)."""
    if last <= owned:
        return merged
    pruned: Object = without(merged, with_parents(last) - with_parents(owned), of)
    return pruned


def _refuse(conflicts: list[tuple[Owner, Path]], allowed: Fields) -> None:
    """409 for the conflicts, except with what `kubectl apply` (client-side) had applied and nobody changed since."""
    left = [(_printed(owner), printed(path)) for owner, path in conflicts if path not in allowed]
    if not left:
        return
    causes = [Cause("FieldManagerConflict", f"conflict with {owner}", path) for owner, path in left]
    if len(left) == 1:
        message = f"Apply failed with 1 conflict: conflict with {left[0][0]}: {left[0][1]}"
    else:
        lines = []
        for owner in dict.fromkeys(owner for owner, _ in left):
            lines.append(f"conflicts with {owner}:")
            lines += [f"- {path}" for other, path in left if other == owner]
        message = f"Apply failed with {len(left)} conflicts: " + "\n".join(lines)
    raise StatusError(409, "Conflict", message, causes=causes)


def _printed(owner: Owner) -> str:
    told = compact(owner.manager) + (f" with subresource {compact(owner.subresource)}" if owner.subresource else "")
    return f"{told} using {owner.group_version}" if owner.operation == "Update" else told


def _inherited(live: Object, of: Schema, group_version: str) -> Fields:
    """Fields of the last client-side apply that still have the value it gave them."""
    annotations = live.get("metadata", {}).get("annotations") or {}
    try:
        last = json.loads(annotations.get(LAST_APPLIED) or "null")
        if not isinstance(last, dict) or last.get("apiVersion") != group_version:
            return NOTHING
        then = nodes(tracked(last), of)
        return applied(then) - written(nodes(tracked(live), of), then)
    except (ValueError, RecursionError, Untypable):
        return NOTHING


def _renew_last_applied(new: Object, config: Object) -> None:
    """`kubectl apply --server-side` keeps the annotation of client-side apply true where there is one."""
    annotations = new["metadata"].get("annotations")
    if not isinstance(annotations, dict) or not annotations.get(LAST_APPLIED):
        return
    meta = dict(config.get("metadata") or {})
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    annotations[LAST_APPLIED] = compact({**config, "metadata": meta}) + "\n"
