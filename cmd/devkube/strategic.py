"""Strategic merge patch: merge keys and strategies of a built-in type's schema decide how lists and maps are merged.

Follows upstream's strategicpatch step by step, because its order of merged lists is part of what clients see: a list
is ordered by `$setElementOrder`, else by the patch, and what only the server has keeps its place among them.
Directives: `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.

Where upstream lets a malformed patch end in a 500 (an item without merge key, a list of mixed types, an unknown
directive) the answer here is a 400 with the same text. Custom resources have no merge keys: who routes the request
answers 415 for them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from devkube.errors import StatusError, bad_request
from devkube.kinds import Object
from devkube.schema import Schema
from devkube.values import check_depth, clone, compact, go_text, go_type

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
_BAD_RETAIN = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"
Key = str | None  # a list's merge key; None for scalars


def strategic_merge(doc: Object, patch: Any, schema: Schema) -> Object:
    """The object after a strategic merge patch. 400 for a malformed patch, 422 for a list of lists."""
    check_depth(patch, "the patch")
    if not isinstance(patch, dict | None):
        raise bad_request(f"json: cannot unmarshal {go_type(patch)} into Go value of type map[string]interface {{}}")
    return _map(clone(doc), clone(patch) or {}, schema)


# Everything below works on these two copies and changes them.


def _map(original: Object, patch: Object, schema: Schema | None) -> Object:
    if _PATCH in patch:
        directive = patch.pop(_PATCH)
        if directive == "replace":
            return patch
        if directive == "delete":
            return {}
        raise _unknown_directive(directive, patch)
    _retain_keys(original, patch)
    _ordered_lists(original, patch, schema)
    for key, value in patch.items():
        deleting = key.startswith(_DELETE_FROM)
        name = key.removeprefix(_DELETE_FROM)
        current = original.get(name)
        if value is None:
            original.pop(name, None)
        elif isinstance(value, dict) and isinstance(current, dict):
            field = _field(schema, name)
            original[name] = value if "replace" in field.patch_strategy else _map(current, value, field)
        elif isinstance(value, list) and isinstance(current, list):
            original[name] = _list(current, value, _field(schema, name), deleting)
        elif not deleting:
            _discard_nulls(value)
            original[name] = _without_directives(value)
            if original[name] is _GONE:
                del original[name]
    return original


def _field(schema: Schema | None, name: str) -> Schema:
    if schema and (found := schema.field(name)):
        return found
    raise bad_request(f'unable to find api field in struct for the json field "{name}"')


def _retain_keys(original: Object, patch: Object) -> None:
    if _RETAIN not in patch:
        return
    keys = patch.pop(_RETAIN)
    if not isinstance(keys, list):
        raise bad_request(_BAD_RETAIN)
    if any(v is not None and k not in keys and not k.startswith((_DELETE_FROM, _ORDER)) for k, v in patch.items()):
        raise bad_request(_BAD_RETAIN)
    for key in original.keys() - {key for key in keys if isinstance(key, str)}:
        del original[key]


def _ordered_lists(original: Object, patch: Object, schema: Schema | None) -> None:
    """Merge the lists that come with a `$setElementOrder`, and take both out of the patch."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order, name = patch.pop(directive), directive.removeprefix(_ORDER)
        live, wanted = original.get(name), patch.get(name)
        for one in (order, *(v for k, v in ((original, live), (patch, wanted)) if name in k)):
            if not isinstance(one, list):
                raise bad_request(f"expected a []interface {{}}, but received a {go_type(one)}")
        field = _field(schema, name)
        key = field.patch_merge_key
        _check_order(wanted or [], order, key)
        if live is None and wanted is None:
            continue
        if wanted is None:
            merged = list(live or [])
        elif live is None:
            merged = _without_directives(wanted)
        else:
            merged = _list(live, wanted, field, False)
        original[name] = _arranged(merged, order, live or [], key)
        patch.pop(name, None)


def _check_order(wanted: list[Any], order: list[Any], key: Key) -> None:
    """The patch's items must be in the order list, in the same relative order; deletions need not."""
    if not order or not wanted:
        return
    items = [item for item in wanted if not (key and isinstance(item, dict) and item.get(_PATCH) == "delete")]
    at = 0
    for one in order:
        while at < len(items) and isinstance(items[at], dict) and _PATCH in items[at]:
            at += 1
        if at < len(items) and _identity(_merge_value(items[at], key)) == _identity(_merge_value(one, key)):
            at += 1
    if at < len(items):
        told = f"The order in patch list:\n{go_text(wanted)}\n doesn't match $setElementOrder list:\n"
        raise bad_request(f"{told}{go_text(order)}\n")


