"""The directory that a cache is put into: everything is written below it, by descriptors, following no link.

What is written first lies in a directory of its own and is moved when all of it is there. What stands in the place
already stays as it is: it may be the engine's, from an earlier life.
"""

import os
import shutil
import stat
from types import TracebackType
from typing import Final

from warmlog.kernelfiles.below import DIRECTORY as _DIRECTORY
from warmlog.kernelfiles.below import Below

PARTIAL: Final = ".kernel-cache-partial"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Place:
    """`with Place(path) as place:` write below `partial`, then `publish`. What was not published is taken away."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = os.open(path, _DIRECTORY)
        self._clear()
        os.mkdir(PARTIAL, 0o700, dir_fd=self._root)
        self.partial = Below(os.open(PARTIAL, _DIRECTORY, dir_fd=self._root))
        self._final = Below(os.dup(self._root))

    def __enter__(self) -> "Place":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.partial.close()
        self._final.close()
        try:
            self._clear()
        finally:
            os.close(self._root)

    def _clear(self) -> None:
        """Of a run that was ended half way, or of this one."""
        try:
            said = os.stat(PARTIAL, dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(said.st_mode):
            shutil.rmtree(PARTIAL, dir_fd=self._root)
        else:
            os.unlink(PARTIAL, dir_fd=self._root)

    def free(self) -> int:
        """Bytes that an ordinary user may still write."""
        found = os.fstatvfs(self._root)
        return found.f_bavail * found.f_frsize

    def file(self, path: str, *, executable: bool) -> int:
        """A new file, open for writing."""
        *parents, name = path.split("/")
        mode = 0o777 if executable else 0o666
        return os.open(name, _NEW, mode, dir_fd=self.partial.directory(parents, make=True))

    def link(self, path: str, to: str) -> None:
        *parents, name = path.split("/")
        os.symlink(to, name, dir_fd=self.partial.directory(parents, make=True))

    def make(self, path: str) -> None:
        self.partial.directory(path.split("/"), make=True)

    def publish(self, path: str, *, directory: bool) -> bool:
        """Move one entry to where it belongs; False when something stands there already."""
        if directory:
            self._final.directory(path.split("/"), make=True)
            return True
        *parents, name = path.split("/")
        above = self._final.directory(parents, make=True)
        try:
            os.stat(name, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, name, src_dir_fd=self.partial.directory(parents, make=False), dst_dir_fd=above)
            return True
        return False
