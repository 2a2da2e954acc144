"""An artifact that is a tar file, plain or gzipped: read as a stream, in bounded memory.

A parser of its own, because the standard library's takes whatever size an extended header claims into memory. Known are
POSIX (ustar, pax) and GNU's long names; links, devices, sparse files, whiteouts, a name that comes twice and a checksum
that disagrees refuse all of it. What is decompressed is counted: a bomb ends at the limit.

Rules: POSIX.1-2017, pax Interchange Format; OCI image layers.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple

from warmlog.kernelfiles.entries import Entry, Limits, Readable, Refused, Tally, checked, shown

BLOCK: Final = 512
#: Of an extended header: names are at most 4096 bytes.
LARGEST_HEADER: Final = 64 * 1024
#: Extended headers that may follow each other without a file.
MOST_HEADERS: Final = 64
_GZIP: Final = b"\x1f\x8b"
_KINDS: Final = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a pipe", b"S": "sparse"}


class Member(NamedTuple):
    entry: Entry
    stream: "_Part"


class Archive:
    """`inside` is the directory of the archive whose content is wanted; its other entries are only checked. `tick` is
    called with every piece read, and may raise to end it."""

    def __init__(self, path: str, inside: str, tick: Callable[[], None] = lambda: None) -> None:
        self.path, self.inside, self.tick = path, checked(inside), tick
        self.limits = Limits()

    def entries(self, limits: Limits) -> list[Entry]:
        self.limits = limits
        found: dict[str, Entry] = {}
        for member in self._members():
            path = self._below(member.entry.path)
            if path:
                _parents(path, found)
                known = found.get(path)
                if known is not None and not (known.directory and member.entry.directory):
                    raise Refused(f"{shown(path)} comes twice")
                found[path] = member.entry._replace(path=path)
        return [found[path] for path in sorted(found, key=lambda path: path.split("/"))]

    def has(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return any(member.entry.path == path and not member.entry.directory for member in self._members())

    def copies(self, wanted: list[Entry]) -> Iterator[tuple[Entry, Readable]]:
        left = {entry.path: entry for entry in wanted if not entry.directory}
        for member in self._members():
            entry = left.pop(self._below(member.entry.path), None)
            if entry is not None:
                yield entry, member.stream
        if left:
            raise Refused(f"{shown(next(iter(left)))} is gone since it was looked at")

    def _below(self, path: str) -> str:
        return path[len(self.inside) + 1 :] if path.startswith(f"{self.inside}/") else ""

    def _members(self) -> Iterator[Member]:
        with _opened(self.path) as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            # Room for every header and the padding of every file, beside the bytes themselves.
            room = self.limits.bytes + (self.limits.entries + MOST_HEADERS) * (4 * BLOCK + LARGEST_HEADER // 16)
            try:
                stream = _Bounded(gzip.GzipFile(fileobj=file) if packed else file, room, self.tick)
                yield from _members(stream, self.limits)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise Refused(f"the archive is broken: {error}") from None


def _opened(path: str) -> BinaryIO:
    """A pipe would be waited for, before any deadline."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Refused(f"{path} is no file")
    return os.fdopen(file, "rb")


class _Bounded:
    """A stream that ends the reading at a number of bytes."""

    def __init__(self, file: gzip.GzipFile | BinaryIO, room: int, tick: Callable[[], None]) -> None:
        self.file, self.room, self.tick = file, room, tick

    def read(self, size: int) -> bytes:
        """Exactly so many. Raises Refused where there are fewer, or where it would be too many in all."""
        self.tick()
        self.room -= size
        if self.room < 0:
            raise Refused("the archive is larger than the limits allow")
        found = b""
        while len(found) < size:
            more = self.file.read(size - len(found))
            if not more:
                raise Refused("the archive ends in the middle of an entry")
            found += more
        return found

    def skip(self, size: int) -> None:
        while size > 0:
            size -= len(self.read(min(size, 1 << 20)))


class _Part:
    """The content of one file."""

    def __init__(self, stream: _Bounded, size: int) -> None:
        self.stream, self.left = stream, size

    def read(self, size: int, /) -> bytes:
        wanted = min(size, self.left)
        self.left -= wanted
        return self.stream.read(wanted)


