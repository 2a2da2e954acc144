"""`make soak ROUNDS=500 SEED=1`: as many rounds as asked, a line for each, and a table per kind of fault.

    python -m tests.faults.soak --rounds 500 --seed 1 --out build/soak     run: soak.jsonl, a line per round; soak.md
    python -m tests.faults.soak --rounds 500 --seed 1 --jobs 2 …           two labs at a time
    python -m tests.faults.soak --table soak.jsonl more.jsonl              the table of rounds that were run before
    python -m tests.faults.soak --seed 1 --first 40 --rounds 3             repeat rounds; begin where the lab began

Exit status 1 when a round failed. Progress goes to standard error, the table (Markdown) to standard output as well.
"""

import argparse
import asyncio
import itertools
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.faults import rounds

WRONG = ("never held", "mixed lives", "went back", "earlier life", "removed", "dead engine")
LOST = ("lost", "twice", "hole", "refused")
MISSING = ("missing", "not healed")


def table(reports: Sequence[rounds.Report]) -> str:
    """Rows per kind of fault; a round with several kinds counts in each of their rows."""
    lines = [
        "| fault | rounds | answers | wrong credits | lost or doubled | missing after heal | heal p50 | heal p99 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = sorted({kind for report in reports for kind in report.kinds})
    for kind in [*kinds, "all"]:
        having = [report for report in reports if kind == "all" or kind in report.kinds]
        told = [one.kind for report in having for one in report.violations]
        heals = sorted(report.heal for report in having if report.heal >= 0)
        counts = [sum(one in group for one in told) for group in (WRONG, LOST, MISSING)]
        answers = sum(report.answers for report in having)
        cells = [str(len(having)), f"{answers:,}", *map(str, counts), at(heals, 0.5), at(heals, 0.99)]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    lines.append("")
    lines.append(
        f"{len(reports)} rounds, {sum(bool(report.violations) for report in reports)} of them failed; "
        f"{sum(report.generated for report in reports):,} prompts served, "
        f"{sum(report.answers for report in reports):,} answers judged "
        f"({sum(report.strict for report in reports):,} with every path settled), "
        f"{sum(report.appended for report in reports):,} events acknowledged."
    )
    return "\n".join(lines)


def at(ordered: Sequence[float], share: float) -> str:
    return f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.2f} s" if ordered else "-"


def read(files: Iterable[str]) -> list[rounds.Report]:
    return [
        msgspec.json.decode(line, type=rounds.Report) for name in files for line in Path(name).read_bytes().splitlines()
    ]


async def run(seed: str, first: int, count: int, out: Path | None, only: Sequence[str] = ()) -> list[rounds.Report]:
    """Rounds in this process, one after another. SIGTERM stops all processes of the lab before it ends this one."""
    mine = asyncio.current_task()
    assert mine is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, mine.cancel)
    reports = []
    async for report in rounds.rounds(seed, first, count, only=only):
        reports.append(report)
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {report}\n")
        if out is not None:
            with out.open("ab") as file:
                file.write(msgspec.json.encode(report) + b"\n")
    return reports


def shares(first: int, count: int, jobs: int) -> list[tuple[int, int]]:
    """(first, count) of each job: whole labs, so that a round's lab is the same however many jobs there are."""
    per_lab = rounds.ROUNDS_PER_LAB
    labs = -(-(first + count) // per_lab) - first // per_lab
    step = -(-labs // jobs) * per_lab
    cuts = [first, *range((first // per_lab) * per_lab + step, first + count, step), first + count]
    return [(at, after - at) for at, after in itertools.pairwise(cuts)]


def _terminate(children: Sequence[asyncio.subprocess.Process]) -> None:
    for child in children:
        if child.returncode is None:
            child.terminate()


async def run_jobs(flags: argparse.Namespace, out: Path) -> list[rounds.Report]:
    """The same rounds in several processes, each with a lab of its own."""
    files = []
    children = []
    for number, (first, count) in enumerate(shares(flags.first, flags.rounds, flags.jobs)):
        part = out.with_name(f"{out.name}.{number}")
        part.unlink(missing_ok=True)
        files.append(part)
        words = [f"--rounds={count}", f"--first={first}", f"--seed={flags.seed}", f"--part={part}"]
        words += [f"--only={kind}" for kind in flags.only]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.soak", *words, stdout=asyncio.subprocess.DEVNULL
        )
        children.append(child)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _terminate, children)
    await asyncio.gather(*(child.wait() for child in children))
    out.write_bytes(b"".join(part.read_bytes() for part in files if part.exists()))
    for part in files:
        part.unlink(missing_ok=True)
    return read([str(out)])


def main() -> int:
    assert __doc__ is not None
    made = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__.splitlines()[0])
    made.add_argument("--rounds", type=int, default=20)
    made.add_argument("--seed", default="1")
    made.add_argument("--first", type=int, default=0)
    made.add_argument("--jobs", type=int, default=1)
    made.add_argument("--out", default="build/soak", help="path of the report, without .jsonl and .md")
    made.add_argument("--part", type=Path, default=None, help=argparse.SUPPRESS)
    made.add_argument("--only", action="append", default=[], metavar="KIND", help="this kind of fault, may be repeated")
    made.add_argument("--table", nargs="+", default=None, metavar="FILE")
    flags = made.parse_args()
    if flags.table:
        reports = read(flags.table)
    elif flags.part is not None:
        reports = asyncio.run(run(flags.seed, flags.first, flags.rounds, flags.part, flags.only))
    else:
        out = Path(f"{flags.out}.jsonl")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)
        reports = asyncio.run(run_jobs(flags, out))
        Path(f"{flags.out}.md").write_text(table(reports) + "\n")
    sys.stdout.write(table(reports) + "\n")
    short = not flags.table and len(reports) < flags.rounds
    return 1 if short or any(report.violations for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
