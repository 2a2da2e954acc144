"""What a kernel cache's artifact may hold, and what makes it hostile.

An artifact is content that somebody pushed to a registry. Allowed are files and directories; not links, devices, pipes
or sockets, nothing that would run as somebody else, no name that leads elsewhere, and no more than the limits say.
Whoever finds anything else refuses all of it.

Rules: spec/kernelcache.md section 3 ("Extraction of tar layers").
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

LONGEST_PATH: Final = 4096
LONGEST_NAME: Final = 255


class Refused(Exception):
    """One line: what, where."""


class Limits(NamedTuple):
    entries: int = 200_000
    bytes: int = 16 << 30
    depth: int = 32


class Entry(NamedTuple):
    """`path` is relative, with slashes, below the tree that was asked for."""

    path: str
    directory: bool
    size: int = 0
    executable: bool = False


class Readable(Protocol):
    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


class Source(Protocol):
    """Files of one artifact."""

    def entries(self, limits: Limits) -> list[Entry]:
        """All of them, directories before what they hold. Raises Refused, OSError."""
        ...

    def copies(self, wanted: list[Entry]) -> Iterator[tuple[Entry, Readable]]:
        """Every file in turn, open for reading until the next is asked for. Raises Refused, OSError."""
        ...


class Tally:
    """Counts against the limits while an artifact is read."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.count, self.bytes = limits, 0, 0

    def add(self, path: str, size: int) -> None:
        self.count += 1
        self.bytes += size
        if self.count > self.limits.entries:
            raise Refused(f"it has more than {self.limits.entries} entries")
        if size < 0 or self.bytes > self.limits.bytes:
            raise Refused(f"it has more than {self.limits.bytes} bytes")
        if path.count("/") >= self.limits.depth:
            raise Refused(f"{shown(path)} lies deeper than {self.limits.depth} directories")


def checked(path: str) -> str:
    """A relative path without `.` and empty parts. Raises Refused."""
    if path.startswith("/"):
        raise Refused(f"{shown(path)} is absolute")
    if len(path.encode("utf-8", "surrogateescape")) > LONGEST_PATH:
        raise Refused(f"{shown(path)} is longer than {LONGEST_PATH} bytes")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise Refused(f"{shown(path)} leads out of the artifact")
        if len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
            raise Refused(f"{shown(path)} has a name longer than {LONGEST_NAME} bytes")
        if any(ord(character) < 32 or ord(character) == 127 for character in part):
            raise Refused(f"{shown(path)} has a control character in it")
    return "/".join(parts)


def shown(path: str) -> str:
    """For a line of a log: short, and nothing that a terminal would obey."""
    return ascii(path if len(path) <= 120 else path[:117] + "…")
