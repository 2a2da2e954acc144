"""One ZMQ payload of vLLM or SGLang, of any version, as canonical events. Never raises: what is wrong is a `Problem`.

Two ways give the same answer (a differential test keeps them equal). The fast one (strict.py) decodes the whole batch
in one go. When it refuses, the patient one reads event by event (lenient.py), so that one bad event loses no other
(KV-14).

Payloads over 64 MiB are refused unread (SGLang with pages of one token fills 24 MiB with a prompt of 128k). Memory is
a multiple of the payload: 10 bytes a byte for events, 70 for the most wasteful nesting; declared lengths cost nothing.

Not here: frames and sequence numbers (sockets), what events mean (table.py).

Rules: KV-01, KV-02, KV-03, KV-13, KV-14, KV-15, KV-16, KV-17, KV-19; batches of fewer than two items are errors
(acceptance case "one element envelope").
"""

from typing import Any, Final

import msgspec

from subscribers.kvevents import batch, lenient, strict

MAX_PAYLOAD: Final = 64 * 1024 * 1024
_SHORTEST_EVENT: Final = 8  # bytes on average; what has less holds no events that we know
_MAX_PROBLEMS: Final = 32  # kept per batch and loss; the rest is counted in one more line
_LONGEST_REASON: Final = 200


class _RawBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: msgspec.Raw
    rank: Any = None


class _RawOuterMap(msgspec.Struct, gc=False):
    """A build between releases sent the outer batch as a map too (KV-15)."""

    ts: float
    events: msgspec.Raw
    data_parallel_rank: Any = None
    attn_dp_rank: Any = None

    @property
    def rank(self) -> Any:
        return self.attn_dp_rank if self.data_parallel_rank is None else self.data_parallel_rank


_raw_batch = msgspec.msgpack.Decoder(_RawBatch).decode
_raw_outer_map = msgspec.msgpack.Decoder(_RawOuterMap).decode
_raw_events = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_anything = msgspec.msgpack.Decoder().decode


def _line(text: object) -> str:
    """One line of bounded length from whatever an engine or a library said."""
    line = str(text).encode("ascii", "backslashreplace").decode()
    line = " ".join(line.split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"


def _undecodable(reason: object) -> batch.Batch:
    problem = batch.Problem(batch.Loss.REMOVAL, "undecodable", f"batch dropped: {_line(reason)}")
    return batch.Batch(0.0, (), None, (problem,))


def _one_event(raw: memoryview) -> batch.Event | batch.Problem:
    try:
        event = _anything(raw)
    except strict.REFUSALS as error:
        return batch.Problem(batch.Loss.REMOVAL, "malformed", f"event dropped: {_line(error)}")
    try:
        return lenient.read(event)
    except lenient.UnknownTag as error:
        return batch.Problem(batch.Loss.NOTHING, "unknown-tag", f"event of unknown type {_line(error)[:60]!r} skipped")
    except (lenient.Malformed, RecursionError) as error:
        tag = lenient.tag_of(event)
        loss = batch.Loss.STORE if tag == lenient.STORED else batch.Loss.REMOVAL
        return batch.Problem(loss, "malformed", f"{tag or 'event'} dropped: {_line(error)}")


def _split(events: msgspec.Raw) -> list[msgspec.Raw]:
    """The bytes of each event. Raises one of strict.REFUSALS."""
    raw = memoryview(events)
    header = {0xDC: 3, 0xDD: 5}.get(raw[0], 1)
    declared = int.from_bytes(raw[1:header], "big") if header > 1 else 0
    if declared * _SHORTEST_EVENT > len(raw):
        raise ValueError(f"{declared} events in {len(raw)} bytes")
    return _raw_events(raw)


class _Problems:
    """A batch's problems, bounded: a line for the first of each loss, and one for how many more there were."""

    def __init__(self) -> None:
        self._kept: list[batch.Problem] = []
        self._counts: dict[batch.Loss, int] = {}

    def add(self, problem: batch.Problem) -> None:
        seen = self._counts[problem.loss] = self._counts.get(problem.loss, 0) + 1
        if seen <= _MAX_PROBLEMS:
            self._kept.append(problem)

    def all(self) -> tuple[batch.Problem, ...]:
        more = [
            batch.Problem(loss, "malformed", f"{count - _MAX_PROBLEMS} more events like these")
            for loss, count in self._counts.items()
            if count > _MAX_PROBLEMS
        ]
        return (*self._kept, *more)


def patient(payload: bytes) -> batch.Batch:
    """Event by event: what `decode` gives when the fast way refuses. Public for the differential test."""
    try:
        wire = _raw_outer_map(payload) if payload and strict.is_map(payload[0]) else _raw_batch(payload)
        raw_events = _split(wire.events)
    except strict.REFUSALS as error:
        return _undecodable(error)
    events: list[batch.Event] = []
    problems = _Problems()
    forms: set[batch.Form] = set()
    for raw in raw_events:
        view = memoryview(raw)
        forms.add("map" if strict.is_map(view[0]) else "array")
        outcome = _one_event(view)
        if isinstance(outcome, batch.Problem):
            problems.add(outcome)
        else:
            events.append(outcome)
    rank = wire.rank
    if rank is not None and type(rank) is not int:
        problems.add(batch.Problem(batch.Loss.NOTHING, "rank", f"rank of type {type(rank).__name__} ignored"))
        rank = None
    form: batch.Form = "mixed" if len(forms) > 1 else forms.pop() if forms else "none"
    return batch.Batch(wire.ts, events, rank, problems.all(), form)


def decode(payload: bytes) -> batch.Batch:
    """One payload as canonical events and problems; any bytes are accepted."""
    if len(payload) > MAX_PAYLOAD:
        return _undecodable(f"payload of {len(payload)} bytes exceeds {MAX_PAYLOAD}")
    try:
        return strict.read(payload)
    except strict.REFUSALS:
        return patient(payload)
