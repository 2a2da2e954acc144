"""The metric families of the HTTP and lookup edges. Every label value here is from a closed set or capped.

Rules: spec/conventions.md items 11 to 15: requests, errors by reason, duration; lag is the consumer's;
spec/inferencecache.md section 9, "Server metrics".
"""

from typing import Final, Literal

from handlers import access
from subscribers import metrics
from subscribers.http import hotpath

Transport = Literal["http", "nats"]

_PATHS: Final = {b"/v1/lookup": "lookup", b"/healthz": "healthz", b"/readyz": "readyz", b"/metrics": "metrics"}


class HttpMeter(hotpath.Meter):
    """hotpath.Meter that counts."""

    def __init__(self, registry: metrics.Registry) -> None:
        self._answers = registry.counter(
            "warmlog_http_answers_total", "Answers given on the lookup port, by path and status code.", ("path", "code")
        )
        self._open = registry.gauge("warmlog_http_open_connections", "Connections open on the lookup port.").labels()
        self._turned_away = registry.counter(
            "warmlog_http_turned_away_total", "Connections refused because too many were open."
        ).labels()
        self._bound: dict[tuple[bytes, int], metrics.Counter] = {}

    def connections(self, now_open: int) -> None:
        self._open.value = now_open

    def turned_away(self) -> None:
        self._turned_away.add()

    def answered(self, path: bytes, code: int) -> None:
        counter = self._bound.get((path, code))
        if counter is None:
            counter = self._answers.labels(_PATHS.get(path, metrics.OTHER), str(code))
            if path in _PATHS:
                self._bound[(path, code)] = counter
        counter.value += 1


class AdminMeter:
    """admin.Meter that counts. `path` is a route's pattern, never what a client wrote."""

    def __init__(self, registry: metrics.Registry) -> None:
        self._answers = registry.counter(
            "warmlog_admin_answers_total",
            "Answers given on the admin port (snapshot, probe, intake), by route and status code.",
            ("route", "code"),
        )

    def answered(self, path: str, code: int) -> None:
        self._answers.labels(path, str(code)).add()


#: Dashboards of the reference's server know these names; the intake is ours.
_JUDGED: Final = {
    "snapshot": "inferencecache_snapshot_auth_total",
    "probe": "inferencecache_probe_auth_total",
    "intake": "warmlog_intake_auth_total",
}
_RESULTS: Final[tuple[access.Result, ...]] = ("ok", "unauth", "forbidden", "error")


class AuthMeter:
    """tokens.Meter that counts, for the endpoints that are served. Each starts at 0: a rate needs a beginning."""

    def __init__(self, registry: metrics.Registry) -> None:
        self._counters: dict[tuple[str, access.Result], metrics.Counter] = {}
        for endpoint, name in _JUDGED.items():
            family = registry.counter(name, f"Requests for /{endpoint}, by what became of their tokens.", ("result",))
            for result in _RESULTS:
                self._counters[endpoint, result] = family.labels(result)

    def judged(self, endpoint: access.Endpoint, result: access.Result) -> None:
        self._counters[endpoint, result].add()


class LookupMeter:
    """What lookups came to, over every transport."""

    def __init__(self, registry: metrics.Registry) -> None:
        self._answers = registry.counter(
            "warmlog_lookup_answers_total",
            "Well-formed lookups answered, by transport and reason code.",
            ("transport", "reason"),
            cap=64,
        )
        self._malformed = registry.counter(
            "warmlog_lookup_malformed_total", "Lookups that could not be read.", ("transport",)
        )
        self._duration = registry.histogram(
            "warmlog_lookup_duration_seconds",
            "From a lookup's whole body to its whole answer, transport excluded.",
            ("transport",),
            buckets=metrics.LOOKUP_SECONDS,
        )
        self._bound: dict[tuple[str, str], metrics.Counter] = {}
        self._durations = {name: self._duration.labels(name) for name in ("http", "nats")}

    def answered(self, transport: Transport, reason: str, seconds: float) -> None:
        counter = self._bound.get((transport, reason))
        if counter is None:
            counter = self._bound[(transport, reason)] = self._answers.labels(transport, reason)
        counter.value += 1
        self._durations[transport].observe(seconds)

    def malformed(self, transport: Transport) -> None:
        self._malformed.labels(transport).add()
