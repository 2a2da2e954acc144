"""Load read from engines' metrics pages. Excluded: fetching them (tests/integration/test_kvevents_scraper.py)."""

import pytest

from subscribers.kvevents import exposition, metrics

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="org/m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/m"} 0.25
vllm:gpu_cache_usage_perc{engine="0",model_name="org/m"} 0.9
vllm:prefix_cache_queries_total{engine="0",model_name="org/m"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="org/m"} 400.0
vllm:external_prefix_cache_queries_total{engine="0",model_name="org/m"} 600.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="org/m"} 60.0
vllm:engine_sleep_state{engine="0",model_name="org/m",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="org/m",sleep_state="weights_offloaded"} 0.0
vllm:engine_sleep_state{engine="0",model_name="org/m",sleep_state="discard_all"} 0.0
process_open_fds 12
"""
SGLANG = """\
sglang:num_running_reqs{model_name="org/m",dp_rank="0"} 4
sglang:num_running_reqs{model_name="org/m",dp_rank="1"} 2
sglang:num_queue_reqs{model_name="org/m",dp_rank="0"} 0
sglang:num_queue_reqs{model_name="org/m",dp_rank="1"} 10
sglang:token_usage{model_name="org/m",dp_rank="0"} 0.3
sglang:token_usage{model_name="org/m",dp_rank="1"} 0.8
sglang:cache_hit_rate{model_name="org/m",dp_rank="0"} 0.6
"""
ALL = metrics.Options()


def vllm(**changes: float) -> str:
    """A minimal page; a keyword is the family without its prefix."""
    values = {"num_requests_running": 0.0, "num_requests_waiting": 0.0} | changes
    return "".join(f"vllm:{name} {value}\n" for name, value in values.items())


def test_a_vllm_page() -> None:
    reading = metrics.read(VLLM, ALL)
    assert reading == metrics.Reading(usage=0.25, requests=4, hits=400, queries=1000, t2_hits=60, t2_queries=600)


def test_an_sglang_page_takes_the_highest_usage_and_the_sum_of_requests() -> None:
    assert metrics.read(SGLANG, ALL) == metrics.Reading(usage=0.8, requests=16, hit_rate=0.6)


def test_a_rank_reads_its_own_series() -> None:
    assert metrics.read(SGLANG, metrics.Options(rank=1)) == metrics.Reading(usage=0.8, requests=12, hit_rate=0.0)


TIERS = {
    "auto prefers the current name": ("auto", {"kv_cache_usage_perc": 0.2, "gpu_cache_usage_perc": 0.9}, 0.2),
    "auto takes the higher of the older ones": (
        "auto",
        {"gpu_cache_usage_perc": 0.3, "cpu_cache_usage_perc": 0.4},
        0.4,
    ),
    "gpu": ("gpu", {"kv_cache_usage_perc": 0.2, "gpu_cache_usage_perc": 0.3, "cpu_cache_usage_perc": 0.4}, 0.3),
    "cpu": ("cpu", {"kv_cache_usage_perc": 0.2, "gpu_cache_usage_perc": 0.3, "cpu_cache_usage_perc": 0.4}, 0.4),
    "kv": ("kv", {"gpu_cache_usage_perc": 0.3}, 0.0),
}


@pytest.mark.parametrize(("tier", "gauges", "usage"), TIERS.values(), ids=TIERS)
def test_usage_by_tier(tier: metrics.CacheTier, gauges: dict[str, float], usage: float) -> None:
    assert metrics.read(vllm(**gauges), metrics.Options(tier=tier)).usage == usage


def test_counters_without_the_suffix_are_read_too() -> None:
    assert metrics.read(vllm(prefix_cache_hits=5, prefix_cache_queries=9), ALL).queries == 9


RATES = {
    "first page": (None, (400, 1000), 0.0),
    "between two pages": ((400, 1000), (450, 1100), 0.5),
    "nothing was asked": ((400, 1000), (400, 1000), 0.0),
    "another life": ((400, 1000), (10, 20), 0.0),
    "more hits than questions": ((0, 0), (20, 10), 1.0),
}


@pytest.mark.parametrize(("before", "now", "rate"), RATES.values(), ids=RATES)
def test_the_hit_rate_of_counters(before: tuple[float, float] | None, now: tuple[float, float], rate: float) -> None:
    previous = before and metrics.Reading(usage=0, requests=0, hits=before[0], queries=before[1])
    reading = metrics.Reading(usage=0, requests=0, hits=now[0], queries=now[1])
    assert metrics.load(previous, reading, at=1.0, options=ALL).stats.hit_rate == rate


def test_a_load_is_clamped_and_scaled() -> None:
    options = metrics.Options(cache_bytes=1000, ceiling=8)
    reading = metrics.Reading(usage=1.5, requests=16, t2_hits=60, t2_queries=600)
    stats = metrics.load(None, reading, at=5.0, options=options).stats
    assert (stats.at, stats.memory_bytes, stats.pressure) == (5.0, 1000, 1.0)
    assert (stats.t2_hit_tokens, stats.t2_query_tokens) == (60, 600)


SLEEP = {
    "awake": ("awake", 1, False),
    "not awake": ("awake", 0, True),
    "level 1 without the awake series": ("weights_offloaded", 1, True),
    "level 2 without the awake series": ("discard_all", 1, True),
    "no sleeping state": ("discard_all", 0, False),
}


@pytest.mark.parametrize(("state", "value", "sleeping"), SLEEP.values(), ids=SLEEP)
def test_the_sleep_state(state: str, value: int, sleeping: bool) -> None:
    page = vllm() + f'vllm:engine_sleep_state{{sleep_state="{state}"}} {value}\n'
    assert metrics.load(None, metrics.read(page, ALL), at=0, options=ALL).sleeping is sleeping


def test_a_plain_sleep_gauge_is_understood() -> None:
    assert metrics.read(vllm(engine_sleep_state=1), ALL).sleeping


BAD = {
    "another program's page": ("process_open_fds 12\n", ALL, "engine's own /metrics"),
    "an empty page": ("", ALL, "engine's own /metrics"),
    "no load gauges": ("sglang:token_usage 0.5\n", ALL, "lacks sglang:num_running_reqs"),
    "half the load gauges": ("vllm:num_requests_running 1\n", ALL, "lacks vllm:num_requests_waiting"),
    "another model": (VLLM, metrics.Options(model="other"), "the page has org/m"),
}


@pytest.mark.parametrize(("page", "options", "says"), BAD.values(), ids=BAD)
def test_a_page_that_says_nothing_is_refused(page: str, options: metrics.Options, says: str) -> None:
    with pytest.raises(metrics.MetricsError, match=says):
        metrics.read(page, options)


LINES = {
    "labels with everything in them": (
        r'vllm:a{x="a\"b,}=\\c\n", y=""} 1.5 1700000000',
        [exposition.Sample("vllm:a", {"x": 'a"b,}=\\c\n', "y": ""}, 1.5)],
    ),
    "exponent": ("vllm:a 1e3", [exposition.Sample("vllm:a", {}, 1000.0)]),
    "not a number": ("vllm:a NaN", []),
    "infinite": ("vllm:a +Inf", []),
    "nonsense": ("vllm:a{", []),
    "no value": ("vllm:a", []),
    "words": ("vllm:a b", []),
    "another program": ("other:a 1", []),
}


@pytest.mark.parametrize(("line", "samples"), LINES.values(), ids=LINES)
def test_a_line_of_the_text_format(line: str, samples: list[exposition.Sample]) -> None:
    assert list(exposition.parse(line, ("vllm:",))) == samples
