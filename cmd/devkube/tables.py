"""Objects in the other forms clients ask for: a Table (what `kubectl get` prints) and only their metadata.

Lists come out piece by piece, so that ten thousand rows neither stand in memory twice nor hold the event loop. Where
metadata suffices it is cut out of the object's bytes, nothing is decoded and encoded again. Columns and cells are the
type's own (`Resource.columns`, `Rules.table`); the leading Name is put in here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from devkube.errors import StatusError
from devkube.kinds import Object, Resource
from devkube.negotiation import Form, Include
from devkube.requests import Listing

NAME: Final = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name of the object, unique within its namespace and type.",
    "priority": 0,
}


class _Head(msgspec.Struct):
    metadata: msgspec.Raw


_head = msgspec.json.Decoder(_Head).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def one(resource: Resource, raw: bytes, form: Form, *, include: Include, now: float) -> bytes:
    """A single object in the form asked for. StatusError 406 for the form of a list."""
    if form == "Table":
        version = _decode(raw)["metadata"].get("resourceVersion", "")
        return b"".join((_opening(resource, {"resourceVersion": version}), _row(resource, raw, include, now), b"]}"))
    if form == "PartialObjectMetadata":
        return partial(raw)
    raise _mismatch(form, f"is not a list ({resource.kind})")


def listing(found: Listing, form: Form, *, include: Include, now: float) -> Iterator[bytes]:
    """A list in the form asked for, in pieces. StatusError 406 for the form of one object."""
    if form == "Table":
        opening = _opening(found.resource, dict(found.metadata))
        rows = (_row(found.resource, raw, include, now) for raw in found.items)
        return _joined(opening, rows)
    if form == "PartialObjectMetadataList":
        kind = _kind("PartialObjectMetadataList")
        opening = b'{%s,"metadata":%s,"items":[' % (kind, _encode(dict(found.metadata)))
        return _joined(opening, (partial(raw) for raw in found.items))
    raise _mismatch(form, f"is a list ({found.resource.listing})")


def plain(found: Listing) -> Iterator[bytes]:
    """A list as it is, in pieces: `Listing.json` without the copy."""
    head = {
        "kind": found.resource.listing,
        "apiVersion": found.resource.group_version,
        "metadata": dict(found.metadata),
    }
    return _joined(_encode(head)[:-1] + b',"items":[', found.bare())


def _joined(opening: bytes, items: Iterable[bytes]) -> Iterator[bytes]:
    yield opening
    comma = b""
    for one in items:
        yield comma + one
        comma = b","
    yield b"]}"


def event(resource: Resource, form: Form, *, include: Include, now: float, headers: bool) -> Callable[[bytes], bytes]:
    """What renders the object of a watch's event. Of a Table only the first event has the columns' definitions.

    A bookmark is no object of its type: its row has no cells but the name, which is empty.
    """
    if form == "PartialObjectMetadataList":
        raise _mismatch(form, f"is not a list ({resource.kind})")
    if form == "PartialObjectMetadata":
        return partial

    def table(raw: bytes) -> bytes:
        meta = {"resourceVersion": _decode(raw)["metadata"].get("resourceVersion", "")}
        row = _row(resource, raw, include, now)
        return b"".join((_opening(resource, meta, headers=headers), row, b"]}"))

    return table


def partial(raw: bytes) -> bytes:
    return b'{%s,"metadata":%s}' % (_kind("PartialObjectMetadata"), bytes(_head(raw).metadata))


def _named(resource: Resource) -> bool:
    """Whether the type has a column for the name itself (Events show it last, and only when asked for more)."""
    return any(column.name == "Name" for column in resource.columns)


def columns(resource: Resource) -> list[Object]:
    return ([] if _named(resource) else [NAME]) + [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in resource.columns
    ]


def cells(resource: Resource, obj: Object, now: float) -> list[Any]:
    leading = [] if _named(resource) else [obj["metadata"].get("name") or ""]
    if not obj["metadata"].get("name"):
        return [*leading, *(None for _ in resource.columns)]
    return [*leading, *resource.rules.table(obj, now)]


def _opening(resource: Resource, metadata: Object, *, headers: bool = True) -> bytes:
    kind = _kind("Table")
    defined = _encode(columns(resource)) if headers else b"null"
    return b'{%s,"metadata":%s,"columnDefinitions":%s,"rows":[' % (kind, _encode(metadata), defined)


def _row(resource: Resource, raw: bytes, include: Include, now: float) -> bytes:
    if include == "Object":
        shown = raw
    elif include == "Metadata":
        shown = partial(raw)
    else:
        shown = b"null"
    return b'{"cells":%s,"object":%s}' % (_encode(cells(resource, _decode(raw), now)), shown)


def _kind(kind: str) -> bytes:
    return f'"kind":"{kind}","apiVersion":"meta.k8s.io/v1"'.encode()


def _mismatch(form: str, why: str) -> StatusError:
    return StatusError(406, "NotAcceptable", f"you requested {form}, but the requested object {why}")
