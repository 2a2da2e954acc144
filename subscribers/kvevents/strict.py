"""A whole batch of one form at once, with typed structures: the fast way, which nearly all batches take (decode.py).

Fields that we do not use are never looked at. Whatever is out of the ordinary raises one of REFUSALS, and the batch is
then read event by event (lenient.py); what this module gives is what that gives too.

Rules: KV-01, KV-02, KV-03, KV-16, KV-17, KV-19.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from handlers.prefixindex import keys
from subscribers.kvevents import batch, lenient

#: All that decoding bytes of a stranger may raise. OverflowError: a token id that is no u32.
REFUSALS: Final = (msgspec.MsgspecError, RecursionError, OverflowError, ValueError, TypeError)

_Hash = int | bytes  # text hashes take the patient way: msgspec keeps one text-like type per union
_Size = Annotated[int, msgspec.Meta(ge=0)]
_Tokens = list[int | tuple[int, int]] | None
_NULL: Final = msgspec.Raw(b"\xc0")


class _StoredArray(msgspec.Struct, array_like=True, tag=lenient.STORED, gc=False):
    block_hashes: list[_Hash]
    parent: _Hash | None
    token_ids: msgspec.Raw  # read by `pack`: numbers that are packed at once need not become objects
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


_array_batch = msgspec.msgpack.Decoder(_ArrayBatch).decode
_map_batch = msgspec.msgpack.Decoder(_MapBatch).decode
_token_ids = msgspec.msgpack.Decoder(_Tokens).decode


def _stored_array(wire: _StoredArray) -> batch.Event:
    tokens, bigram = pack(wire.token_ids)
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
    tokens, bigram = pack(wire.token_ids)
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


def pack(wire: msgspec.Raw) -> tuple[bytes | None, bool]:
    """As lenient.pack, from the bytes. Raises one of REFUSALS for what are no tokens."""
    if keys.native is not None and (packed := keys.native.packed(wire)) is not None:
        return packed or None, False
    return pack_in_python(wire)


def pack_in_python(wire: msgspec.Raw) -> tuple[bytes | None, bool]:
    """As `pack`, without the native helper, and for pairs."""
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


def is_map(byte: int) -> bool:
    """Whether MessagePack that begins with this byte is a map."""
    return byte & 0xF0 == 0x80 or byte in (0xDE, 0xDF)


def read(payload: bytes) -> batch.Batch:
    """The whole batch in one go. Raises one of REFUSALS for anything out of the ordinary."""
    of_maps = is_map(_first_event_byte(payload))
    wire: Any = _map_batch(payload) if of_maps else _array_batch(payload)
    canonical = _CANONICAL
    events = [canonical[type(event)](event) for event in wire.events]
    return batch.Batch(wire.ts, events, wire.rank, (), ("map" if of_maps else "array") if events else "none")
