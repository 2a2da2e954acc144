"""Bytes of KV events as every released version of vLLM and SGLang writes them.

Built from the description of each version (tests/unit/kvevents/data/kv-event-schemas.json), so that a version added
there without a shape here fails. One `Said` describes what happened; each form writes the part of it that it can.
"""

import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

DATA = pathlib.Path(__file__).parents[1] / "unit" / "kvevents" / "data"
SCHEMAS: dict[str, Any] = json.loads((DATA / "kv-event-schemas.json").read_text())
FIXTURES: dict[str, Any] = json.loads((DATA / "kv-event-fixtures.json").read_text())

STORED: dict[str, Any] = {
    "block_hashes": [1111, 2222],
    "parent_block_hash": 999,
    "token_ids": list(range(100, 132)),
    "block_size": 16,
    "lora_id": 7,
    "medium": "GPU",
    "lora_name": "sql",
    "extra_keys": [["sql", ["img-1", -2]], None],
    "group_idx": 1,
    "kv_cache_spec_kind": "full_attention",
    "kv_cache_spec_sliding_window": 128,
    "locality": "LOCAL",
    "ownership": "engine",
    "session_id": "s1",
    "lookahead_token_ids": [[116, 117], [132, 133]],
    "cache_salt": "tenant-a",
}
REMOVED: dict[str, Any] = {
    "block_hashes": [1111],
    "medium": "GPU",
    "group_idx": 1,
    "locality": "LOCAL",
    "ownership": "engine",
}

_VLLM_SLOTS = list(STORED)[:11]
_VLLM_MAP = [*_VLLM_SLOTS]


class Form(NamedTuple):
    """How one version writes an event: as an array of named slots, or as a map of named keys."""

    fields: tuple[str, ...]
    is_map: bool = False
    salt_tail: bool = False  # SGLang 0.5.18-0.5.19: a map in the slot behind the medium, when salted

    def write(self, tag: str, said: dict[str, Any]) -> Any:
        if self.is_map:
            return {"type": tag} | {name: said[name] for name in self.fields}
        tail = [{"cache_salt": said["cache_salt"]}] if self.salt_tail else []
        return [tag, *(said[name] for name in self.fields), *tail]


def _array(slots: int, names: list[str]) -> Form:
    return Form(tuple(names[: slots - 1]))


def _vllm_map(*more: str) -> Form:
    return Form((*_VLLM_MAP, *more), is_map=True)


_SGLANG_MAP = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")

STORED_FORMS: dict[str, dict[str, list[Form]]] = {
    "vllm": {
        "0.9.0-0.10.1.1": [_array(6, _VLLM_SLOTS)],
        "0.10.2-0.13.x": [_array(7, _VLLM_SLOTS)],
        "0.14.0-0.16.x": [_array(8, _VLLM_SLOTS)],
        "0.17.0-0.19.x": [_array(9, _VLLM_SLOTS)],
        "0.20.0-0.21.x": [_array(10, _VLLM_SLOTS)],
        "0.22.0-0.23.x": [_array(12, _VLLM_SLOTS)],
        "0.24.0-0.25.x": [_vllm_map()],
        "0.26.0-0.28.x": [_vllm_map("locality")],
        "0.29.0": [_vllm_map("locality", "ownership")],
        "0.30.0-0.32.x": [_vllm_map("locality", "ownership", "session_id")],
        "0.33.0": [_vllm_map("locality", "ownership", "session_id", "lookahead_token_ids")],
    },
    "sglang": {
        "0.4.7-0.5.8": [_array(6, _VLLM_SLOTS)],
        "0.5.9-0.5.17": [_array(7, _VLLM_SLOTS)],
        "0.5.18-0.5.19": [_array(7, _VLLM_SLOTS), Form(tuple(_VLLM_SLOTS[:6]), salt_tail=True)],
        "0.5.20-0.5.21": [Form((*_SGLANG_MAP, "cache_salt", "session_id"), is_map=True)],
        "0.5.22+": [Form((*_SGLANG_MAP, "cache_salt", "session_id", "lora_name"), is_map=True)],
    },
}

_REMOVED_SLOTS = list(REMOVED)[:3]
REMOVED_FORMS: dict[str, dict[str, Form]] = {
    "vllm": {
        "0.9.0-0.10.1.1": _array(2, _REMOVED_SLOTS),
        "0.10.2-0.19.x": _array(3, _REMOVED_SLOTS),
        "0.20.0-0.23.x": _array(4, _REMOVED_SLOTS),
        "0.24.0-0.25.x": Form(tuple(_REMOVED_SLOTS), is_map=True),
        "0.26.0": Form((*_REMOVED_SLOTS, "locality"), is_map=True),
        "0.29.0+": Form((*_REMOVED_SLOTS, "locality", "ownership"), is_map=True),
    },
    "sglang": {
        "0.4.7-0.5.8": _array(2, _REMOVED_SLOTS),
        "0.5.9-0.5.19": _array(3, _REMOVED_SLOTS),
        "0.5.20+": Form(tuple(_REMOVED_SLOTS[:2]), is_map=True),
    },
}

CLEARED_FORMS: dict[str, Any] = {
    "0.9.0-0.23.x": ["AllBlocksCleared"],
    "0.24.0+": {"type": "AllBlocksCleared"},
}

BATCH_FORMS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "0.9.0": lambda events: [1700000000.25, events],
    "0.9.1+": lambda events: [1700000000.25, events, 3],
}

encode = msgspec.msgpack.encode


def payload(*events: Any, rank: int | None = 0, ts: float = 1700000000.25) -> bytes:
    """One batch of already shaped events."""
    return encode([ts, list(events), rank])