def _list(live: list[Any], wanted: list[Any], field: Schema, deleting: bool) -> list[Any]:
    if "merge" not in field.patch_strategy and not deleting:
        return wanted
    if not live and not wanted:
        return live
    if not _of_maps(live, wanted):
        if deleting:
            found = _positions(wanted)
            return [item for item in live if found(item) < 0]
        merged = list({_identity(item): item for item in live + wanted}.values())
        return _arranged(merged, wanted, live, None)
    key = field.patch_merge_key
    if not key:
        raise bad_request("cannot merge lists without merge key for struct")
    kept, wanted = _special_items(live, wanted, key)
    merged = list(kept)
    places: dict[Identity, int] = {}
    for at, item in enumerate(kept):
        if key in item:
            places.setdefault(_identity(item[key]), at)
    for item in wanted:
        at = places.setdefault(_identity(_merge_value(item, key)), len(merged))
        if at == len(merged):
            merged.append(item)
        else:
            merged[at] = _map(merged[at], item, field.items)
    # Go's slices: what is appended takes the place of deleted items, and so a part in the order of `live`.
    live[:] = merged[: len(live)]
    return _arranged(merged, wanted, kept, key)


def _special_items(live: list[Any], wanted: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the items with a `$patch`; what stays of the live list, and what of the patch is to be merged in."""
    plain, gone, replace = [], set(), False
    for item in wanted:
        match item.get(_PATCH, _GONE):
            case directive if directive is _GONE:
                plain.append(item)
            case "delete":
                gone.add(_identity(_merge_value(item, key)))
            case "replace":
                replace = True
            case "merge":
                raise bad_request("merging lists cannot yet be specified in the patch")
            case directive:
                raise _unknown_directive(directive, item)
    if replace:
        return plain, []
    return [item for item in live if key not in item or _identity(item[key]) not in gone], plain


def _of_maps(*lists: list[Any]) -> bool:
    """Whether the items are objects; 400 where the lists hold more than one type."""
    kinds = {type(item) for one in lists for item in one}
    if list in kinds:
        raise StatusError(422, "Invalid", "lists of lists are not supported")
    if len(kinds) > 1 or type(None) in kinds:
        raise bad_request(f"list element types are not identical: {go_text(list(lists))}")
    return dict in kinds


def _arranged(merged: list[Any], order: list[Any], live: list[Any], key: Key) -> list[Any]:
    """What `order` names, in that order; in between what only the server has, where the live list tells its place."""
    named = _positions([_merge_value(item, key) for item in order])
    there = _positions([_merge_value(item, key) for item in live])
    items = [(named(value), there(value), item) for item in merged for value in [_merge_value(item, key)]]
    ours = sorted((one for one in items if one[0] >= 0), key=lambda one: one[0])
    theirs = sorted((one for one in items if one[0] < 0), key=lambda one: one[1])
    found, at = [], 0
    for one in ours:
        while at < len(theirs) and 0 <= theirs[at][1] < one[1]:
            found.append(theirs[at][2])
            at += 1
        found.append(one[2])
    return found + [one[2] for one in theirs[at:]]


def _positions(values: Iterable[Any]) -> Callable[[Any], int]:
    """Where a value stands first, or -1."""
    first: dict[Identity, int] = {}
    for at, value in enumerate(values):
        first.setdefault(_identity(value), at)
    return lambda value: first.get(_identity(value), -1)


Identity = tuple[type, Any]


def _identity(value: Any) -> Identity:
    """Equal where Go finds two values equal: 1, 1.0 and true are three."""
    return type(value), compact(value) if isinstance(value, dict | list) else value


def _merge_value(item: Any, key: Key) -> Any:
    if not key:
        return item
    if not isinstance(item, dict):
        raise bad_request(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    if key not in item:
        raise bad_request(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


_GONE: Any = object()


def _without_directives(value: Any) -> Any:
    """What is new is taken as it is, save for the parts that were only directives."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _GONE
        return {k: kept for k, v in value.items() if (kept := _without_directives(v)) is not _GONE}
    if isinstance(value, list):
        return [kept for v in value if (kept := _without_directives(v)) is not _GONE]
    return value


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _discard_nulls(item)


def _unknown_directive(directive: Any, found: Object) -> StatusError:
    return bad_request(f"unknown patch type: {go_text(directive)} in map: {go_text(found)}")
