"""The engine's /metrics page, under the names that vLLM and SGLang use, as Prometheus text.

Only the families that a cache-aware router reads. vLLM renamed its usage gauge in 0.21; SGLang has a hit-rate gauge
rather than counters.
"""

from collections.abc import Sequence

from enginesim import engine


def render(ranks: Sequence[engine.Engine]) -> str:
    """One sample per rank and family."""
    form = ranks[0].form
    return "\n".join(_vllm(ranks) if form.kind == "vllm" else _sglang(ranks)) + "\n"


def _vllm(ranks: Sequence[engine.Engine]) -> list[str]:
    usage = "vllm:kv_cache_usage_perc" if ranks[0].form.version >= (0, 21) else "vllm:gpu_cache_usage_perc"
    lines: list[str] = []

    def family(name: str, kind: str, values: Sequence[tuple[str, float]]) -> None:
        lines.append(f"# TYPE {name} {kind}")
        lines.extend(f"{name}{{{labels}}} {value}" for labels, value in values)

    def each(value_of: Sequence[float]) -> list[tuple[str, float]]:
        return [(_labels(rank, "engine"), value) for rank, value in zip(ranks, value_of, strict=True)]

    family("vllm:num_requests_running", "gauge", each([0.0 for _ in ranks]))
    family("vllm:num_requests_waiting", "gauge", each([0.0 for _ in ranks]))
    family(usage, "gauge", each([len(rank.cache) / rank.cache.capacity for rank in ranks]))
    family("vllm:prefix_cache_queries_total", "counter", each([float(r.counters.prefix_queries) for r in ranks]))
    family("vllm:prefix_cache_hits_total", "counter", each([float(r.counters.prefix_hits) for r in ranks]))
    family("vllm:generation_tokens_total", "counter", each([float(r.counters.generated) for r in ranks]))
    states = ("awake", "weights_offloaded", "discard_all")
    family(
        "vllm:engine_sleep_state",
        "gauge",
        [
            (f'{_labels(rank, "engine")},sleep_state="{state}"', float(rank.sleep_level == level))
            for rank in ranks
            for level, state in enumerate(states)
        ],
    )
    return lines


def _sglang(ranks: Sequence[engine.Engine]) -> list[str]:
    lines: list[str] = []
    for name, values in (
        ("sglang:num_running_reqs", [0.0 for _ in ranks]),
        ("sglang:num_queue_reqs", [0.0 for _ in ranks]),
        ("sglang:token_usage", [len(rank.cache) / rank.cache.capacity for rank in ranks]),
        ("sglang:cache_hit_rate", [r.counters.prefix_hits / max(1, r.counters.prefix_queries) for r in ranks]),
    ):
        lines.append(f"# TYPE {name} gauge")
        lines.extend(f"{name}{{{_labels(r, 'dp_rank')}}} {v}" for r, v in zip(ranks, values, strict=True))
    return lines


def _labels(rank: engine.Engine, rank_label: str) -> str:
    model = rank.model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{rank_label}="{rank.rank}",model_name="{model}"'
