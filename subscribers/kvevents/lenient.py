"""One event of any form, read field by field: the slow and patient way, taken when the fast one (strict.py) refuses.

Fields of arrays are found by position and of maps by name; a missing tail, an absent key and null are equal, but for
the parent: a renamed field must not make roots of all blocks. A surplus tail and unknown keys are ignored. A field
that we use and that has another type raises `Malformed` with its name.

Not here: whole batches. Rules: KV-01, KV-02, KV-03, KV-06, KV-07, KV-16, KV-17 of the schema history.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from handlers.prefixindex import keys
from subscribers.kvevents import batch

STORED: Final = "BlockStored"
REMOVED: Final = "BlockRemoved"
CLEARED: Final = "AllBlocksCleared"
TIER_CLEARED: Final = "TierBlocksCleared"

#: By position after the tag. Slot 7 is a name in vLLM and a map in SGLang 0.5.18-0.5.19 (KV-16).
_STORED_SLOTS = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
)
_REMOVED_SLOTS = ("block_hashes", "medium", "group_idx")
_CLEARED_SLOTS = ("medium",)

_encode = msgspec.msgpack.Encoder().encode


class Malformed(ValueError):
    """A known event whose field has a type that we cannot read. The text names the field."""


class UnknownTag(ValueError):
    """An event type that no version we know of has."""


def extras(per_block: Sequence[Sequence[Any] | None] | None, lora_name: str | None) -> Sequence[bytes | None] | None:
    """Canonical bytes of each block's extra keys, in the engine's order; None when no block has any.

    The adapter's name stands among them untagged and is already our domain, so one occurrence goes (KV-07).
    """
    if not per_block:
        return None
    canonical: list[bytes | None] = []
    for extra in per_block:
        items = list(extra) if extra else []
        if lora_name is not None and lora_name in items:
            items.remove(lora_name)
        canonical.append(_encode(items) if items else None)
    return canonical if any(canonical) else None


def pack(token_ids: Sequence[Any] | None) -> tuple[bytes | None, bool]:
    """Tokens as u32 little-endian, and whether they were pairs. Raises Malformed for anything that is neither.

    A pair (t, next) is one position of an EAGLE radix key; its first token is the position's own (KV-17).
    """
    if not token_ids:
        return None, False
    bigram = isinstance(token_ids[0], list | tuple)
    try:
        if bigram:
            token_ids = [first for first, _ in token_ids]
        if any(type(token) is not int for token in token_ids):
            raise Malformed("token_ids must hold integers, or pairs of them throughout")
        return keys.pack_tokens(token_ids), bigram
    except (TypeError, ValueError, OverflowError):
        raise Malformed("token_ids must hold integers from 0 to 2**32-1, or pairs of them throughout") from None


def lookahead(per_block: Sequence[Sequence[Any]] | None) -> bytes | None:
    """Tokens beyond the event's last block that its hash depends on. Raises Malformed.

    vLLM names them for every block; those of the others are the first tokens of the block that follows (IDX-11).
    """
    return pack(per_block[-1])[0] if per_block else None


def _hash(value: Any, name: str) -> batch.Hash:
    if isinstance(value, bytes | str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise Malformed(f"{name} must be a number, bytes or text, not {type(value).__name__}")


def _optional(fields: dict[str, Any], name: str, *kinds: type) -> Any:
    value = fields.get(name)
    if value is None or type(value) in kinds:
        return value
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise Malformed(f"{name} must be {wanted} or null, not {type(value).__name__}")


def _hashes(fields: dict[str, Any]) -> list[batch.Hash]:
    value = fields.get("block_hashes")
    if not isinstance(value, list):
        raise Malformed(f"block_hashes must be a list, not {type(value).__name__}")
    return [_hash(item, "block_hashes") for item in value]


def _per_block_extras(fields: dict[str, Any]) -> list[list[Any] | None] | None:
    value = _optional(fields, "extra_keys", list)
    if value is not None and any(item is not None and not isinstance(item, list) for item in value):
        raise Malformed("extra_keys must hold a list or null per block")
    return value  # type: ignore[no-any-return]  # checked item by item above


def _stored(fields: dict[str, Any]) -> batch.Stored:
    if "parent_block_hash" not in fields:
        raise Malformed("parent_block_hash is missing, which is not the same as null")
    parent = fields["parent_block_hash"]
    block_size = fields.get("block_size")
    if type(block_size) is not int or block_size < 0:
        # Its value is not said: in a form that we do not know it may be the tokens, and reasons leave the Pod.
        what = "a negative one" if type(block_size) is int else type(block_size).__name__
        raise Malformed(f"block_size must be a number from 0, not {what}")
    lora_name = _optional(fields, "lora_name", str)
    tokens, bigram = pack(_optional(fields, "token_ids", list))
    per_block = _optional(fields, "lookahead_token_ids", list)
    if per_block is not None and any(not isinstance(tokens, list) for tokens in per_block):
        raise Malformed("lookahead_token_ids must hold a list per block")
    return batch.Stored(
        hashes=_hashes(fields),
        parent=None if parent is None else _hash(parent, "parent_block_hash"),
        tokens=tokens,
        block_size=block_size,
        lora_id=_optional(fields, "lora_id", int),
        lora_name=lora_name,
        medium=_optional(fields, "medium", str),
        extra=extras(_per_block_extras(fields), lora_name),
        salt=_optional(fields, "cache_salt", str, bytes) or None,
        group=_optional(fields, "group_idx", int) or 0,
        kind=_optional(fields, "kv_cache_spec_kind", str),
        window=_optional(fields, "kv_cache_spec_sliding_window", int),
        lookahead=lookahead(per_block),
        locality=_optional(fields, "locality", str),
        bigram=bigram,
    )


def _removed(fields: dict[str, Any]) -> batch.Removed:
    return batch.Removed(
        hashes=_hashes(fields),
        medium=_optional(fields, "medium", str),
        group=_optional(fields, "group_idx", int) or 0,
        locality=_optional(fields, "locality", str),
    )


def _cleared(fields: dict[str, Any]) -> batch.Cleared:
    return batch.Cleared()


def _tier_cleared(fields: dict[str, Any]) -> batch.Cleared:
    medium = _optional(fields, "medium", str)
    if medium is None:
        raise Malformed("medium must be named")
    return batch.Cleared(medium)


_Build = Callable[[dict[str, Any]], batch.Event]
_KINDS: dict[str, tuple[tuple[str, ...], int, _Build]] = {
    # tag: (slots after the tag, how many of them must be there, what to build)
    STORED: (_STORED_SLOTS, 4, _stored),
    REMOVED: (_REMOVED_SLOTS, 1, _removed),
    CLEARED: ((), 0, _cleared),
    TIER_CLEARED: (_CLEARED_SLOTS, 1, _tier_cleared),
}


def _by_position(tag: str, slots: tuple[str, ...], least: int, event: list[Any]) -> dict[str, Any]:
    if len(event) - 1 < least:
        raise Malformed(f"{tag} needs {least + 1} slots, has {len(event)}")
    fields = dict(zip(slots, event[1:], strict=False))
    if tag == STORED:
        seventh = fields.get("lora_name")
        if isinstance(seventh, dict):  # SGLang's metadata, not vLLM's name (KV-16)
            fields["lora_name"] = seventh.get("lora_name")
            fields["cache_salt"] = seventh.get("cache_salt")
        elif isinstance(seventh, str) and fields.get("lora_id") is None:
            # vLLM fills both or neither: a name without an id is another program's surplus slot.
            fields["lora_name"] = None
    return fields


def tag_of(event: Any) -> str | None:
    """The type of an event of either form; None when it has none."""
    if isinstance(event, dict):
        tag = event.get("type")
    elif isinstance(event, list) and event:
        tag = event[0]
    else:
        tag = None
    return tag if isinstance(tag, str) else None


def read(event: Any) -> batch.Event:
    """One event from plain lists, dicts and scalars. Raises UnknownTag, or Malformed naming what is wrong."""
    tag = tag_of(event)
    if tag is None:
        raise Malformed("neither a tagged array nor a map with a type")
    if tag not in _KINDS:
        raise UnknownTag(tag)
    slots, least, build = _KINDS[tag]
    fields = event if isinstance(event, dict) else _by_position(tag, slots, least, event)
    return build(fields)
