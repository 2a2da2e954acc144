"""Objects in the forms clients ask for: as they are, as a Table (what `kubectl get` prints) or only their metadata.

Lists come out piece by piece, so that ten thousand rows neither stand in memory twice nor hold the event loop. Where
metadata suffices it is cut out of the object's bytes, nothing is decoded and encoded again. Columns and cells are the
type's own (`Resource.columns`, `Rules.table`); the leading Name is put in here.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec

from devkube.clock import Clock
from devkube.kinds import Column, Object, Resource
from devkube.negotiation import Form
from devkube.requests import Answer, Event, Listing, Stream
from devkube.store import encode

NAME: Final = Column("Name", "string", "", "name", "Name of the object, unique within its namespace and type.")
_META: Final = "meta.k8s.io/v1"


class _Head(msgspec.Struct):
    metadata: msgspec.Raw


_head = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True)
class View:
    """How one client sees objects; `include` is what rows of a Table carry beside their cells."""

    form: Form
    include: str  # Metadata, Object, None
    clock: Clock

    def pieces(self, answer: Answer) -> Iterable[bytes]:
        if isinstance(answer.body, Listing):
            return self._many(answer.body)
        raw = answer.body if isinstance(answer.body, bytes) else encode(answer.body)
        return (self.one(answer.resource, raw) if answer.resource is not None else raw,)

    async def lines(self, stream: Stream, resource: Resource) -> AsyncGenerator[bytes, None]:
        """A watch. Of a Table only the first event defines the columns."""
        headers = True
        async with aclosing(stream):
            async for batch in stream:
                lines = []
                for event in batch:
                    shown = event
                    if self.form and event.type != "ERROR":
                        shown = Event(event.type, self.one(resource, event.raw, headers=headers))
                        headers = False
                    lines.append(shown.line())
                yield b"".join(lines)

    def one(self, resource: Resource, raw: bytes, *, headers: bool = True) -> bytes:
        if self.form == "Table":
            meta = {"resourceVersion": msgspec.json.decode(raw)["metadata"].get("resourceVersion", "")}
            return b"".join(self._table(Listing(resource, meta, [raw]), headers=headers))
        return partial(raw) if self.form else raw

    def _many(self, found: Listing) -> Iterator[bytes]:
        if self.form == "Table":
            return self._table(found)
        kind, version, items = found.resource.listing, found.resource.group_version, found.bare()
        if self.form:
            kind, version, items = "PartialObjectMetadataList", _META, map(partial, found.items)
        return _joined({"kind": kind, "apiVersion": version, "metadata": found.metadata}, "items", items)

    def _table(self, found: Listing, *, headers: bool = True) -> Iterator[bytes]:
        columns = found.resource.columns
        if not any(column.name == "Name" for column in columns):  # as Events have, at their end
            columns = (NAME, *columns)
        table: Object = {"kind": "Table", "apiVersion": _META, "metadata": found.metadata, "columnDefinitions": None}
        if headers:
            table["columnDefinitions"] = [{k: v for k, v in asdict(one).items() if k != "path"} for one in columns]
        return _joined(table, "rows", (self._row(found.resource, raw, len(columns)) for raw in found.items))

    def _row(self, resource: Resource, raw: bytes, width: int) -> bytes:
        obj: Object = msgspec.json.decode(raw)
        # A bookmark is no object of its type: its row has no cells but the name, which is empty.
        name = obj["metadata"].get("name") or ""
        empty = [None] * len(resource.columns)
        cells = resource.rules.table(obj, self.clock.now().timestamp()) if name else empty
        shown = {"Object": raw, "None": b"null"}.get(self.include) or partial(raw)
        return b'{"cells":%s,"object":%s}' % (encode([name, *cells][-width:]), shown)


def partial(raw: bytes) -> bytes:
    kind = b'"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"'
    return b'{%s,"metadata":%s}' % (kind, bytes(_head(raw).metadata))


def _joined(opening: Mapping[str, Any], name: str, items: Iterable[bytes]) -> Iterator[bytes]:
    """An object whose last field is the list of the items."""
    yield encode(opening)[:-1] + b',"%s":[' % name.encode()
    comma = b""
    for one in items:
        yield comma + one
        comma = b","
    yield b"]}"
