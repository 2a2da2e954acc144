"""Area kv_events: bytes of engine batches through decode.py and table.py, seen as what a server is told.

The reference reports adds and evictions; Warmlog tells final states. A key told as held is an add in its best tier, a
key told as not held an eviction. Cumulative token counts are no part of our wire: the table's trace gives them.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from eventstore import kvwire
from handlers.prefixindex import keys
from subscribers.kvevents import batch, decode, table
from tests.conformance import forms

_TIERS = {kvwire.T1: "T1", kvwire.T2: "T2", kvwire.T3: "T3"}


class Depths:
    """How many tokens lie up to the end of each block."""

    def __init__(self) -> None:
        self.tokens: dict[int, int] = {}

    def chained(self, parent: int | None, chain: Sequence[int], size: int) -> None:
        depth = 0 if parent is None else self.tokens[parent]
        for key in chain:
            depth += size
            self.tokens[key] = depth


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "engine_hash" in given:
        forms.only(given, "engine_hash")
        return {"key_hex": _spelled(given["engine_hash"])}
    forms.only(given, "batch", "batches", "l2", "adapters")
    batches = [given["batch"]] if "batch" in given else given["batches"]
    depths = Depths()
    settings = table.Settings(
        ignore_block_removed=given.get("l2", False),
        lora_adapter_names={int(number): name for number, name in given.get("adapters", {}).items()},
    )
    here = table.Table(settings, trace=depths)
    adds: list[dict[str, Any]] = []
    evictions: list[dict[str, Any]] = []
    error, ts = False, 0.0
    for sent in batches:
        decoded = decode.decode(msgspec.msgpack.encode(sent))
        error = error or any(problem.kind != "unknown-tag" for problem in decoded.problems)
        ts = decoded.ts
        here.apply_batch(decoded.events, ts)
        clear = here.take_clear()
        if clear is not None:
            assert clear.everything
            evictions.append({"type": "ALL_CLEARED"})
        for group in here.take():
            _tell(group, depths, adds, evictions)
    held = list(here.each())
    assert (here.count, here.sum) == (len(held), sum(hold.key for hold in held) & kvwire.MASK64)
    return {"adds": adds, "evictions": evictions, "error": error, "timestamp_us": round(ts * 1_000_000)}


def _tell(group: kvwire.Group, depths: Depths, adds: list[dict[str, Any]], evictions: list[dict[str, Any]]) -> None:
    for key, tiers in zip(kvwire.unpack_keys(group.keys), group.tiers, strict=True):
        named = keys.to_wire(key).hex()
        if tiers:
            best = _TIERS[tiers & -tiers]
            tokens = depths.tokens[key]
            adds.append({"prefix_hash_hex": named, "token_count": tokens, "tier": best, "adapter_id": group.adapter})
        else:
            evictions.append({"type": "PREFIX_EVICTED", "prefix_hash_hex": named})


def _spelled(engine_hash: int) -> str:
    """An engine's hash after its way through the wire, as bytes."""
    sent = [0, [["BlockRemoved", [engine_hash]]]]
    (event,) = decode.decode(msgspec.msgpack.encode(sent)).events
    assert isinstance(event, batch.Removed)
    return batch.hash_bytes(event.hashes[0]).hex()
