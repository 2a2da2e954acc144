"""What was seen, as lines while it runs and as the tables of docs/benchmarks.md.

    python -m tests.bench.peers.report FILE …

A figure is the median over rounds. The ratio is ours to the better of the peer's thread counts, cell by cell.
"""

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.bench.peers import rounds

PASSES: Final = rounds.Rates().passes
OURS: Final = "warmlog"


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def best(took: list[float]) -> float:
    """Median over questions of each one's best pass: what disturbs a pass only ever adds."""
    count = len(took) // PASSES
    return statistics.median(min(took[at::count]) for at in range(count)) if count else float("nan")


def line(replicas: int, wire: str, seen: rounds.Seen) -> str:
    """One round of one contender, short."""
    cost = {name: spent / seen.blocks * 1e6 for name, spent in seen.cpu.items()}
    parts = [
        f"{replicas:>3} {wire:<8}{seen.name:<18}",
        "us/block " + " ".join(f"{name} {value:.2f}" for name, value in cost.items()),
        f"took {seen.took:.1f}+{seen.behind:.1f}",
        f"B/block {seen.bytes_per_block:.0f}",
        f"wrong {sum(seen.wrong.values())}/{sum(seen.asked.values())}",
    ]
    if seen.json:
        for name, took, spent in (("json", seen.json, seen.json_cpu), ("packed", seen.packed, seen.packed_cpu)):
            for blocks, values in took.items():
                shown = f"{percentile(values, 0.5):.0f}/{percentile(values, 0.99):.0f}"
                parts.append(f"{name} {blocks}: {shown} best {best(values):.0f} cpu {spent[blocks]:.0f}")
        loaded = f"{percentile(seen.loaded, 0.5):.0f}/{percentile(seen.loaded, 0.99):.0f}"
        parts.append(f"loaded {loaded} at {seen.loaded_rate:,.0f}/s")
        parts.append(f"visible ms {percentile(seen.visible, 0.5):.1f}/{percentile(seen.visible, 0.99):.1f}")
    return "  ".join(parts)


def kept(replicas: int, wire: str, seen: rounds.Seen) -> str:
    """One round of one contender as a line of JSON: what `main` reads."""
    return json.dumps({"replicas": replicas, "wire": wire, **msgspec.to_builtins(seen, str_keys=True)}) + "\n"


class Cell(NamedTuple):
    """One measure: how to read it off a round, and the most that ours may be in relation to the peer's."""

    name: str
    of: Callable[[rounds.Seen], float]
    peer: Callable[[rounds.Seen], float] | None = None  # where the peer's figure is another one
    most: float | None = None
    limit: float | None = None  # of ours alone


def per_block(one: rounds.Seen, *parts: str) -> float:
    """Microseconds of CPU in part 0."""
    return sum(one.cpu[part] for part in parts) / one.blocks * 1e6


def cells() -> Iterator[Cell]:
    for blocks, most in ((64, 1.2), (512, 2.0), (2048, 2.0)):
        yield Cell(f"JSON, {blocks} blocks, p50 us", lambda one, n=blocks: percentile(one.json[n], 0.5), most=most)
        yield Cell(f"JSON, {blocks} blocks, p50 of best passes us", lambda one, n=blocks: best(one.json[n]), most=most)
        yield Cell(f"JSON, {blocks} blocks, server CPU us", lambda one, n=blocks: one.json_cpu[n], most=most)
        yield Cell(f"JSON, {blocks} blocks, p99 us", lambda one, n=blocks: percentile(one.json[n], 0.99))
    for blocks in (64, 512, 2048):
        yield Cell(
            f"packed, {blocks} blocks, p50 us (peer: its JSON)",
            lambda one, n=blocks: percentile(one.packed.get(n, []), 0.5),
            lambda one, n=blocks: percentile(one.json[n], 0.5),
            1.0,
        )
        yield Cell(
            f"packed, {blocks} blocks, p50 of best passes us (peer: its JSON)",
            lambda one, n=blocks: best(one.packed.get(n, [])),
            lambda one, n=blocks: best(one.json[n]),
            1.0,
        )
        yield Cell(
            f"packed, {blocks} blocks, server CPU us (peer: its JSON)",
            lambda one, n=blocks: one.packed_cpu.get(n, float("nan")),
            lambda one, n=blocks: one.json_cpu[n],
            1.0,
        )
    yield Cell("server CPU, us per block", lambda one: per_block(one, "server"), most=1 / 2)
    yield Cell(
        "server and nats-server CPU, us per block", lambda one: per_block(one, "server", "transport"), most=1 / 1.3
    )
    yield Cell("subscribers' CPU, us per block", lambda one: per_block(one, "readers"))
    yield Cell("bytes per block held", lambda one: one.bytes_per_block)
    yield Cell("512 blocks under the stream, p50 us", lambda one: percentile(one.loaded, 0.5))
    yield Cell("512 blocks under the stream, p99 us", lambda one: percentile(one.loaded, 0.99), most=1.0)
    yield Cell("rate of that stream, blocks/s", lambda one: one.loaded_rate)
    yield Cell("event to visible at 20,000/s, p50 ms", lambda one: percentile(one.visible, 0.5), limit=15.0)
    yield Cell("event to visible at 20,000/s, p99 ms", lambda one: percentile(one.visible, 0.99), limit=150.0)


def tables(found: list[tuple[int, str, rounds.Seen]]) -> Iterator[str]:
    for replicas in sorted({replicas for replicas, _, _ in found}):
        timed = [(wire, one) for count, wire, one in found if count == replicas and one.json]
        if not timed:
            continue
        names = list(dict.fromkeys(one.name for _, one in timed))
        yield f"\n### {replicas} replicas, wire form {timed[0][0]}, {len(timed) // len(names)} rounds\n"
        yield "| measure | " + " | ".join(names) + " | ratio | bar |"
        yield "|---|" + "---|" * (len(names) + 2)
        for cell in cells():
            values = {name: _median(cell, name, [one for _, one in timed if one.name == name]) for name in names}
            theirs = [value for name, value in values.items() if name != OURS]
            ratio = values[OURS] / min(theirs) if theirs and min(theirs) > 0 else float("nan")
            bar = _bar("ratio", ratio, cell.most) or _bar("ours", values[OURS], cell.limit)
            shown = " | ".join(_shown(values[name]) for name in names)
            yield f"| {cell.name} | {shown} | {ratio:.2f} | {bar} |"
    yield "\n### Wrong answers\n"
    yield "| replicas | wire | contender | wrong | asked |\n|---|---|---|---|---|"
    for replicas, wire, one in found:
        yield f"| {replicas} | {wire} | {one.name} | {sum(one.wrong.values())} | {sum(one.asked.values())} |"


def _median(cell: Cell, name: str, each: list[rounds.Seen]) -> float:
    read = cell.of if name == OURS or cell.peer is None else cell.peer
    return statistics.median(read(one) for one in each)


def _bar(what: str, value: float, most: float | None) -> str:
    return "" if most is None or math.isnan(value) else f"{what} ≤ {most:.3g}: {'met' if value <= most else 'MISSED'}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(paths: list[str]) -> None:
    found = []
    for path in paths:
        for text in Path(path).read_text().splitlines():
            kept = json.loads(text)
            found.append((kept.pop("replicas"), kept.pop("wire"), msgspec.convert(kept, rounds.Seen, strict=False)))
    sys.stdout.writelines(f"{text}\n" for text in tables(found))


if __name__ == "__main__":
    main(sys.argv[1:])
