"""A program that ends when its parent does, however that ends: `python leash.py PARENT PROGRAM [ARGUMENT ...]`.

A `warmlog dev` that is killed with -9 stops nothing, and what it had started would hold its directory and go on for
ever. Linux sends SIGTERM to what asked for it here; elsewhere such a child is left, and the next start names it.

Nothing of Warmlog is imported: this runs before each program, which then takes its place under the same process id.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; it survives exec


def words(program: Sequence[str]) -> list[str]:
    """The command line that starts `program` as a child of this process. It must be a path, or be found in PATH."""
    return [sys.executable, "-IS", __file__, str(os.getpid()), *program]


def main(parent: int, program: Sequence[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before we asked
        sys.exit(f"{program[0]} was not started: its parent has ended")
    try:
        os.execvp(program[0], list(program))
    except OSError as error:
        sys.exit(f"{program[0]} cannot be started: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
