"""Metric families and their text; a strict reading of what /metrics would say by the reference parser."""

import math
from collections.abc import Callable

import pytest
from prometheus_client import parser

from subscribers import metrics
from subscribers.http import meters

BAD_NAMES = {
    "no prefix": ("counter", "lookup_requests_total", (), "must be warmlog_"),
    "no subsystem": ("gauge", "warmlog_size", (), "must be warmlog_"),
    "counter without total": ("counter", "warmlog_lookup_requests", (), "ends in _total"),
    "gauge with total": ("gauge", "warmlog_index_blocks_total", (), "only counters"),
    "milliseconds": ("histogram", "warmlog_lookup_duration_ms", (), "base unit"),
    "microseconds in a counter": ("counter", "warmlog_lookup_microseconds_total", (), "base unit"),
    "histogram without unit": ("histogram", "warmlog_lookup_duration", (), "names its unit"),
    "histogram suffix": ("gauge", "warmlog_lookup_sum", (), "suffix"),
    "label in the name": ("gauge", "warmlog_tenant_blocks", ("tenant",), "must not be in the name"),
    "reserved label": ("gauge", "warmlog_index_blocks", ("le",), "no label name"),
    "capitals": ("gauge", "warmlog_Index_blocks", (), "must be warmlog_"),
}


@pytest.mark.parametrize(("kind", "name", "labels", "says"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_name_that_breaks_the_rules_is_refused_at_start(
    kind: metrics.Kind, name: str, labels: tuple[str, ...], says: str
) -> None:
    registry = metrics.Registry()
    make: dict[metrics.Kind, Callable[[], object]] = {
        "counter": lambda: registry.counter(name, "Help.", labels),
        "gauge": lambda: registry.gauge(name, "Help.", labels),
        "histogram": lambda: registry.histogram(name, "Help.", labels, buckets=[1]),
    }
    with pytest.raises(metrics.MetricError, match=says):
        make[kind]()


@pytest.mark.parametrize("text", ["", "  ", "two\nlines"])
def test_every_family_has_one_line_of_help(text: str) -> None:
    with pytest.raises(metrics.MetricError, match="one line of help"):
        metrics.Registry().counter("warmlog_a_b_total", text)


def test_two_families_of_one_name_are_refused() -> None:
    registry = metrics.Registry()
    registry.counter("warmlog_a_b_total", "Help.")
    with pytest.raises(metrics.MetricError, match="made twice"):
        registry.counter("warmlog_a_b_total", "Help.")


def test_the_text_is_read_by_the_reference_parser_with_the_same_numbers() -> None:
    registry = metrics.Registry()
    requests = registry.counter("warmlog_test_requests_total", 'Back\\slash and "quotes".', ("who",))
    requests.labels('a"b\\c\nd').add(3)
    registry.gauge("warmlog_test_depth_ratio", "A gauge.").labels().set(0.25)
    seconds = registry.histogram("warmlog_test_wait_seconds", "A histogram.", ("who",), buckets=[0.1, 1])
    for value in (0.05, 0.1, 0.5, 7):
        seconds.labels("x").observe(value)
    registry.read("gauge", "warmlog_test_blocks", "Read.", ("replica",), source=lambda: {("r",): 5.0})
    registry.read("counter", "warmlog_test_odd_total", "Read.", source=lambda: math.inf)

    families = {family.name: family for family in parser.text_string_to_metric_families(registry.render().decode())}
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples[("warmlog_test_requests_total", (("who", 'a"b\\c\nd'),))] == 3
    assert samples[("warmlog_test_depth_ratio", ())] == 0.25
    bucket = "warmlog_test_wait_seconds_bucket"
    got = [samples[(bucket, (("le", bound), ("who", "x")))] for bound in ("0.1", "1", "+Inf")]
    assert got == [2, 3, 4], "bounds are inclusive and buckets cumulative"
    assert samples[("warmlog_test_wait_seconds_sum", (("who", "x"),))] == pytest.approx(7.65)
    assert samples[("warmlog_test_wait_seconds_count", (("who", "x"),))] == 4
    assert samples[("warmlog_test_blocks", (("replica", "r"),))] == 5
    assert samples[("warmlog_test_odd_total", ())] == math.inf
    assert families["warmlog_test_requests"].documentation == 'Back\\slash and "quotes".'


def test_over_the_cap_label_values_become_other() -> None:
    registry = metrics.Registry()
    family = registry.counter("warmlog_test_blocks_total", "Help.", ("kind", "tenant"), cap=3, capped=["tenant"])
    for number in range(10):
        family.labels("stored", f"tenant-{number}").add()
    assert family.labels("stored", metrics.OTHER).value == 7
    assert len(family.children) == 4
    family.labels("stored", "tenant-1").add()
    assert family.labels("stored", "tenant-1").value == 2, "who came in time keeps its own"


def test_what_is_read_at_scrape_is_capped_too() -> None:
    registry = metrics.Registry()
    registry.read(
        "gauge", "warmlog_test_blocks", "Help.", ("r",), cap=5, source=lambda: {(str(n),): float(n) for n in range(99)}
    )
    assert registry.render().count(b"warmlog_test_blocks{") == 5


def test_a_wrong_number_of_label_values_is_a_bug() -> None:
    family = metrics.Registry().counter("warmlog_test_blocks_total", "Help.", ("a",))
    with pytest.raises(metrics.MetricError, match="2 values"):
        family.labels("x", "y")


def test_the_families_of_the_edges_are_well_named_and_counted() -> None:
    registry = metrics.Registry()
    http, lookups, auth = meters.HttpMeter(registry), meters.LookupMeter(registry), meters.AuthMeter(registry)
    http.connections(3)
    http.turned_away()
    for path in (b"/v1/lookup", b"/v1/lookup", b"/secret-1", b"/secret-2"):
        http.answered(path, 200)
    lookups.answered("http", "NO_HINT", 0.0001)
    lookups.malformed("nats")
    auth.judged("snapshot", "unauth")
    text = registry.render().decode()
    assert 'warmlog_http_answers_total{path="lookup",code="200"} 2' in text
    assert 'warmlog_http_answers_total{path="other",code="200"} 2' in text
    assert "secret" not in text
    assert 'inferencecache_snapshot_auth_total{result="unauth"} 1' in text  # the contract's own name
    assert 'warmlog_lookup_duration_seconds_bucket{transport="http",le="0.0001"} 1' in text
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
