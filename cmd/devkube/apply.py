"""Server-side apply: merge a manager's configuration into an object and keep who owns what. Pure.

Follows apimachinery's `managedfields` (order of checks, `kubectl`'s way from client-side apply, `before-first-apply`)
and structured-merge-diff's `merge.Updater`. A configuration that does not fit the type ends upstream in a 500; here it
is a 400 with the same text.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from devkube.changes import compare
from devkube.errors import Cause, StatusError, bad_request
from devkube.fieldsets import FieldSet
from devkube.kinds import Object
from devkube.managedfields import (
    Managers,
    Owner,
    changes_of,
    entries_of,
    entry,
    fields_of,
    fitting,
    managers_of,
    owner_of,
    put,
    taken_from,
    track_update,
    tracked,
)
from devkube.merging import merge, problems, prune
from devkube.schema import Schema
from devkube.typed import Type, Untypable, compiled
from devkube.values import check_depth, clone, compact

__all__ = ["apply", "track_update"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS = 256 * 1024  # bytes of all keys and values of one object
Conflicts = list[tuple[Owner, str]]  # an owner and a path


def apply(
    live: Object | None,
    config: Any,
    *,
    manager: str,
    force: bool,
    schema: Schema,
    subresource: str = "",
    now: str,
    group_version: str,
    kind: str = "",
    reset: Collection[str] = (),
) -> Object:
    """The object after an apply, managedFields included; `live` None creates. Shares nothing with its inputs.

    `now` is a metav1.Time; `kind` is checked where given; `reset` names what this endpoint does not write ("status").
    400 for a configuration that does not fit, 409 with the conflicts as causes where others own what it changes.
    """
    _check(config, group_version, kind)
    of = compiled(schema)
    wrong = problems(config, of)
    if wrong:
        told = wrong[0] if len(wrong) == 1 else "\n".join(["errors:", *(f"  {one}" for one in wrong)])
        raise bad_request(f"failed to create typed patch object ({_about(config)}): {told}")
    owner = owner_of(manager, "Apply", group_version, subresource)
    base = {"apiVersion": config["apiVersion"], "kind": config.get("kind")} if live is None else live
    ignored = FieldSet.paths(reset)
    try:
        managers = fitting(_managers(live, of, group_version, subresource, now), of)
        new, left, conflicts = _applied(base, config, managers, owner, of, ignored)
        if conflicts and not force:
            _refuse(conflicts, _inherited(base, of, group_version) if manager == "kubectl" else FieldSet({}))
    except Untypable as why:
        raise bad_request(f"failed to merge config: {why}") from None
    new = _with_live_nulls(clone(new), base)
    own = (FieldSet.of(tracked(config), of)).without(ignored)
    if own:
        last = managers.get(owner)
        changed = live is None or tracked(new, whole=True) != tracked(live, whole=True)
        left[owner] = entry(owner, own, group_version, now if changed else last.get("time") if last else None)
    put(new, left)
    if manager == "kubectl":
        _renew_last_applied(new, config)
    return new


def _with_live_nulls(new: Object, live: Object) -> Object:
    """Clients send `creationTimestamp: null` and the like: in metadata a null says nothing."""
    meta, before = new.get("metadata") or {}, live.get("metadata") or {}
    stated = {name: before.get(name) if value is None else value for name, value in meta.items()}
    return new | {"metadata": {name: value for name, value in stated.items() if value is not None}}


def _check(config: Any, group_version: str, kind: str) -> None:
    check_depth(config, "the configuration")
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: the body of an apply is one object")
    version, given = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
    if version != group_version or (kind and given != kind):
        raise bad_request(f"invalid object type: {_gvk(version, given)}")
    if isinstance(entries_of(config), list):
        raise bad_request("metadata.managedFields must be nil")


def _managers(live: Object | None, of: Type, group_version: str, subresource: str, now: str) -> Managers:
    """Who owns the live object; if nobody does, everything it has is `before-first-apply`'s."""
    managers = managers_of(live)
    if managers or live is None:
        return managers
    owner = owner_of("before-first-apply", "Update", group_version, subresource)
    fields = changes_of(live, None, of).written
    return {owner: entry(owner, fields, group_version, now)} if fields else {}


def _applied(
    base: Object, config: Object, managers: Managers, owner: Owner, of: Type, ignored: FieldSet
) -> tuple[Object, Managers, Conflicts]:
    """The new object, the other managers with what is left to them, and what was taken from them."""
    last = managers.get(owner)
    others = {other: one for other, one in managers.items() if other != owner}
    owned = FieldSet.of(config, of).without(ignored)
    for one in others.values():
        owned |= fields_of(one)
    new = prune(merge(base, config, of), fields_of(last) if last else FieldSet({}), owned, of)
    changes = compare(tracked(base), tracked(new), of).without(ignored)
    written = changes.written
    conflicts = [(other, path) for other, one in sorted(others.items()) for path in fields_of(one) & written]
    return new, taken_from(others, written | changes.removed), conflicts


def _refuse(conflicts: Conflicts, allowed: FieldSet) -> None:
    """409 for the conflicts, except with what `kubectl apply` (client-side) had applied and nobody changed since."""
    inherited = set(allowed)
    left = [(owner, path) for owner, path in conflicts if path not in inherited]
    if not left:
        return
    causes = [Cause("FieldManagerConflict", f"conflict with {_printed(owner)}", path) for owner, path in left]
    if len(left) == 1:
        message = f"Apply failed with 1 conflict: conflict with {_printed(left[0][0])}: {left[0][1]}"
    else:
        lines = []
        for owner in dict.fromkeys(owner for owner, _ in left):
            lines.append(f"conflicts with {_printed(owner)}:")
            lines += [f"- {path}" for other, path in left if other == owner]
        message = f"Apply failed with {len(left)} conflicts: " + "\n".join(lines)
    raise StatusError(409, "Conflict", message, causes=causes)


def _printed(owner: Owner) -> str:
    manager, operation, version, subresource = owner
    told = compact(manager) + (f" with subresource {compact(subresource)}" if subresource else "")
    return f"{told} using {version}" if operation == "Update" else told


def _inherited(live: Object, of: Type, group_version: str) -> FieldSet:
    """Fields of the last client-side apply that still have the value it gave them."""
    annotations = live.get("metadata", {}).get("annotations") or {}
    try:
        last = json.loads(annotations.get(LAST_APPLIED) or "null")
        if not isinstance(last, dict) or last.get("apiVersion") != group_version or problems(last, of):
            return FieldSet({})
        changes = compare(last, live, of)
        return FieldSet.of(last, of) - changes.modified - changes.added - changes.removed
    except (ValueError, RecursionError, Untypable):
        return FieldSet({})


def _renew_last_applied(new: Object, config: Object) -> None:
    """`kubectl apply --server-side` keeps the annotation of client-side apply true where there is one."""
    annotations = new["metadata"].get("annotations")
    if not isinstance(annotations, dict) or not annotations.get(LAST_APPLIED):
        return
    meta = dict(config.get("metadata") or {})
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    annotations[LAST_APPLIED] = compact({**config, "metadata": meta}) + "\n"
    if sum(len(str(text).encode()) for pair in annotations.items() for text in pair) > _MAX_ANNOTATIONS:
        del annotations[LAST_APPLIED]


def _about(config: Mapping[str, Any]) -> str:
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    gvk = _gvk(str(config.get("apiVersion") or ""), str(config.get("kind") or ""))
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {gvk}"


def _gvk(group_version: str, kind: str) -> str:
    return f"{'' if '/' in group_version else '/'}{group_version}, Kind={kind}"
