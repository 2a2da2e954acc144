"""The world as bytes, and back: rows of JSON in one order, so that equal worlds are equal bytes.

    freeze   a copy that the fold does not change any more: mappings are copied, what they hold is immutable
    rows     one line per entry, tables in alphabetical order, entries by name
    cut      the lines as pieces of at most CHUNK bytes
    Loader   the lines, from pieces of any size, as a world again
    Checker  the lines read as Loader does and written again, one by one: the world need not be there twice

The digest is over the lines, however they are cut. The incarnation is not among them: it names a stream's life, and
the same events give the same world in each.

FOLD counts the changes of the fold that make another world of the same events. A keyframe of an older number is gone on
from only where the log's beginning is gone: its world is not quite the one that today's fold would come to. `form`
names the shape of the rows: a field more in a Struct is another form of the same world; it is read all the same, and
its digest is not compared.

Rules: design.md section 2, "Keyframes and retention" ("chunked, canonical, hashed, with fold version").
"""

import functools
import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from handlers import canonical
from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.state import Applied, Known, Listed, Replica, Skipped, Summary, World

FOLD: Final = 2
#: Of text: one piece is a slice of the loop, and JSON that escapes it once more must stay far below 256 KiB.
CHUNK: Final = 60 * 1024


class KeyframeError(ValueError):
    """Bytes that are no keyframe; one line."""


def freeze(world: World) -> World:
    """For a slice of the loop: costs a copy of the mappings, not of the objects."""
    return replace(
        world,
        objects={
            kind: {space: dict(names) for space, names in spaces.items()} for kind, spaces in world.objects.items()
        },
        listed=dict(world.listed),
        applied=dict(world.applied),
        told={key: dict(names) for key, names in world.told.items()},
        replicas=dict(world.replicas),
        summaries=dict(world.summaries),
        settings=dict(world.settings),
        skipped=world.skipped.copy(),
    )


# Out ------------------------------------------------------------------------------------------------------------------


def rows(world: World) -> Iterator[bytes]:
    """Lines, each with its end. Lazy: take some, let the loop run, take more; freeze the world first."""
    for key in _ordered(world.applied):
        yield _line("applied", *key, world.applied[key])
    for kind in sorted(world.listed):
        yield _line("listed", kind, world.listed[kind])
    for kind, spaces in sorted(world.objects.items()):
        for space in _ordered(spaces):
            for name in _ordered(spaces[space]):
                yield _line("object", kind, space, name, spaces[space][name])
    for tenant, name in _ordered(world.replicas):
        yield _line("replica", tenant, name, world.replicas[tenant, name])
    for role in sorted(world.settings):
        yield _line("settings", role, world.settings[role])
    for skipped in world.skipped:
        yield _line("skipped", skipped)
    for shard in sorted(world.summaries):
        yield _line("summary", shard, world.summaries[shard])
    for told in _ordered(world.told):
        for name in sorted(world.told[told]):
            yield _line("told", told, name, world.told[told][name])
    yield _line("world", {name: getattr(world, name) for name in _PLAIN})


_PLAIN: Final = ("sequence", "now_ns", "contact_ns", "epoch", "leader", "marked", "marked_ns")


def _ordered(names: Iterable[Any]) -> Iterator[Any]:
    """In order, with the work spread over all steps: sorting ten thousand at once takes longer than a slice."""
    heap = list(names)
    heapq.heapify(heap)
    while heap:
        yield heapq.heappop(heap)


def _line(*parts: Any) -> bytes:
    return canonical.encode(parts) + b"\n"


def digest(world: World) -> str:
    found = hashlib.sha256()
    for row in rows(world):
        found.update(row)
    return named(found)


@functools.cache
def form() -> str:
    """Which rows equal worlds are equal in."""
    parts = [Applied, Known, Listed, Replica, Skipped, Summary, *(one.struct for one in kinds.KINDS.values())]
    shapes = msgspec.json.schema_components(parts)
    return hashlib.sha256(canonical.encode([sorted(kinds.KINDS), _PLAIN, shapes])).hexdigest()[:16]


