"""`make bench`: every measured row in plain lines; exit 1 when a bar is missed. `python -m tests.bench.run [module …]`.

A module of this folder takes part when PARTS names it and it has `rows()`, plain or async. A part that is not there is
an error, not a silent pass.
"""

import argparse
import importlib
import inspect
import sys
from typing import Final

import uvloop

from tests.bench.row import Row

PARTS: Final = ("index", "append", "replay", "keyframes", "admission", "controller")
BY_NAME: Final = ("watching", "devkube", "http")  # these are measured when they are asked for


def measured(part: str) -> list[Row]:
    found = importlib.import_module(f"tests.bench.{part}").rows()
    rows: list[Row] = uvloop.run(found) if inspect.iscoroutine(found) else found
    return rows


def main(parts: tuple[str, ...]) -> int:
    missed = 0
    for part in parts:
        for row in measured(part):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            missed += not row.ok
    sys.stdout.write(f"{missed} of the bars missed\n" if missed else "every bar held\n")
    return 1 if missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.run", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS + BY_NAME)}")
    given = parser.parse_args().parts
    if wrong := [one for one in given if one not in PARTS + BY_NAME]:
        parser.error(f"{wrong[0]} is none of {', '.join(PARTS + BY_NAME)}")
    sys.exit(main(tuple(given) or PARTS))
