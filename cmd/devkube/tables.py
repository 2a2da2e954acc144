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
from devkube.requests import Event, Listing, Stream
from devkube.store import encode

NAME: Final = Column("Name", "string", "", "name", "Name of the object, unique within its namespace and type.")


class _Head(msgspec.Struct):
    metadata: msgspec.Raw


_head = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True)
class View:
    """How one client sees objects of a resource; `include` is what rows of a Table carry beside their cells."""

    resource: Resource
    form: Form
    include: str  # Metadata, Object, None
    clock: Clock

    def one(self, raw: bytes, *, headers: bool = True) -> bytes:
        if self.form == "Table":
            meta = {"resourceVersion": msgspec.json.decode(raw)["metadata"].get("resourceVersion", "")}
            return b"".join(self._table(meta, [raw], headers=headers))
        return partial(raw) if self.form else raw

    def many(self, found: Listing) -> Iterator[bytes]:
        """A list, in pieces."""
        if self.form == "Table":
            return self._table(found.metadata, found.items)
        items: Iterable[bytes] = map(partial, found.items) if self.form else found.bare()
        kind, version = self.resource.listing, self.resource.group_version
        if self.form:
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        return _joined({"kind": kind, "apiVersion": version, "metadata": found.metadata}, "items", items)

    async def lines(self, stream: Stream) -> AsyncGenerator[bytes, None]:
        """A watch. Of a Table only the first event defines the columns."""
        headers = True
        async with aclosing(stream):
            async for batch in stream:
                lines = []
                for event in batch:
                    shown = event
                    if self.form and event.type != "ERROR":
                        shown = Event(event.type, self.one(event.raw, headers=headers))
                        headers = False
                    lines.append(shown.line())
                yield b"".join(lines)

    def _table(self, meta: Mapping[str, Any], items: Iterable[bytes], *, headers: bool = True) -> Iterator[bytes]:
        table: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": None}
        if headers:
            defined = map(asdict, (*self._leading(), *self.resource.columns))
            table["columnDefinitions"] = [{k: v for k, v in one.items() if k != "path"} for one in defined]
        return _joined(table, "rows", map(self._row, items))

    def _leading(self) -> tuple[Column, ...]:
        """Events have a column of their own for the name, their last one."""
        return () if any(column.name == "Name" for column in self.resource.columns) else (NAME,)

    def _row(self, raw: bytes) -> bytes:
        obj: Object = msgspec.json.decode(raw)
        name = obj["metadata"].get("name") or ""
        # A bookmark is no object of its type: its row has no cells but the name, which is empty.
        cells = (
            self.resource.rules.table(obj, self.clock.now().timestamp())
            if name
            else [None] * len(self.resource.columns)
        )
        shown = {"Object": raw, "None": b"null"}.get(self.include) or partial(raw)
        return b'{"cells":%s,"object":%s}' % (encode([name] * len(self._leading()) + cells), shown)


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
