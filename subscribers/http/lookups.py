"""The edge of LookupRoute: bytes to a question, a decision to bytes, counted and timed; the same for every transport.

    HTTP, JSON      LookupEdge.json, behind routes.Lookup
    HTTP, packed    LookupEdge.packed: u32 little-endian token ids, the other fields as query parameters
    NATS            serve_nats: the JSON form on `wlq.lookup`, one of the servers answers

Not here: what a question means and what is decided (handlers/prefixindex/request, lookup). A malformed question is
routes.Malformed over HTTP (400), `{"error": …}` over NATS; a well-formed one always has an answer with a reason code.

Rules: design.md section 4; spec/inferencecache.md section 1.2.
"""

import functools
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol
from urllib import parse

import structlog

from eventstore import store, subjects
from handlers.prefixindex import answers, index, lookup, request
from subscribers.http import meters, replies, routes

log = structlog.get_logger(__name__)

Clock = Callable[[], int]
Apply = Callable[[lookup.Credit], None]


class Decide(Protocol):
    def __call__(self, question: request.LookupRequest, *, started_ns: int, clock: Clock) -> lookup.Decision:
        """`started_ns` is the clock's reading when the question's bytes were there; deadlines count from it."""
        ...


#: Servers that share this queue group share the questions.
QUEUE: Final = "lookup"
_MOST_PARAMETERS: Final = 32


@functools.lru_cache(maxsize=256)
def parameters(query: bytes) -> Mapping[str, str]:
    """A query string as names and values. Routers repeat theirs, hence the cache. Raises Malformed."""
    try:
        pairs = parse.parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError as error:
        raise routes.Malformed(f"the query string cannot be read: {error}") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise routes.Malformed(f"the query parameter {name} is given twice")
        found[name] = value
    return MappingProxyType(found)


class LookupEdge:
    """routes.Lookup over a decision function, and the responder for NATS. One loop, synchronous.

    `credit` is given what a delivered match earns its blocks (Index.credit).
    """

    def __init__(
        self, decide: Decide, *, credit: Apply, meter: meters.LookupMeter, clock: Clock = time.perf_counter_ns
    ) -> None:
        self._decide = decide
        self._credit = credit
        self._meter = meter
        self._clock = clock

    def json(self, body: bytes) -> bytes:
        return self._answer("http", lambda: request.decode(body))

    def packed(self, tokens: bytes, query: bytes) -> bytes:
        return self._answer("http", lambda: request.decode_packed(tokens, parameters(query)))

    async def nats(self, payload: bytes) -> bytes:
        """store.Answer: never raises, so that a bug does not leave the asker to its timeout."""
        try:
            return self._answer("nats", lambda: request.decode(payload))
        except routes.Malformed as error:
            return replies.error(400, str(error)).body
        except Exception:
            log.exception("a lookup over NATS failed")
            return replies.error(500, "internal error; the server's log has the details").body

    def _answer(self, transport: meters.Transport, read: Callable[[], request.LookupRequest]) -> bytes:
        started = self._clock()
        try:
            question = read()
        except (request.RequestError, routes.Malformed) as error:
            self._meter.malformed(transport)
            raise routes.Malformed(str(error)) from None
        decision = self._decide(question, started_ns=started, clock=self._clock)
        answer = answers.encode(decision.response)
        if decision.credit is not None:
            self._credit(decision.credit)
        self._meter.answered(transport, decision.response.reason_code, (self._clock() - started) / 1e9)
        return answer


def over(known: index.Index, *, now_ns: Clock) -> Decide:
    """Decisions over a live index and the policies in it. `now_ns` is the index's time, nanoseconds since the epoch."""

    def decide(question: request.LookupRequest, *, started_ns: int, clock: Clock) -> lookup.Decision:
        return lookup.decide(known, known.policies, question, now_ns(), started_ns=started_ns, clock=clock)

    return decide


async def serve_nats(bus: store.Bus, edge: LookupEdge) -> None:
    """Answer on `wlq.lookup` from now on, across reconnects."""
    await bus.serve(subjects.LOOKUP, edge.nats, queue=QUEUE)
