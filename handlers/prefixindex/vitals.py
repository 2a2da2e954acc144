"""What an engine's own metrics say of it, made safe and made comparable. Pure and total.

Not here: who scrapes them (subscribers/kvevents), what they are worth in a ranking (ranking.py).
"""

from eventstore import kvwire


def sane(stats: kvwire.Stats) -> kvwire.Stats:
    """Ratios that are no numbers, or infinite, count as 0."""
    hit_rate, pressure = (ratio if abs(ratio) < float("inf") else 0.0 for ratio in (stats.hit_rate, stats.pressure))
    return kvwire.Stats(stats.at, stats.memory_bytes, hit_rate, pressure, stats.t2_hit_tokens, stats.t2_query_tokens)


def rounded(stats: kvwire.Stats | None) -> dict[str, float]:
    """Rounded, so that an event is appended when something moved and not with every scrape."""
    if stats is None:
        return {}
    return {
        "memory_bytes": float(stats.memory_bytes >> 20 << 20),
        "hit_rate": round(stats.hit_rate, 2),
        "pressure": round(stats.pressure, 1),
        "t2_hit_tokens": float(stats.t2_hit_tokens),
        "t2_query_tokens": float(stats.t2_query_tokens),
    }
