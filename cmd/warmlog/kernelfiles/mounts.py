"""What the kernel says of the mount that a path lies in.

Rules: proc(5), /proc/<pid>/mountinfo: the longest mount point that is a prefix wins, of two equal ones the later.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    point: str
    options: frozenset[str]
    type: str

    @property
    def noexec(self) -> bool:
        return "noexec" in self.options

    @property
    def readonly(self) -> bool:
        return "ro" in self.options


def of(path: str, lines: Iterable[str] | None = None) -> Mount | None:
    """None where it cannot be told."""
    if lines is None:
        try:
            lines = FILE.read_text(errors="replace").splitlines()
        except OSError:
            return None
    found: Mount | None = None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        parts, more = fields.split(" "), rest.split(" ")
        if len(parts) < 6:
            continue
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), parts[4])
        if not f"{path}/".startswith(f"{point.rstrip('/')}/"):
            continue
        if found is None or len(point) >= len(found.point):
            found = Mount(point, frozenset(parts[5].split(",")), more[0])
    return found
