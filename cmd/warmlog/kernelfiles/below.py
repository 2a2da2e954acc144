"""Directories below a descriptor, opened without following a link. Paths that share their beginnings cost no walk from
the top each.
"""

import contextlib
import os
from typing import Final

from warmlog.kernelfiles.entries import Refused, shown

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Below:
    """Owns its descriptors, that of the top too."""

    def __init__(self, descriptor: int) -> None:
        self._open = [("", descriptor)]

    def directory(self, parts: list[str], *, make: bool = False) -> int:
        """A descriptor that stays open until the next call. Raises Refused where a part is no directory."""
        same = 0
        while same < len(parts) and same + 1 < len(self._open) and self._open[same + 1][0] == parts[same]:
            same += 1
        self._keep(same + 1)
        for part in parts[same:]:
            above = self._open[-1][1]
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=above)
            try:
                self._open.append((part, os.open(part, DIRECTORY, dir_fd=above)))
            except OSError as error:
                raise Refused(f"{shown('/'.join(parts))} is no directory: {error.strerror}") from None
        return self._open[-1][1]

    def _keep(self, count: int) -> None:
        while len(self._open) > count:
            os.close(self._open.pop()[1])

    def close(self) -> None:
        self._keep(0)
