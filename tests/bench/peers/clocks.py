"""What processes have cost so far, from /proc: CPU seconds of all their threads, resident bytes."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu(pids: Iterable[int]) -> float:
    """Seconds, to the nanosecond, of the threads that live; ours and the peer's end none while they are measured."""
    return sum(_ran(task) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def _ran(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text().split()[0])
    except OSError:  # it ended since it was listed
        return 0


def pin(pids: Iterable[int], cpus: Iterable[int]) -> None:
    """Let processes, with the threads that they have now, run on these CPUs only."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cpus)


def resident(pids: Iterable[int]) -> int:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in pids)
