"""What was seen, as lines and as the table of docs/benchmarks.md."""

import statistics
from typing import Final

from tests.bench.peers import rounds

PASSES: Final = rounds.Rates().passes


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def best(took: list[float], passes: int) -> float:
    """Median over questions of each one's best pass: what disturbs a pass only ever adds."""
    count = len(took) // passes
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
                parts.append(f"{name} {blocks}: {shown} best {best(values, PASSES):.0f} cpu {spent[blocks]:.0f}")
        loaded = f"{percentile(seen.loaded, 0.5):.0f}/{percentile(seen.loaded, 0.99):.0f}"
        parts.append(f"loaded {loaded} at {seen.loaded_rate:,.0f}/s")
        parts.append(f"visible ms {percentile(seen.visible, 0.5):.1f}/{percentile(seen.visible, 0.99):.1f}")
    return "  ".join(parts)
