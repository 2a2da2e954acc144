"""One ZMQ payload of vLLM or SGLang, of any version, as canonical events. Never raises: what is wrong is a `Problem`.

Two ways give the same answer (a differential test keeps them equal). The fast one decodes the whole batch in one go
with typed structures and never looks at fields that we do not use. When it refuses, the patient one (lenient.py) reads
event by event, so that one bad event loses no other (KV-14).

Payloads over 64 MiB are refused unread (SGLang with pages of one token fills 24 MiB with a prompt of 128k). Memory is
a multiple of the payload: 10 bytes a byte for events, 70 for the most wasteful nesting; declared lengths cost nothing.

Not here: frames and sequence numbers (sockets), what events mean (table.py).

Rules: KV-01, KV-02, KV-03, KV-13, KV-14, KV-15, KV-16, KV-17, KV-19; batches of fewer than two items are errors
(acceptance case "one element envelope").
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from handlers.prefixindex import keys
from subscribers.kvevents import batch, lenient

MAX_PAYLOAD: Final = 64 * 1024 * 1024
_SHORTEST_EVENT: Final = 8  # bytes on average; what has less holds no events that we know
_MAX_PROBLEMS: Final = 32  # kept per batch and loss; the rest is counted in one more line
_LONGEST_REASON: Final = 200

_Hash = int | bytes  # text hashes take the patient way: msgspec keeps one text-like type per union
_Size = Annotated[int, msgspec.Meta(ge=0)]
_Tokens = list[int | tuple[int, int]] | None


_NULL: Final = msgspec.Raw(b"\xc0")


class _StoredArray(msgspec.Struct, array_like=True, tag=lenient.STORED, gc=False):
    block_hashes: list[_Hash]
    parent: _Hash | None
    token_ids: msgspec.Raw  # read by `_pack`: numbers that are packed at once need not become objects
    block_size: _Size
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | dict[str, Any] | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kind: str | None = None
    window: int | None = None


class _RemovedArray(msgspec.Struct, array_like=True, tag=lenient.REMOVED, gc=False):
    block_hashes: list[_Hash]
    medium: str | None = None
    group_idx: int | None = None


class _ClearedArray(msgspec.Struct, array_like=True, tag=lenient.CLEARED, gc=False):
    pass


class _StoredMap(msgspec.Struct, tag=lenient.STORED, gc=False):
    block_hashes: list[_Hash]
    block_size: _Size
    parent_block_hash: _Hash | None  # no default: a renamed field must not make roots of all blocks
    token_ids: msgspec.Raw = _NULL
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    cache_salt: str | None = None
    lookahead_token_ids: list[list[int]] | None = None


class _RemovedMap(msgspec.Struct, tag=lenient.REMOVED, gc=False):
    block_hashes: list[_Hash]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


class _ClearedMap(msgspec.Struct, tag=lenient.CLEARED, gc=False):
    pass


class _ArrayBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]
    rank: int | None = None


class _MapBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[_StoredMap | _RemovedMap | _ClearedMap]
    rank: int | None = None


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


_array_batch = msgspec.msgpack.Decoder(_ArrayBatch).decode
_map_batch = msgspec.msgpack.Decoder(_MapBatch).decode
_raw_batch = msgspec.msgpack.Decoder(_RawBatch).decode
_raw_outer_map = msgspec.msgpack.Decoder(_RawOuterMap).decode
_token_ids = msgspec.msgpack.Decoder(_Tokens).decode
_raw_events = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_anything = msgspec.msgpack.Decoder().decode

#: All that decoding bytes of a stranger may raise. OverflowError: a token id that is no u32.
_REFUSALS = (msgspec.MsgspecError, RecursionError, OverflowError, ValueError, TypeError)


def _stored_array(wire: _StoredArray) -> batch.Event:
    tokens, bigram = _pack(wire.token_ids)
    name, salt = wire.lora_name, None
    if isinstance(name, dict):
        fields = name
        name, salt = fields.get("lora_name"), fields.get("cache_salt")
        if not (isinstance(name, str | None) and isinstance(salt, str | bytes | None)):
            raise lenient.Malformed("metadata in slot 7")
    elif wire.lora_id is None:
        name = None
    return batch.Stored(
        wire.block_hashes,
        wire.parent,
        tokens,
        wire.block_size,
        wire.lora_id,
        name,
        wire.medium,
        lenient.extras(wire.extra_keys, name) if wire.extra_keys else None,
        salt or None,
        wire.group_idx or 0,
        wire.kind,
        wire.window,
        None,
        None,
        bigram,
    )


def _stored_map(wire: _StoredMap) -> batch.Event:
    tokens, bigram = _pack(wire.token_ids)
    return batch.Stored(
        wire.block_hashes,
        wire.parent_block_hash,
        tokens,
        wire.block_size,
        wire.lora_id,
        wire.lora_name,
        wire.medium,
        lenient.extras(wire.extra_keys, wire.lora_name) if wire.extra_keys else None,
        wire.cache_salt or None,
        wire.group_idx or 0,
        wire.kv_cache_spec_kind,
        wire.kv_cache_spec_sliding_window,
        lenient.lookahead(wire.lookahead_token_ids),
        wire.locality,
        bigram,
    )


def _pack(wire: msgspec.Raw) -> tuple[bytes | None, bool]:
    """As lenient.pack, from the bytes. Raises one of _REFUSALS for what are no tokens."""
    if keys.native is not None and (packed := keys.native.packed(wire)) is not None:
        return packed or None, False
    return pack_in_python(wire)


def pack_in_python(wire: msgspec.Raw) -> tuple[bytes | None, bool]:
    """As `_pack`, without the native helper, and for pairs."""
    token_ids: Any = _token_ids(wire)
    if not token_ids:
        return None, False
    try:
        return keys.pack_tokens(token_ids), False
    except TypeError:
        return lenient.pack(token_ids)


def _removed_array(wire: _RemovedArray) -> batch.Event:
    return batch.Removed(wire.block_hashes, wire.medium, wire.group_idx or 0)


def _removed_map(wire: _RemovedMap) -> batch.Event:
    return batch.Removed(wire.block_hashes, wire.medium, wire.group_idx or 0, wire.locality)


def _cleared(wire: Any) -> batch.Event:
    return batch.Cleared()


_CANONICAL: dict[type, Callable[[Any], batch.Event]] = {
    _StoredArray: _stored_array,
    _RemovedArray: _removed_array,
    _ClearedArray: _cleared,
    _StoredMap: _stored_map,
    _RemovedMap: _removed_map,
    _ClearedMap: _cleared,
}


def _first_event_byte(payload: bytes) -> int:
    """The first byte of the first event in the usual frame (array, float64 time, events); -1 for any other frame."""
    try:
        if payload[1] != 0xCB:
            return -1
        header = payload[10]
        at = 11 if header & 0xF0 == 0x90 else 13 if header == 0xDC else 15
        return payload[at]
    except IndexError:
        return -1


def _is_map(byte: int) -> bool:
    return byte & 0xF0 == 0x80 or byte in (0xDE, 0xDF)


def _fast(payload: bytes) -> batch.Batch:
    """The whole batch in one go. Raises one of _REFUSALS for anything out of the ordinary."""
    of_maps = _is_map(_first_event_byte(payload))
    wire: Any = _map_batch(payload) if of_maps else _array_batch(payload)
    canonical = _CANONICAL
    events = [canonical[type(event)](event) for event in wire.events]
    return batch.Batch(wire.ts, events, wire.rank, (), ("map" if of_maps else "array") if events else "none")


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
    except _REFUSALS as error:
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
    """The bytes of each event. Raises one of _REFUSALS."""
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
        wire = _raw_outer_map(payload) if payload and _is_map(payload[0]) else _raw_batch(payload)
        raw_events = _split(wire.events)
    except _REFUSALS as error:
        return _undecodable(error)
    events: list[batch.Event] = []
    problems = _Problems()
    forms: set[batch.Form] = set()
    for raw in raw_events:
        view = memoryview(raw)
        forms.add("map" if _is_map(view[0]) else "array")
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
        return _fast(payload)
    except _REFUSALS:
        return patient(payload)
