"""The metric families of admission: decisions by webhook, verdict and check, what was not decided, how long it took.

Rules: spec/conventions.md items 11 to 15: requests, errors by reason, duration; the queue is its lag.
"""

from collections.abc import Callable
from typing import Final

from subscribers import metrics
from subscribers.http import admission, recording

SECONDS: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


def register(registry: metrics.Registry, desk: admission.Desk, recorder: recording.Recorder) -> Callable[[float], None]:
    """What is told each answer's seconds."""
    read = registry.read
    read(
        "counter",
        "warmlog_admission_reviews_total",
        "Reviews answered, by webhook, verdict and the check that decided.",
        ("webhook", "verdict", "check"),
        source=lambda: {key: float(count) for key, count in desk.decided.items()},
    )
    read("counter", "warmlog_admission_unconcerned_total", "Allowed, none of ours.", source=lambda: desk.unconcerned)
    read("counter", "warmlog_admission_malformed_total", "Bodies that are no review.", source=lambda: desk.malformed)
    read("counter", "warmlog_admission_repeated_total", "Answered a second time.", source=lambda: desk.repeated)
    read(
        "counter",
        "warmlog_admission_live_reads_total",
        "Lists read from the API.",
        source=lambda: desk.judge.reads.lists,
    )
    read(
        "counter",
        "warmlog_admission_live_read_failures_total",
        "Of those, failed.",
        source=lambda: desk.judge.reads.failed,
    )
    read("counter", "warmlog_admission_recorded_total", "Decisions in the log.", source=lambda: recorder.stored)
    read("gauge", "warmlog_admission_queued_events", "Decisions that wait.", source=lambda: recorder.queued)
    read(
        "counter",
        "warmlog_admission_dropped_total",
        "Decisions that are not in the log, by why.",
        ("reason",),
        source=lambda: {("full",): float(recorder.dropped), ("refused",): float(recorder.refused)},
    )
    family = registry.histogram(
        "warmlog_admission_duration_seconds",
        "From a review's whole body to its whole answer, transport excluded.",
        buckets=SECONDS,
    )
    return family.labels().observe
