"""What was seen, as lines and as the table of docs/benchmarks.md."""

import statistics

from tests.bench.peers import rounds


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


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
        parts.append(
            "json " + " ".join(f"{n}: {percentile(v, 0.5):.0f}/{percentile(v, 0.99):.0f}" for n, v in seen.json.items())
        )
        if seen.packed:
            parts.append("packed " + " ".join(f"{n}: {statistics.median(v):.0f}" for n, v in seen.packed.items()))
        parts.append(
            f"loaded {percentile(seen.loaded, 0.5):.0f}/{percentile(seen.loaded, 0.99):.0f} late {seen.late:.1f}"
        )
        parts.append(f"visible ms {percentile(seen.visible, 0.5):.1f}/{percentile(seen.visible, 0.99):.1f}")
    return "  ".join(parts)
