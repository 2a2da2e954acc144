"""What is told of an object that does not decode: why, and what its author's line about it needs.

That is its generation, and its status where that decodes by itself: a condition's time of transition stands there. No
part of it is a fact that anything is decided on. Slow, and only used after the kind's own decoder gave up.

Rules: design.md section 2, "Fold is total", "Privacy".
"""

import functools
from typing import Any

import msgspec

from handlers.outcome import Object
from handlers.tokens import Hider
from handlers.world import kinds
from handlers.world.state import Rest


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None


class _Parts(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


@functools.cache
def _decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Metadata, and the status of the kind where its Struct has one."""
    found = next((one for one in msgspec.structs.fields(kinds.KINDS[kind].struct) if one.name == "status"), None)
    if found is None:
        return msgspec.json.Decoder(_Parts)
    made = msgspec.defstruct("_PartsOf", [("metadata", _Meta, _Meta()), ("status", found.type | None, None)])
    return msgspec.json.Decoder(made)


def told(kind: str, raw: bytes, problem: str, *, most: int) -> Object:
    """`most` bytes; of a larger one the status is left out."""
    parts: Any = _Parts()
    for decoder in (_decoder(kind), msgspec.json.Decoder(_Parts)):
        try:
            parts = decoder.decode(raw)
            break
        except (msgspec.MsgspecError, RecursionError):
            continue
    status = getattr(parts, "status", None)
    shown = {} if status is None else Hider(parts.metadata.uid).texts(msgspec.to_builtins(status))
    if len(msgspec.json.encode(shown)) > most:
        shown = {}
    deleting = parts.metadata.deletion_timestamp is not None
    return kinds.unreadable(problem, Rest(parts.metadata.generation, deleting, shown))
