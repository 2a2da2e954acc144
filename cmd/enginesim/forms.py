"""What each release of vLLM and SGLang puts on the wire: field lists that grew, arrays that became maps.

A form is named after a release, `vllm-0.33` or `sglang-0.5.9`; a release between two changes has the form of the
older one. Events are packed from structs declared as the engines declare theirs, array_like or omit_defaults: in
arrays every slot is present, in maps an optional field that is null is absent, and a map that could have more than 15
entries has the longer header however few it has.

Not here: which events an engine emits and when (engine.py). An unknown name raises ValueError that says what is known.
Rules: the released sources of vLLM 0.9.0-0.33.0 and SGLang 0.4.7-0.5.23 (kv_events.py of each); compared with what
those write in tests/integration/realpublishers.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

Version = tuple[int, ...]
EngineKind = Literal["vllm", "sglang"]

_STORED: Final[dict[EngineKind, list[tuple[Version, str]]]] = {
    "vllm": [
        ((0, 9), "block_hashes"),
        ((0, 9), "parent_block_hash"),
        ((0, 9), "token_ids"),
        ((0, 9), "block_size"),
        ((0, 9), "lora_id"),
        ((0, 10, 2), "medium"),
        ((0, 14), "lora_name"),
        ((0, 17), "extra_keys"),
        ((0, 20), "group_idx"),
        ((0, 22), "kv_cache_spec_kind"),
        ((0, 22), "kv_cache_spec_sliding_window"),
        ((0, 26), "locality"),
        ((0, 29), "ownership"),
        ((0, 30), "session_id"),
        ((0, 33), "lookahead_token_ids"),
    ],
    "sglang": [
        ((0, 4, 7), "block_hashes"),
        ((0, 4, 7), "parent_block_hash"),
        ((0, 4, 7), "token_ids"),
        ((0, 4, 7), "block_size"),
        ((0, 4, 7), "lora_id"),
        ((0, 5, 9), "medium"),
        ((0, 5, 20), "cache_salt"),
        ((0, 5, 20), "session_id"),
        ((0, 5, 22), "lora_name"),
    ],
}
_REMOVED: Final[dict[EngineKind, list[tuple[Version, str]]]] = {
    "vllm": [
        ((0, 9), "block_hashes"),
        ((0, 10, 2), "medium"),
        ((0, 20), "group_idx"),
        ((0, 26), "locality"),
        ((0, 29), "ownership"),
    ],
    "sglang": [((0, 4, 7), "block_hashes"), ((0, 5, 9), "medium")],
}
#: Fields without a default: in the map form they are present even when null.
_REQUIRED: Final[dict[EngineKind, frozenset[str]]] = {
    "vllm": frozenset(
        ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name")
    ),
    "sglang": frozenset(("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id")),
}
_KINDS: Final[dict[str, EngineKind]] = {"vllm": "vllm", "sglang": "sglang"}
_OLDEST: Final[dict[EngineKind, Version]] = {"vllm": (0, 9), "sglang": (0, 4, 7)}
_MAPS_SINCE: Final[dict[EngineKind, Version]] = {"vllm": (0, 24), "sglang": (0, 5, 20)}
_REPLAY_TOPIC_SINCE: Final[dict[EngineKind, Version]] = {"vllm": (0, 26), "sglang": (0, 5, 22)}


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """BlockStored with every field that any release has; a form sends those that it knows."""

    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = "GPU"
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = 0
    kv_cache_spec_kind: str | None = "full_attention"
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = "LOCAL"
    ownership: str | None = None
    session_id: str | None = None
    lookahead_token_ids: list[list[int]] | None = None  # per block
    cache_salt: str | None = None


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """BlockRemoved, likewise."""

    block_hashes: list[int | bytes]
    medium: str | None = "GPU"
    group_idx: int | None = 0
    locality: str | None = "LOCAL"
    ownership: str | None = None


class Cleared(msgspec.Struct, frozen=True):
    """AllBlocksCleared: no field in any release."""


Event = Stored | Removed | Cleared


@functools.cache
def _struct(tag: str, fields: tuple[str, ...], required: frozenset[str], maps: bool) -> type[msgspec.Struct]:
    """A class as an engine would declare it; fields that are not required come last, and are null."""
    declared = [(field, Any) if field in required else (field, Any, None) for field in fields]
    return msgspec.defstruct(tag, declared, tag=True, array_like=not maps, omit_defaults=True)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The wire of one release."""

    name: str
    kind: EngineKind
    version: Version
    stored: tuple[str, ...]
    removed: tuple[str, ...]
    maps: bool  # events are tagged maps rather than arrays
    salt_tail: bool  # a salted store has one more slot, with a map of the salt
    batch_rank: bool  # the batch has a third slot for the data-parallel rank
    replay_topic: bool  # replay replies carry a topic frame

    def hash(self, digest: bytes, *, as_bytes: bool = False) -> int | bytes:
        """How this release writes a 32-byte block digest: signed or unsigned 64 bits, or raw bytes on request."""
        if self.kind == "sglang" or self.version < (0, 10, 2):
            return int.from_bytes(digest[:8], "big", signed=True)
        return digest if as_bytes else int.from_bytes(digest[-8:], "big")

    def event(self, event: Event) -> msgspec.Struct:
        """One event as the struct that is packed."""
        required = _REQUIRED[self.kind]
        if isinstance(event, Cleared):
            return _struct("AllBlocksCleared", (), required, self.maps)()
        tag, fields = ("BlockStored", self.stored) if isinstance(event, Stored) else ("BlockRemoved", self.removed)
        values = [getattr(event, field) for field in fields]
        if isinstance(event, Stored) and event.cache_salt and self.salt_tail:
            fields, values = (*fields, "metadata"), [*values, {"cache_salt": event.cache_salt}]
        return _struct(tag, fields, required, self.maps)(*values)

    def batch(self, ts: float, events: Sequence[Event], rank: int | None = 0) -> bytes:
        """The payload of one engine step: `[ts, events, rank]`, the outer array in every release."""
        value: list[Any] = [ts, [self.event(event) for event in events]]
        if self.batch_rank:
            value.append(rank)
        return msgspec.msgpack.encode(value)


def form(name: str) -> Form:
    """The form of a release such as `vllm-0.13` or `sglang-0.5.22`. Raises ValueError for anything else."""
    engine, _, number = name.partition("-")
    kind = _KINDS.get(engine)
    try:
        version = tuple(int(part) for part in number.split("."))
    except ValueError:
        version = ()
    if kind is None or not version:
        raise ValueError(
            f"{name!r} is no release: give vllm-VERSION or sglang-VERSION, as in vllm-0.33 or sglang-0.5.9"
        )
    if version < _OLDEST[kind]:
        oldest = ".".join(map(str, _OLDEST[kind]))
        raise ValueError(f"{name!r} published no KV events: the oldest form is {kind}-{oldest}")
    return Form(
        name=name,
        kind=kind,
        version=version,
        stored=tuple(field for since, field in _STORED[kind] if version >= since),
        removed=tuple(field for since, field in _REMOVED[kind] if version >= since),
        maps=version >= _MAPS_SINCE[kind],
        salt_tail=kind == "sglang" and (0, 5, 18) <= version < (0, 5, 20),
        batch_rank=kind == "sglang" or version >= (0, 9, 1),
        replay_topic=version >= _REPLAY_TOPIC_SINCE[kind],
    )
