"""What a schema does to an object before anything is checked: unknown fields go, nulls go, defaults come, and the
metadata of the object and of resources embedded in it is read as Go reads ObjectMeta.

Order and rules are those of apiextensions' decoder: prune, coerce metadata, drop nulls, default. All of
it happens in place.
"""

import copy
from typing import Any, Final

from devkube.builtin import types
from devkube.causes import shown
from devkube.custom.places import Node, root

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def prune(value: Any, node: Node, *, resource: bool = True) -> list[str]:
    """Remove what the schema does not name; the paths of what went, sorted. `resource` False: a part of an object."""
    gone: list[str] = []
    for place in root(value, node, resource=resource).walk():
        if isinstance(place.value, dict):
            for name in [name for name in place.value if not place.knows(name)]:
                gone.append(place.field(name))
                del place.value[name]
    return sorted(gone)


def coerce(value: Any, node: Node) -> list[str]:
    """Read metadata as ObjectMeta: unknown fields go (their paths are returned) and what Go would write is left.
    ValueError with one line when it cannot be read, or when apiVersion or kind is no string."""
    unknown: list[str] = []
    for place in root(value, node).walk():
        if not place.resource or not isinstance(place.value, dict):
            continue
        for name in ("apiVersion", "kind"):
            held = place.value.get(name, "")
            if not isinstance(held, str):
                raise ValueError(f"{place.field(name)}: Invalid value: {shown(held)}: must be a string")
        if "metadata" not in place.value:
            continue
        meta, gone = place.value["metadata"], list[str]()
        try:
            place.value["metadata"] = (
                {} if meta is None else types.decode(meta, {"$ref": f"#/$defs/{OBJECT_META}"}, "", gone)
            )
        except types.Undecodable as error:
            told = f"{place.field('metadata')}: Invalid value: {shown(meta)}: {error}"
            raise ValueError(told) from None
        unknown += [f"{place.field('metadata')}.{one}" for one in gone]
    return sorted(unknown)


def drop_nulls(value: Any, node: Node) -> None:
    """Remove nulls from fields that are not nullable: those that have a default get it later."""
    for place in root(value, node).walk():
        for name, held, below in place.slots():
            if held is None and below is not None and not below.get("nullable") and isinstance(place.value, dict):
                del place.value[name]


def default(value: Any, node: Node) -> None:
    """Fill in defaults, outside in: a default object gets the defaults of its own fields."""
    drop_nulls(value, node)
    for place in root(value, node).walk():
        if isinstance(place.value, dict):
            for name, below in ((place.node or {}).get("properties") or {}).items():
                if name not in place.value and below.get("default") is not None:
                    place.value[name] = copy.deepcopy(below["default"])
