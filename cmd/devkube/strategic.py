"""Strategic merge patch: merge keys and strategies of a built-in type's schema decide how lists and maps are merged.

Follows upstream's strategicpatch, whose order of merged lists is part of what clients see: a list is ordered by
`$setElementOrder`, else by the patch, and what only the server has keeps its place among them.
Directives: `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.

Where upstream lets a malformed patch end in a 500 (an item without merge key, a list of mixed types, an unknown
directive) the answer here is a 400. Custom resources have no merge keys: who routes the request answers 415 for them.
"""

from collections.abc import Callable
from typing import Any

from devkube.errors import bad_request
from devkube.kinds import Object
from devkube.schema import Schema
from devkube.values import clone, compact, go_type

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
_GONE: Any = object()
Key = str | None  # a list's merge key; None for scalars


def strategic_merge(doc: Object, patch: Any, schema: Schema) -> Object:
    """The object after a strategic merge patch. 400 for a malformed patch."""
    if not isinstance(patch, dict | None):
        raise bad_request(f"error decoding patch: a strategic merge patch is an object, not {go_type(patch)}")
    return _map(clone(doc), clone(patch) or {}, schema)


# Everything below works on these two copies and changes them.


def _map(original: Object, patch: Object, schema: Schema | None) -> Object:
    directive = _directive(patch, "replace", "delete")
    if directive:
        return patch if directive == "replace" else {}
    if _RETAIN in patch:
        keys = _listed(patch.pop(_RETAIN))
        original = {key: value for key, value in original.items() if key in keys}
        if any(v is not None and k not in keys and not k.startswith((_DELETE_FROM, _ORDER)) for k, v in patch.items()):
            raise bad_request(f"the patch sets what its {_RETAIN} does not name: {compact(keys)}")
    orders = {key.removeprefix(_ORDER): _listed(patch.pop(key)) for key in list(patch) if key.startswith(_ORDER)}
    for name, order in orders.items():
        field = _field(schema, name)
        if isinstance(original.get(name), list) and name not in patch:
            original[name] = _arranged(original[name], order, original[name], field.patch_merge_key)
    for key, value in patch.items():
        name = key.removeprefix(_DELETE_FROM)
        current = original.get(name)
        if value is None:
            original.pop(name, None)
        elif name != key:
            gone = [_identity(one) for one in _listed(value)]
            original[name] = [one for one in _listed(current or []) if _identity(one) not in gone]
        elif isinstance(value, dict) and isinstance(current, dict):
            field = _field(schema, name)
            original[name] = value if "replace" in field.patch_strategy else _map(current, value, field)
        elif isinstance(value, list) and isinstance(current, list):
            original[name] = _list(current, value, orders.get(name), _field(schema, name))
        elif (new := _plain(value)) is not _GONE:
            original[name] = new
    return original


def _directive(patch: Object, *known: str) -> Any:
    directive = patch.pop(_PATCH, None)
    if directive is not None and directive not in known:
        raise bad_request(f"unknown patch type: {compact(directive)} in {compact(patch)}")
    return directive


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"the patch has {go_type(value)} where a list is expected")
    return value


def _field(schema: Schema | None, name: str) -> Schema:
    if schema and (found := schema.field(name)):
        return found
    raise bad_request(f'unable to find api field in struct for the json field "{name}"')


def _list(live: list[Any], wanted: list[Any], order: list[Any] | None, field: Schema) -> list[Any]:
    if "merge" not in field.patch_strategy:
        return wanted
    key = field.patch_merge_key
    if not key:
        if any(isinstance(one, dict | list | None) for one in wanted):
            raise bad_request("the patch has objects or nulls in a list that holds scalars")
        merged = list({_identity(item): item for item in live + wanted}.values())
        return _arranged(merged, wanted if order is None else order, live, None)
    plain, gone, replace = [], set(), False
    for item in wanted:
        directive = _directive(item, "replace", "delete") if isinstance(item, dict) else None
        if directive == "delete":
            gone.add(_merge_value(item, key))
        elif directive == "replace":
            replace = True
        else:
            plain.append(item)
    if replace:
        return plain
    kept = [item for item in live if _merge_value(item, key) not in gone]
    found = {_merge_value(item, key): item for item in kept}
    for item in plain:
        value = _merge_value(item, key)
        found[value] = _map(found[value], item, field.items) if value in found else _plain(item)
    merged = list(found.values())
    if order is None:
        return _arranged(merged, plain, kept, key)
    # Go's slices: what is appended takes the place of deleted items, and so a part in the order of `live`.
    return _arranged(merged, order, merged[: len(live)], key)


def _arranged(merged: list[Any], order: list[Any], live: list[Any], key: Key) -> list[Any]:
    """What `order` names, in that order; in between what only the server has, where the live list tells its place."""
    named, there = _positions(order, key), _positions(live, key)
    ours = sorted((one for one in merged if named(one) >= 0), key=named)
    theirs = sorted((one for one in merged if named(one) < 0), key=there)
    found, at = [], 0
    for one in ours:
        while at < len(theirs) and 0 <= there(theirs[at]) < there(one):
            found.append(theirs[at])
            at += 1
        found.append(one)
    return found + theirs[at:]


def _positions(items: list[Any], key: Key) -> Callable[[Any], int]:
    """Where an item of the same name stands, or -1."""
    places = {_merge_value(item, key): at for at, item in enumerate(items)}
    return lambda item: places.get(_merge_value(item, key), -1)


def _merge_value(item: Any, key: Key) -> Any:
    """What tells the items of a list apart."""
    if not key:
        return _identity(item)
    if not isinstance(item, dict) or key not in item:
        raise bad_request(f"{compact(item)} does not contain declared merge key: {key}")
    return _identity(item[key])


def _identity(value: Any) -> tuple[type, Any]:
    """Equal where JSON's values are: 1, 1.0 and true are three."""
    return type(value), compact(value) if isinstance(value, dict | list) else value


def _plain(value: Any) -> Any:
    """What is new is taken as it is, without nulls and the parts that were only directives."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _GONE
        kept = {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
        return {k: v for k, v in kept.items() if v is not _GONE}
    if isinstance(value, list):
        return [kept for v in value if (kept := _plain(v)) is not _GONE]
    return value
