"""The four forms in which vLLM's KV events have been on the wire, as one encoder each.

array    batch and events are arrays (before vLLM #42892)
mixed    the batch is an array, its events are tagged maps (releases since)
map      the batch is a map too (a build between releases)
private  as array, with each engine's hashes salted: engines whose PYTHONHASHSEED is not pinned
"""

from typing import Any, Final

import msgspec


class Stored(msgspec.Struct, gc=False):
    hashes: list[int]
    parent: int | None
    tokens: list[int]


class Removed(msgspec.Struct, gc=False):
    hashes: list[int]


class Cleared(msgspec.Struct, gc=False):
    pass


Event = Stored | Removed | Cleared
CLEARED: Final = Cleared()
_BLOCK: Final = 16
_encode = msgspec.msgpack.Encoder().encode


def blocks(event: Event) -> int:
    """Block operations in an event; a clear counts none."""
    return 0 if isinstance(event, Cleared) else len(event.hashes)


class Form(msgspec.Struct, frozen=True):
    events_are_maps: bool
    batch_is_map: bool
    private: bool = False

    def encode(self, time: float, events: list[Event], salt: int) -> bytes:
        spell = self._as_map if self.events_are_maps else self._as_array
        spelled = [spell(event, salt) for event in events]
        if self.batch_is_map:
            return _encode({"ts": time, "events": spelled, "data_parallel_rank": 0})
        return _encode([time, spelled, 0])

    def _as_array(self, event: Event, salt: int) -> list[Any]:
        match event:
            case Stored():
                parent = None if event.parent is None else event.parent ^ salt
                hashes = [block ^ salt for block in event.hashes]
                return ["BlockStored", hashes, parent, event.tokens, _BLOCK, None, "GPU", None]
            case Removed():
                return ["BlockRemoved", [block ^ salt for block in event.hashes], "GPU"]
        return ["AllBlocksCleared"]

    def _as_map(self, event: Event, salt: int) -> dict[str, Any]:
        match event:
            case Stored():
                return {
                    "type": "BlockStored",
                    "block_hashes": [block ^ salt for block in event.hashes],
                    "parent_block_hash": None if event.parent is None else event.parent ^ salt,
                    "token_ids": event.tokens,
                    "block_size": _BLOCK,
                    "lora_id": None,
                    "medium": "GPU",
                    "lora_name": None,
                }
            case Removed():
                hashes = [block ^ salt for block in event.hashes]
                return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU"}
        return {"type": "AllBlocksCleared"}


FORMS: Final = {
    "array": Form(False, False),
    "mixed": Form(True, False),
    "map": Form(True, True),
    "private": Form(False, False, private=True),
}
