"""The edge of LookupRoute over every transport. Excluded: the forms of a question (handlers/prefixindex), decisions."""

import msgspec
import pytest
import structlog

from eventstore import memory, subjects
from handlers.prefixindex import answers, domain, index, lookup, request
from subscribers import metrics
from subscribers.http import lookups, meters, routes


class Decider:
    def __init__(self) -> None:
        self.asked: list[request.LookupRequest] = []

    def __call__(self, question: request.LookupRequest, *, started_ns: int, clock: lookups.Clock) -> lookup.Decision:
        self.asked.append(question)
        if question.model_id == "bug":
            raise ZeroDivisionError
        response = answers.LookupResponse(
            reason_code="NO_HINT",
            adapter_id=question.adapter_id,
            lookup_latency_us=str((clock() - started_ns) // 1000),
        )
        return lookup.Decision(response, CREDIT if question.model_id == "credit" else None)


CREDIT = lookup.Credit(domain.DomainKey("t", "m", "vllm", ""), (("r", (1, 2)),))


class Ticks:
    """A clock that moves 2 µs whenever it is read."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 2000
        return self.now


@pytest.fixture
def registry() -> metrics.Registry:
    return metrics.Registry()


@pytest.fixture
def decider() -> Decider:
    return Decider()


@pytest.fixture
def credits() -> list[lookup.Credit]:
    return []


@pytest.fixture
def edge(registry: metrics.Registry, decider: Decider, credits: list[lookup.Credit]) -> lookups.LookupEdge:
    return lookups.LookupEdge(decider, credit=credits.append, meter=meters.LookupMeter(registry), clock=Ticks())


def test_what_a_match_earned_is_credited_once_it_is_answered(
    edge: lookups.LookupEdge, credits: list[lookup.Credit]
) -> None:
    edge.json(b'{"model_id":"none"}')
    edge.json(b'{"model_id":"credit"}')
    assert credits == [CREDIT]


def test_the_real_decision_over_an_empty_index_is_a_cold_start(registry: metrics.Registry) -> None:
    known = index.Index()
    edge = lookups.LookupEdge(
        lookups.over(known, now_ns=lambda: 0), credit=known.credit, meter=meters.LookupMeter(registry)
    )
    answer = msgspec.json.decode(edge.json(b'{"model_id":"m","tenant_id":"t","hash_scheme":"vllm","token_ids":[1]}'))
    assert (answer["reason_code"], answer["replica_scores"]) == ("NO_HINT", [])
    assert "detail" in answer


def test_an_answer_carries_its_reason_and_its_latency(edge: lookups.LookupEdge, registry: metrics.Registry) -> None:
    answer = msgspec.json.decode(edge.json(b'{"model_id":"m","tenant_id":"t","adapter_id":"a"}'))
    assert (answer["reason_code"], answer["adapter_id"], answer["lookup_latency_us"]) == ("NO_HINT", "a", "2")
    text = registry.render().decode()
    assert 'warmlog_lookup_answers_total{transport="http",reason="NO_HINT"} 1' in text
    assert 'warmlog_lookup_duration_seconds_count{transport="http"} 1' in text


def test_packed_tokens_are_the_same_question_as_json(edge: lookups.LookupEdge, decider: Decider) -> None:
    edge.packed(b"\x01\0\0\0\x02\0\0\0", b"model_id=org%2Fm&tenant_id=t&hash_scheme=vllm&adapter_id=")
    edge.json(b'{"model_id":"org/m","tenant_id":"t","hash_scheme":"vllm","token_ids":[1,2]}')
    assert decider.asked[0] == decider.asked[1]


@pytest.mark.parametrize(
    ("query", "says"),
    {
        "twice": (b"model_id=a&model_id=b", "model_id is given twice"),
        "no UTF-8": (b"model_id=%ff", "cannot be read"),
        "no ASCII": (b"model_id=\xc3\xa9", "cannot be read"),
        "no pair": (b"model_id", "cannot be read"),
        "very many": (b"&".join(b"p%d=1" % n for n in range(40)), "cannot be read"),
    }.values(),
    ids=["twice", "no UTF-8", "no ASCII", "no pair", "very many"],
)
def test_a_query_string_that_is_ambiguous_or_unreadable_is_malformed(
    edge: lookups.LookupEdge, registry: metrics.Registry, query: bytes, says: str
) -> None:
    with pytest.raises(routes.Malformed, match=says):
        edge.packed(b"", query)
    assert 'warmlog_lookup_malformed_total{transport="http"} 1' in registry.render().decode()


def test_no_query_string_is_a_question_without_fields(edge: lookups.LookupEdge, decider: Decider) -> None:
    edge.packed(b"", b"")
    assert decider.asked == [request.LookupRequest()]


def test_malformed_json_is_said_in_one_line(edge: lookups.LookupEdge) -> None:
    with pytest.raises(routes.Malformed, match="not a LookupRouteRequest"):
        edge.json(b"{")


async def test_nats_gets_the_same_answer_and_malformed_as_json(edge: lookups.LookupEdge) -> None:
    bus = memory.MemoryBus()
    await lookups.serve_nats(bus, edge)
    good = msgspec.json.decode(await bus.request(subjects.LOOKUP, b'{"model_id":"m"}', timeout=1))
    assert good["reason_code"] == "NO_HINT"
    bad = msgspec.json.decode(await bus.request(subjects.LOOKUP, b"\xff{", timeout=1))
    assert list(bad) == ["error"]
    with structlog.testing.capture_logs() as logs:
        bug = msgspec.json.decode(await bus.request(subjects.LOOKUP, b'{"model_id":"bug"}', timeout=1))
    assert bug == {"error": "internal error; the server's log has the details"}
    assert logs[0]["event"] == "a lookup over NATS failed"