def named(found: "hashlib._Hash") -> str:
    return f"sha256:{found.hexdigest()}"


def cut(lines: Iterable[bytes]) -> Iterator[str]:
    """Pieces of at most CHUNK bytes of UTF-8, whole lines where they fit."""
    held = b""
    for line in lines:
        if held and len(held) + len(line) > CHUNK:
            yield held.decode()
            held = b""
        held += line
        while len(held) > CHUNK:
            at = CHUNK
            while held[at] & 0xC0 == 0x80:  # never inside a character
                at -= 1
            yield held[:at].decode()
            held = held[at:]
    if held:
        yield held.decode()


# In -------------------------------------------------------------------------------------------------------------------


class Loader:
    """`take` each piece in order, then `done`. Nothing is verified but the form: who calls compares the digest."""

    def __init__(self) -> None:
        self._world = World()
        self._rest = ""
        self._hash = hashlib.sha256()
        self._last = ""

    def take(self, piece: str) -> None:
        """Raises KeyframeError."""
        self._hash.update(piece.encode())
        *lines, self._rest = (self._rest + piece).split("\n")
        for line in lines:
            self._row(line)

    def done(self, *, incarnation: str) -> tuple[World, str]:
        """The world and the digest of its lines. Raises KeyframeError."""
        if self._rest or self._last != "world":
            raise KeyframeError("the keyframe ends before its last row")
        self._world.incarnation = incarnation
        return self._world, named(self._hash)

    def _row(self, line: str) -> None:
        try:
            table, *parts = msgspec.json.decode(line)
            self._last = table
            _TABLES[table](self._world, parts)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as error:
            raise KeyframeError(f"row {line[:80]!r} cannot be read: {type(error).__name__}: {error}") from None


class Checker(Loader):
    """Keeps no row. `take` also raises KeyframeError for one that does not give the same bytes again."""

    def _row(self, line: str) -> None:
        self._world = World()
        super()._row(line)
        if next(rows(self._world)) != line.encode() + b"\n":
            raise KeyframeError(f"row {line[:80]!r} reads as something else")


def load(pieces: Iterable[str], *, incarnation: str) -> tuple[World, str]:
    loader = Loader()
    for piece in pieces:
        loader.take(piece)
    return loader.done(incarnation=incarnation)


def _applied(world: World, parts: list[Any]) -> None:
    kind, namespace, name, value = parts
    world.applied[Key(kind, namespace, name)] = msgspec.convert(value, Applied)


def _object(world: World, parts: list[Any]) -> None:
    kind, namespace, name, raw = parts
    known = msgspec.convert(raw, Known)
    if known.value is not None:
        value, problem = kinds.decode(kind, known.value)
        known = msgspec.structs.replace(known, value=value, problem=problem or known.problem)
    world.objects.setdefault(kind, {}).setdefault(namespace, {})[name] = known


def _listed(world: World, parts: list[Any]) -> None:
    world.listed[parts[0]] = msgspec.convert(parts[1], Listed)


def _replica(world: World, parts: list[Any]) -> None:
    world.replicas[parts[0], parts[1]] = msgspec.convert(parts[2], Replica)


def _settings(world: World, parts: list[Any]) -> None:
    world.settings[parts[0]] = parts[1]


def _skipped(world: World, parts: list[Any]) -> None:
    world.skipped.append(msgspec.convert(parts[0], Skipped))


def _summary(world: World, parts: list[Any]) -> None:
    world.summaries[parts[0]] = msgspec.convert(parts[1], Summary)


def _told(world: World, parts: list[Any]) -> None:
    world.told.setdefault(parts[0], {})[parts[1]] = parts[2]


def _plain(world: World, parts: list[Any]) -> None:
    for name in _PLAIN:
        setattr(world, name, parts[0][name])


_TABLES: Final[dict[str, Callable[[World, list[Any]], None]]] = {
    "applied": _applied,
    "listed": _listed,
    "object": _object,
    "replica": _replica,
    "settings": _settings,
    "skipped": _skipped,
    "summary": _summary,
    "told": _told,
    "world": _plain,
}
