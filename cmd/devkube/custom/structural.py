"""What a schema does to an object before anything is checked: unknown fields go, nulls go, defaults come, and the
metadata of the object and of resources embedded in it is read as Go reads ObjectMeta.

Order and rules are those of apiextensions' decoder: prune, coerce metadata, drop nulls without default, default.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube.builtin import types
from devkube.causes import shown

Node = Mapping[str, Any]
META_FIELDS: Final = ("apiVersion", "kind", "metadata")
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def child(node: Node | None, name: str) -> Node | None:
    """The schema of a field: its property's, else that of the map's values; None where the schema says nothing."""
    if node is None:
        return None
    found = (node.get("properties") or {}).get(name)
    if found is None:
        found = node.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def items(node: Node | None) -> Node | None:
    found = node.get("items") if node is not None else None
    return found if isinstance(found, Mapping) else None


def as_resource(node: Node) -> Node:
    """The root of an object: apiVersion, kind and metadata are always there, as in an embedded resource."""
    return {**node, "x-kubernetes-embedded-resource": True}


def prune(value: Any, node: Node) -> list[str]:
    """Remove from the object what its schema does not name, in place; the paths of what went, sorted."""
    gone: list[str] = []
    _prune(value, as_resource(node), "", gone)
    return sorted(gone)


def prune_part(value: Any, node: Node) -> None:
    """As `prune`, for a value inside an object: it is a resource only if its schema says so."""
    _prune(value, node, "", [])


def _prune(value: Any, node: Node | None, path: str, gone: list[str], kept: bool = False) -> None:
    """`kept`: the list that holds this value preserves unknown fields, and so do its items."""
    keeps = kept or (node is not None and node.get("x-kubernetes-preserve-unknown-fields") is True)
    if node is None and keeps:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                _prune(item, items(node), f"{path}[{index}]", gone, keeps)
    elif isinstance(value, dict):
        resource = node is not None and node.get("x-kubernetes-embedded-resource") is True
        fields: Node = (node.get("properties") if node is not None else None) or {}
        values = node.get("additionalProperties") if node is not None else None
        for name in list(value):
            if resource and name in META_FIELDS:
                continue
            here = f"{path}.{name}" if path else name
            if name in fields:
                _prune(value[name], fields[name], here, gone)
            elif values is not None:  # `true` allows any value, yet says nothing of what is inside: that is pruned
                _prune(value[name], values if isinstance(values, Mapping) else None, here, gone)
            elif not keeps:
                gone.append(here)
                del value[name]


def coerce(value: Any, node: Node) -> list[str]:
    """Read metadata as ObjectMeta, in place: unknown fields go (their paths are returned) and what Go would write is
    left. ValueError with one line when it cannot be read, or when apiVersion or kind is no string."""
    unknown: list[str] = []
    for path, holder in _resources(value, as_resource(node), ""):
        prefix = f"{path}." if path else ""
        for name in ("apiVersion", "kind"):
            if name in holder and not isinstance(holder[name], str):
                raise ValueError(f"{prefix}{name}: Invalid value: {shown(holder[name])}: must be a string")
        if "metadata" not in holder:
            continue
        meta, decoder = holder["metadata"], types.named(OBJECT_META)
        if meta is None:
            meta = holder["metadata"] = {}
        if decoder.fits(meta):
            continue
        gone: list[str] = []
        try:
            holder["metadata"] = decoder.decode(meta, "", gone)
        except types.Undecodable as error:
            raise ValueError(f"{prefix}metadata: Invalid value: {shown(meta)}: {error}") from None
        unknown += [f"{prefix}metadata.{one}" for one in gone]
    return sorted(unknown)


def _resources(value: Any, node: Node | None, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object that is a resource, the outermost first. Schemas without embedded ones end the walk at once."""
    if node is None:
        return
    if isinstance(value, dict):
        if node.get("x-kubernetes-embedded-resource"):
            yield path, value
        for name, held in value.items():
            below = child(node, name)
            if below is not None and isinstance(held, dict | list) and embeds(below):
                yield from _resources(held, below, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _resources(item, items(node), f"{path}[{index}]")


def embedded(value: Any, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and value of each resource inside the object, itself excepted."""
    return (found for found in _resources(value, node, "") if found[0])


def embeds(node: Node) -> bool:
    if node.get("x-kubernetes-embedded-resource"):
        return True
    below = [node.get("items"), node.get("additionalProperties"), *(node.get("properties") or {}).values()]
    return any(embeds(one) for one in below if isinstance(one, Mapping))


def _is_null(value: Any, node: Node | None) -> bool:
    return value is None and node is not None and not node.get("nullable")


def drop_nulls(value: Any, node: Node | None) -> None:
    """Remove nulls from fields that are not nullable and have no default (those that have one get it later)."""
    if isinstance(value, dict):
        for name in list(value):
            below = child(node, name)
            if _is_null(value[name], below) and below is not None and below.get("default") is None:
                del value[name]
            elif isinstance(value[name], dict | list):
                drop_nulls(value[name], below)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, items(node))


def default(value: Any, node: Node | None) -> None:
    """Fill in defaults, in place, outside in: a default object gets the defaults of its own fields."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, below in (node.get("properties") or {}).items():
            wanted = below.get("default")
            if wanted is not None and (name not in value or _is_null(value[name], below)):
                value[name] = copy.deepcopy(wanted)
        for name, held in value.items():
            below = child(node, name)
            if held is None and _is_null(held, below) and below is not None:
                held = value[name] = copy.deepcopy(below.get("default"))
            if isinstance(held, dict | list):
                default(held, below)
    elif isinstance(value, list):
        below = items(node)
        for index, item in enumerate(value):
            if item is None and _is_null(item, below) and below is not None:
                item = value[index] = copy.deepcopy(below.get("default"))
            default(item, below)
