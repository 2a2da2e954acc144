"""An artifact that is mounted: a directory, read without following any link, in it or on the way.

Only descriptors are followed, never names: what changes between two looks is refused or seen as it is, not confused.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

from warmlog.kernelfiles.below import DIRECTORY as _DIRECTORY
from warmlog.kernelfiles.below import Below
from warmlog.kernelfiles.entries import Entry, Limits, Readable, Refused, Tally, checked, shown

_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Tree:
    """`root` is the directory whose content is wanted."""

    def __init__(self, root: str) -> None:
        self.root = root

    def entries(self, limits: Limits) -> list[Entry]:
        found: list[Entry] = []
        tally = Tally(limits)
        root = os.open(self.root, _DIRECTORY)
        try:
            self._read(root, "", found, tally)
        finally:
            os.close(root)
        return found

    def _read(self, descriptor: int, below: str, found: list[Entry], tally: Tally) -> None:
        with os.scandir(descriptor) as entries:
            names = []
            for one in entries:
                names.append(one.name)
                if len(names) > tally.limits.entries:
                    raise Refused(f"it has more than {tally.limits.entries} entries")
        for name in sorted(names):
            path = checked(f"{below}/{name}" if below else name)
            said = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(said.st_mode):
                tally.add(path, 0)
                found.append(Entry(path, directory=True))
                inner = os.open(name, _DIRECTORY, dir_fd=descriptor)
                try:
                    self._read(inner, path, found, tally)
                finally:
                    os.close(inner)
                continue
            plain(path, said.st_mode)
            tally.add(path, said.st_size)
            found.append(Entry(path, directory=False, size=said.st_size, executable=bool(said.st_mode & 0o111)))

    def copies(self, wanted: list[Entry]) -> Iterator[tuple[Entry, Readable]]:
        with self._below() as below:
            for entry in wanted:
                if not entry.directory:
                    with _opened(below, entry.path) as file:
                        yield entry, file

    def open(self, path: str) -> BinaryIO:
        """One plain file. Raises Refused, OSError."""
        with self._below() as below:
            return _opened(below, path)

    @contextlib.contextmanager
    def _below(self) -> Iterator[Below]:
        made = Below(os.open(self.root, _DIRECTORY))
        try:
            yield made
        finally:
            made.close()


def _opened(below: Below, path: str) -> BinaryIO:
    *parents, name = path.split("/")
    file = os.open(name, _FILE, dir_fd=below.directory(parents))
    try:
        plain(path, os.fstat(file).st_mode)
        return os.fdopen(file, "rb", buffering=0)
    except BaseException:
        os.close(file)
        raise


def plain(path: str, mode: int) -> None:
    """Raises Refused for what is no plain file."""
    if not stat.S_ISREG(mode):
        raise Refused(f"{shown(path)} is {_KINDS.get(stat.S_IFMT(mode), 'of an unknown kind')}")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise Refused(f"{shown(path)} would run as somebody else (setuid or setgid)")


_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
