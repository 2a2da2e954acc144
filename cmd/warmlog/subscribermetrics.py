"""What a subscriber's /metrics tell: what came from the engine, what it cost, how far the log is behind.

Labels are ranks and closed sets. Rules: conventions of the ecosystem; KV-01 (wire shapes), TR-12, TR-16 (clears).
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from subscribers import metrics
from subscribers.kvevents import consumer, notes, source
from warmlog import VERSION

Of = Callable[[], Sequence[tuple[str, float]]]

SOCKET = {
    "received": "Frames received from the engine.",
    "malformed": "Frames that are no KV event frames.",
    "oversized": "Frames too large to read.",
    "dropped": "Frames lost because the queue was full.",
}
SEQUENCE = {
    "batches": "Batches in order, replayed ones included.",
    "replayed": "Batches that the replay socket supplied.",
    "questions": "Questions to the replay socket.",
    "unanswered": "Questions to the replay socket without an answer.",
    "gaps": "Holes that nothing could bridge.",
    "lives": "Lives of the engine.",
}
EVENTS = {
    "events": "Events read.",
    "undecodable": "Batches that are no KV events.",
    "malformed": "Events that could not be read.",
    "unknown_tags": "Events of an unknown kind.",
}


def register(registry: metrics.Registry, consumers: Sequence[consumer.Consumer]) -> None:
    """Families whose numbers are read at each scrape, one sample per rank of the engine."""
    registry.read("gauge", "warmlog_build_info", "Always 1.", ("version",), source=lambda: {(VERSION,): 1.0})
    sources = [one.source for one in consumers if isinstance(one.source, source.Source)]
    for name, text in SOCKET.items():
        _counter(registry, f"socket_{name}", text, _fields(name, lambda: [(rank(s), s.received) for s in sources]))
    for name, text in SEQUENCE.items():
        _counter(registry, f"source_{name}", text, _fields(name, lambda: [(rank(s), s.counters) for s in sources]))
    for name, text in EVENTS.items():
        _counter(
            registry,
            f"engine_{name}",
            text,
            _fields(name, lambda: [(str(one.source.where.rank), one.counters) for one in consumers]),
        )
    registry.read(
        "counter",
        "warmlog_subscriber_wire_forms_total",
        "Batches by wire form.",
        ("rank", "form"),
        source=lambda: {
            (str(one.source.where.rank), form): count for one in consumers for form, count in one.counters.forms.items()
        },
    )
    for field in msgspec.structs.fields(notes.Counters):
        _counter(
            registry,
            f"table_{field.name}",
            f"Blocks or events: {field.name.replace('_', ' ')}.",
            _fields(field.name, lambda: [(name, r.table.counters) for name, r in every(consumers)]),
        )
    _gauge(registry, "blocks", "Keys told as held.", lambda: [(n, r.table.count) for n, r in every(consumers)])
    _gauge(
        registry, "pending_changes", "Changes that wait.", lambda: [(n, r.table.pending) for n, r in every(consumers)]
    )
    _gauge(
        registry,
        "complete",
        "1 when everything that the engine holds is known, 0 when partial.",
        lambda: [(name, float(held.replica.coverage == "complete")) for name, held in every(consumers)],
    )
    _gauge(
        registry,
        "log_away",
        "1 while the log does not answer.",
        lambda: [(name, float(away(held))) for name, held in every(consumers)],
    )


def _fields(name: str, of: Callable[[], Sequence[tuple[str, msgspec.Struct]]]) -> Of:
    """One counter out of each struct of counters."""
    return lambda: [(who, float(getattr(counters, name))) for who, counters in of()]


def rank(one: source.Source) -> str:
    return str(one.where.rank)


def ranks(one: consumer.Consumer) -> list[tuple[str, consumer.Rank]]:
    return [(str(number), held) for number, held in sorted(one.ranks.items())]


def every(consumers: Sequence[consumer.Consumer]) -> list[tuple[str, consumer.Rank]]:
    return [pair for one in consumers for pair in ranks(one)]


def away(held: consumer.Rank) -> bool:
    return held.replica.speaking is not None and held.replica.speaking.away_since is not None


def _samples(of: Of) -> Mapping[tuple[str, ...], float]:
    return {(name,): float(value) for name, value in of()}


def _counter(registry: metrics.Registry, name: str, text: str, of: Of) -> None:
    registry.read("counter", f"warmlog_subscriber_{name}_total", text, ("rank",), source=lambda: _samples(of))


def _gauge(registry: metrics.Registry, name: str, text: str, of: Of) -> None:
    registry.read("gauge", f"warmlog_subscriber_{name}", text, ("rank",), source=lambda: _samples(of))