def _members(stream: _Bounded, limits: Limits) -> Iterator[Member]:
    tally, name, headers = Tally(limits), "", 0
    size: int | None = None
    while True:
        block = stream.read(BLOCK)
        if not any(block):
            return
        _sum(block)
        kind = block[156:157]
        length = _number(block[124:136])
        if kind in (b"x", b"L", b"g", b"K"):
            headers += 1
            if headers > MOST_HEADERS or length > LARGEST_HEADER:
                raise Refused("the archive has an oversized header")
            content = stream.read(_padded(length))[:length]
            if kind == b"L":
                name = _text(content.rstrip(b"\0"))
            elif kind == b"x":
                said = _pax(content)
                name = said.get("path", name)
                size = _decimal(said["size"]) if "size" in said else size
                if any(key.startswith("GNU.sparse") for key in said):
                    raise Refused(f"{shown(name)} is sparse")
            continue
        member = _member(name or _name(block), kind, block, length if size is None else size)
        tally.add(member.path, member.size)
        part = _Part(stream, member.size)
        yield Member(member, part)
        stream.skip(part.left + _padded(member.size) - member.size)
        name, size, headers = "", None, 0


def _member(name: str, kind: bytes, block: bytes, length: int) -> Entry:
    path, mode = checked(name), _number(block[100:108])
    directory = kind == b"5" or (kind in (b"\0", b"0") and name.endswith("/"))
    if not directory and kind not in (b"\0", b"0", b"7"):
        raise Refused(f"{shown(path)} is {_KINDS.get(kind, f'of the unknown kind {kind!r}')}")
    if directory:
        return Entry(path, directory=True)
    if not path:
        raise Refused("a file has no name")
    if path.rpartition("/")[2].startswith(".wh."):
        raise Refused(f"{shown(path)} deletes a file of another layer")
    if mode & 0o6000:
        raise Refused(f"{shown(path)} would run as somebody else (setuid or setgid)")
    return Entry(path, directory=False, size=length, executable=bool(mode & 0o111))


def _parents(path: str, found: dict[str, Entry]) -> None:
    parts = path.split("/")[:-1]
    for number in range(1, len(parts) + 1):
        parent = "/".join(parts[:number])
        known = found.setdefault(parent, Entry(parent, directory=True))
        if not known.directory:
            raise Refused(f"{shown(parent)} is a file and a directory")


def _sum(block: bytes) -> None:
    blank = block[:148] + b" " * 8 + block[156:]
    signed = sum(byte - 256 if byte > 127 else byte for byte in blank)
    if _number(block[148:156]) not in (sum(blank), signed):
        raise Refused("the archive is broken: a header's checksum disagrees")


def _number(field: bytes) -> int:
    """Octal digits, or GNU's binary form. Raises Refused."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes((field[0] & 0x7F,)) + field[1:], "big")
        if value >= 1 << 62:
            raise Refused("the archive is broken: a size that cannot be")
        return value
    text = field.strip(b" \0")
    if text and not all(byte in b"01234567" for byte in text):
        raise Refused("the archive is broken: a number that is none")
    return int(text or b"0", 8)


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused("the archive is broken: a size that is none")
    return int(text)


def _name(block: bytes) -> str:
    name, prefix = (_text(part.split(b"\0", 1)[0]) for part in (block[:100], block[345:500]))
    return f"{prefix}/{name}" if prefix and block[257:262] == b"ustar" and block[263:265] == b"00" else name


def _text(given: bytes) -> str:
    return given.decode("utf-8", "surrogateescape")


def _pax(content: bytes) -> dict[str, str]:
    """`<length> <key>=<value>\\n`, repeated. Raises Refused."""
    found, at = {}, 0
    while at < len(content) and content[at]:
        digits, blank, _ = content[at : at + 20].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        record = content[at + len(digits) + 1 : at + length]
        key, equals, value = record[:-1].partition(b"=")
        if not equals or record[-1:] != b"\n":
            raise Refused("the archive is broken: an extended header that is none")
        found[_text(key)] = _text(value)
        at += length
    return found


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
