"""A subscriber's memory across its own restarts: an append-only file on an emptyDir, one per replica.

Engines cannot be asked what they hold, so the table must outlive the process. The file is a header, one snapshot of
the table, and after it every batch that was applied since, as it came. Restoring is applying them again. When the
batches outgrow the snapshot, a new file is written aside and renamed over the old one.

    record    length u32, XXH3-64 of the body u64 (both little-endian), body: MessagePack, its first item the kind
    header    format version and identity: another engine, replica or configuration makes the file useless
    snapshot  tablestate.py
    batch     position, time, coverage, and the payload (none: the number is another replica's)
    drop      everything was forgotten, or a tier cleared, by the subscriber's decision

When it fails: the death of this process loses nothing that was appended (power loss may: nothing is fsynced). What
is not whole from some record on is cut off there; that is an older position, which the engine's replay socket
continues exactly or not at all. A file that cannot be used is kept once as *.bad and one line says why. A disk that is
full stops the journal, says so in `broken`, and the journal starts anew when it can; the subscriber goes on. A drop
that cannot be written down takes the file with it.

Not here: whether the engine is still in the same life (cursor.py).

Rules: design.md section 3; docs/design/0001-kv-wire.md.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
import xxhash

from eventstore import kvwire, subjects
from subscribers.kvevents import decode, facts, table, tablestate

VERSION: Final = 1  # raise it with every change of a record or of tablestate
COMPACT_AT: Final = 16 * 1024 * 1024  # bytes of batches, or the snapshot's own size when that is more
_FRAME: Final = 12
_MAX_RECORD: Final = 1 << 30


class Identity(msgspec.Struct, frozen=True):
    """What a table belongs to. `config` is a digest of everything that changes what a table would hold."""

    endpoint: str
    replica: str
    config: str


class Loaded(msgspec.Struct, frozen=True):
    """What a subscriber starts with. `reason` says why it starts empty; it is empty itself when it does not."""

    table: table.Table
    position: facts.Position | None
    coverage: kvwire.Coverage
    epoch: int  # engine lives seen before
    reason: str = ""
    cut: int = 0  # bytes of a torn tail


class _Header(msgspec.Struct, tag="header", array_like=True):
    version: int
    identity: Identity


class _Mark(msgspec.Struct, array_like=True):
    """What is true after a record."""

    position: facts.Position | None
    coverage: kvwire.Coverage
    epoch: int


class _Snapshot(msgspec.Struct, tag="snapshot", array_like=True):
    mark: _Mark
    state: bytes


class _Batch(msgspec.Struct, tag="batch", array_like=True):
    mark: _Mark
    now: float
    payload: bytes
    forget: bool


class _Drop(msgspec.Struct, tag="drop", array_like=True):
    mark: _Mark
    scope: Literal["gpu", "all", "forget"]


_Record = _Snapshot | _Batch | _Drop

_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_Header).decode
_decode_record = msgspec.msgpack.Decoder(_Record).decode


class Unusable(ValueError):
    """A journal that cannot be continued; the text is one line for people."""


def digest(*config: Any) -> str:
    """A digest of whatever decides what a table would hold: settings, model, scheme …"""
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(config, order="deterministic"))


def _frame(record: Any) -> bytes:
    body = _encode(record)
    return len(body).to_bytes(4, "little") + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body


def _bodies(path: pathlib.Path) -> Iterator[tuple[int, bytes]]:
    """(offset after it, body) of every whole record up to the first that is not."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = 0
        while len(head := file.read(_FRAME)) == _FRAME:
            length = int.from_bytes(head[:4], "little")
            if length > min(_MAX_RECORD, size - at - _FRAME):  # a read makes room for all that it is asked for
                return
            body = file.read(length)
            if len(body) < length or xxhash.xxh3_64_intdigest(body) != int.from_bytes(head[4:], "little"):
                return
            at += _FRAME + length
            yield at, body


def _start(
    bodies: Iterator[tuple[int, bytes]], identity: Identity, settings: table.Settings
) -> tuple[int, table.Table, _Mark]:
    """Header and snapshot. Raises Unusable."""
    _, body = next(bodies, (0, b""))
    if not body:
        raise Unusable("it is cut off or damaged at its start")
    try:
        version = msgspec.msgpack.decode(body)[1]
        if version != VERSION:
            raise Unusable(f"it has format version {version!r:.20}, this program reads {VERSION}")
        was = _decode_header(body).identity
    except (msgspec.MsgspecError, IndexError, TypeError, KeyError) as error:
        raise Unusable(f"its header is not a journal's: {error}") from error
    for field in Identity.__struct_fields__:
        if getattr(was, field) != getattr(identity, field):
            raise Unusable(f"it belongs to another {field}: {getattr(was, field)}, not {getattr(identity, field)}")
    at, body = next(bodies, (0, b""))
    try:
        snapshot = _decode_record(body)
        if not isinstance(snapshot, _Snapshot):
            raise Unusable("it does not begin with a snapshot")
        return at, tablestate.restore(snapshot.state, settings), snapshot.mark
    except (msgspec.MsgspecError, tablestate.StateError) as error:
        raise Unusable(f"its snapshot is cut off or damaged: {error}") from error


