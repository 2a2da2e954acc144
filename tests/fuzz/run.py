"""`make fuzz N=1000000`: so many inputs for every parser that meets foreign bytes; a table of what they did.

Each parser runs in a process of its own: its peak of memory is then its own. An input fails when the parser raises
anything but its own error, takes over a second of CPU, or over 2 MiB and 300 bytes a byte at its peak (looked at for
every 499th input, because tracemalloc is slow), or when the process has grown by over 192 MiB at the end.

    python -m tests.fuzz.run --inputs 20000 --only journal --seed 7
    python -m tests.fuzz.run --inputs 1000000 --out build/fuzz     # a JSON line per parser, and table.md

A failure names parser, seed and number, and shows the input; `--number` repeats just that one.
"""

import argparse
import multiprocessing
import resource
import sys
import time
import traceback
import tracemalloc
from pathlib import Path

import msgspec
import structlog

from tests.fuzz import engine, front, kube, log, mutate
from tests.fuzz.target import Target

TARGETS: list[Target] = [*log.TARGETS, *engine.TARGETS, *front.TARGETS, *kube.TARGETS]
SLOW = ("a subscriber's journal", "manifests in YAML", *kube.SLOW)  # last
MOST_SECONDS = 1.0
LOOK_EVERY = 499
PER_BYTE = 300
MOST_GROWTH = 192  # MiB


class Result(msgspec.Struct):
    name: str
    inputs: int = 0
    understood: int = 0
    seconds: float = 0.0  # of CPU, mutation included
    slowest: float = 0.0  # seconds of CPU for one input
    peak: int = 0  # bytes at the peak of the hungriest input
    growth: float = 0.0  # MiB of the process from start to end
    failures: list[str] = []


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fuzz(target: Target, *, inputs: int, seed: int, number: int = 0, failures: int = 5) -> Result:
    """Stops after so many failures. With `number` only that input is tried."""
    mutator = mutate.Mutator(target.corpus, target.words, seed=f"{seed} {target.name}")
    found = Result(target.name)
    attempt = target.make()
    for raw in target.corpus:  # what is valid warms up, and must be understood somewhere
        attempt(raw)
    before, began = _resident(), time.process_time()
    for count in range(1, (number or inputs) + 1):
        raw = mutator.next()
        if number and count < number:
            continue
        if target.renew and count % target.renew == 0:
            attempt = target.make()
        look = count % LOOK_EVERY == 0
        if look:
            tracemalloc.start()
        started = time.thread_time()
        try:
            found.understood += attempt(raw)
        except Exception:
            found.failures.append(_told(target, seed, count, raw, traceback.format_exc(limit=-3)))
            attempt = target.make()
        took = time.thread_time() - started
        if look:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            found.peak = max(found.peak, peak)
            if peak > target.most + PER_BYTE * len(raw):
                found.failures.append(_told(target, seed, count, raw, f"{peak} bytes at its peak"))
        else:
            found.slowest = max(found.slowest, took)
            if took > MOST_SECONDS:
                found.failures.append(_told(target, seed, count, raw, f"took {took:.1f} s of CPU"))
        found.inputs = count
        if len(found.failures) >= failures:
            break
    found.seconds = time.process_time() - began
    found.growth = _resident() - before
    if found.growth > MOST_GROWTH:
        found.failures.append(f"{target.name}: the process grew by {found.growth:.0f} MiB")
    return found


def _told(target: Target, seed: int, number: int, raw: bytes, what: str) -> str:
    shown = repr(raw[:2000]) + ("…" if len(raw) > 2000 else "")
    return f"{target.name}, seed {seed}, input {number}: {what.strip()}\n    {shown}"


def table(results: list[Result]) -> str:
    rows = [
        "| parser | inputs | understood | CPU s | µs each | slowest ms | peak of one, KiB | process, MiB | failed |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in results:
        count = max(one.inputs, 1)
        rows.append(
            f"| {one.name} | {one.inputs:,} | {one.understood / count:.0%} "
            f"| {one.seconds:.0f} | {one.seconds / count * 1e6:.0f} "
            f"| {one.slowest * 1e3:.1f} | {one.peak / 1024:.0f} | +{one.growth:.0f} | {len(one.failures)} |"
        )
    return "\n".join(rows) + "\n"


def _read(paths: list[Path]) -> list[Result]:
    """What runs with several seeds found together, in our order."""
    found: dict[str, Result] = {}
    for line in (line for path in paths for line in path.read_bytes().splitlines()):
        one = msgspec.json.decode(line, type=Result)
        whole = found.setdefault(one.name, Result(one.name))
        whole.inputs += one.inputs
        whole.understood += one.understood
        whole.seconds += one.seconds
        whole.slowest = max(whole.slowest, one.slowest)
        whole.peak = max(whole.peak, one.peak)
        whole.growth = max(whole.growth, one.growth)
        whole.failures += one.failures
    return [found[one.name] for one in TARGETS if one.name in found]


def _in_process(job: tuple[str, int, int, int]) -> Result:
    name, inputs, seed, number = job
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # what asks for all memory fails alone
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    return fuzz(next(one for one in TARGETS if one.name == name), inputs=inputs, seed=seed, number=number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="parsers whose names hold this")
    parser.add_argument("--number", type=int, default=0, help="only this input")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="directory for results.jsonl and table.md")
    parser.add_argument("--table", type=Path, nargs="+", help="only print the table of these results.jsonl")
    given = parser.parse_args()
    if given.table:
        print(table(_read(given.table)))
        return 0
    ordered = sorted(TARGETS, key=lambda one: one.name in SLOW)
    jobs = [(one.name, given.inputs, given.seed, given.number) for one in ordered if given.only in one.name]
    results: list[Result] = []
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
        for result in pool.imap_unordered(_in_process, jobs, chunksize=1):
            results.append(result)
            print(table([result]).splitlines()[-1], flush=True)
            for failure in result.failures:
                print(failure, flush=True)
            if given.out:
                with (given.out / "results.jsonl").open("ab") as file:
                    file.write(msgspec.json.encode(result) + b"\n")
    results.sort(key=lambda one: [job[0] for job in jobs].index(one.name))
    if given.out:
        (given.out / "table.md").write_text(table(results))
    print(table(results))
    return int(any(one.failures for one in results))


if __name__ == "__main__":
    sys.exit(main())
