"""What processes have cost so far, from /proc: CPU seconds of all their threads, resident bytes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu(pids: Iterable[int]) -> float:
    """Seconds, in steps of one tick (10 ms)."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident(pids: Iterable[int]) -> int:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in pids)