def _replay(path: pathlib.Path, identity: Identity, settings: table.Settings) -> tuple[int, table.Table, _Mark]:
    """(bytes that are whole, the table, what is true of it). Raises Unusable, OSError."""
    bodies = _bodies(path)
    at, restored, mark = _start(bodies, identity, settings)
    for end, body in bodies:
        try:
            record = _decode_record(body)
        except (msgspec.MsgspecError, RecursionError):
            break
        _repeat(restored, record)
        at, mark = end, record.mark
    restored.take_clear()  # its coverage was recorded with the batch
    restored.drop_pending()
    return at, restored, mark


def _repeat(restored: table.Table, record: _Record) -> None:
    if isinstance(record, _Batch):
        if record.payload:
            restored.apply_batch(decode.decode(record.payload).events, record.now)
        if record.forget:
            restored.forget()
    elif isinstance(record, _Drop):
        if record.scope == "forget":
            restored.forget()
        else:
            restored.clear(record.scope)


class Journal:
    """The open journal of one replica. `table` is the one that `load` gave, and the one that compaction writes down."""

    def __init__(self, path: pathlib.Path, identity: Identity, loaded: Loaded) -> None:
        self.path = path
        self.identity = identity
        self.table = loaded.table
        self.broken = ""  # one line while nothing can be written
        self._mark = _Mark(loaded.position, loaded.coverage, loaded.epoch)
        self._file: int | None = None
        self._log = 0  # bytes since the snapshot
        self._snapshot = 0
        self.compact()

    def applied(
        self,
        position: facts.Position,
        payload: bytes,
        *,
        now: float,
        coverage: kvwire.Coverage,
        epoch: int,
        forget: bool = False,
    ) -> None:
        """A batch was applied (`Table.apply_batch` with the same `now`), and then all was forgotten if `forget`.

        An empty payload moves the position only: the batch was another replica's. Never raises: see `broken`.
        """
        self._mark = _Mark(position, coverage, epoch)
        self._append(_frame(_Batch(self._mark, now, payload, forget)))
        if self._log > max(COMPACT_AT, self._snapshot):
            self.compact()

    def dropped(
        self, scope: Literal["gpu", "all", "forget"], *, coverage: kvwire.Coverage, epoch: int, restart: bool = False
    ) -> None:
        """The table was, or is about to be, cleared or made to forget. Never raises: see `broken`.

        `restart`: for a new life of the engine, whose batches are counted from 0.
        """
        self._mark = _Mark(None if restart else self._mark.position, coverage, epoch)
        self._append(_frame(_Drop(self._mark, scope)))  # no compaction: the table may not have been changed yet
        if self._file is None:
            # What is on the disk would bring back what is dropped here, and replay cannot tell (TR-15).
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _append(self, frame: bytes) -> None:
        self._log += len(frame)
        if self._file is not None:
            try:
                # One call: after a crash a record is whole, or the last one and torn.
                if os.write(self._file, frame) != len(frame):
                    raise OSError("the disk is full")
            except OSError as error:
                self._stop(error)

    def compact(self) -> None:
        """Write header and snapshot aside and put them in place of the file. Never raises: see `broken`."""
        aside = self.path.with_suffix(".new")
        whole = _frame(_Header(VERSION, self.identity)) + _frame(_Snapshot(self._mark, tablestate.dump(self.table)))
        self._close()
        self._log = 0
        self._snapshot = len(whole)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            if os.write(self._file, whole) != len(whole):
                raise OSError("the disk is full")
            aside.replace(self.path)
            self.broken = ""
        except OSError as error:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        self._close()
        self.broken = f"journal {self.path} cannot be written: {error.strerror or error}; tried again later"

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """No more records. The file stays for the next process."""
        self._close()


def path_of(directory: pathlib.Path, replica: str) -> pathlib.Path:
    return directory / f"{subjects.escape(replica)}.journal"


def load(directory: pathlib.Path, identity: Identity, settings: table.Settings) -> Loaded:
    """What the journal of this replica remembers, or an empty table and the reason. Never raises.

    A file that cannot be used is renamed to *.bad, over an older one.
    """
    path = path_of(directory, identity.replica)
    try:
        if not path.exists():
            return Loaded(table.Table(settings), None, "partial", 0, f"there is no journal at {path} yet")
        at, restored, mark = _replay(path, identity, settings)
        return Loaded(restored, mark.position, mark.coverage, mark.epoch, cut=path.stat().st_size - at)
    except Unusable as error:
        return Loaded(
            table.Table(settings), None, "partial", 0, f"journal {path} not used, {error}; {_put_aside(path)}"
        )
    except OSError as error:
        return Loaded(table.Table(settings), None, "partial", 0, f"journal {path} cannot be read: {error.strerror}")


def _put_aside(path: pathlib.Path) -> str:
    try:
        kept = path.replace(path.with_suffix(".bad"))
    except OSError as error:
        return f"it cannot be moved away: {error.strerror}"
    return f"kept as {kept}"


def open_journal(directory: pathlib.Path, identity: Identity, settings: table.Settings) -> tuple[Journal, Loaded]:
    """Load what is there and go on from it, in a file without a torn tail."""
    loaded = load(directory, identity, settings)
    return Journal(path_of(directory, identity.replica), identity, loaded), loaded
