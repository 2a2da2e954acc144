"""What runs on this machine, read from /proc: a machine with only Python, make and gcc has no `ps`."""

from collections.abc import Iterator
from pathlib import Path


def running() -> Iterator[tuple[int, int, str]]:
    """Process, its parent and its command line. Those that ended and wait for their parent are left out."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if state != "Z":
            yield int(folder.name), int(parent), words.replace(b"\0", b" ").decode(errors="replace").strip()


def children(parent: int) -> list[int]:
    return [pid for pid, of, _ in running() if of == parent]


def lives(pid: int) -> bool:
    """False too for one that ended and that whoever inherited it has not noticed."""
    return any(one == pid for one, _, _ in running())


def mentioning(text: str) -> list[str]:
    """Processes with this on their command line."""
    return [f"{pid} {words}" for pid, _, words in running() if text in words]
