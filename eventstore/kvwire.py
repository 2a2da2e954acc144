"""The bytes of `WARMLOG_KV`: what one engine replica holds, as MessagePack columns of packed keys.

A message is an array whose first item is its kind. Every kind starts with the same five facts: wire version, Pod uid,
session, n. `n` counts the messages of a session from 0 without holes, heartbeats included.

    begin  a keyframe starts; the first begin of a session is the session's start and its stream sequence the rank
    ops    changes since the last message, as states: per key the final set of tiers (0 = not held any more)
    chunk  a part of a keyframe: at most 4,096 keys and the tiers they are held in at the moment of sending
    end    the keyframe is complete; count and sum of the keys held now
    beat   a heartbeat: count and sum of the keys held now, engine statistics when there are some
    bye    the session ended: the subscriber stopped or the engine is gone

Tenant and replica are read from the subject alone. Not here: who may publish, what a reader makes of it
(handlers/prefixindex). A payload that does not decode raises `WireError` and changes nothing.

Rules: design.md section 3.
"""

import sys
from array import array
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

VERSION: Final = 1
MAX_KEYS: Final = 4096
MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF

#: Bits of a key's tiers byte. 0 means: not held.
T1: Final = 1  # the engine's own accelerator memory
T2: Final = 2  # host memory or a local disk beside the engine
T3: Final = 4  # a remote store

Coverage = Literal["complete", "partial"]
FarewellReason = Literal["stopped", "gone", "fenced"]


class WireError(ValueError):
    """A payload that is not ours, is damaged, or is of a newer wire version."""


class Group(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Keys of one adapter and one block size: `keys` is 8 little-endian bytes a key, `tiers` one byte a key."""

    adapter: str
    size: int  # tokens per block
    keys: bytes
    tiers: bytes


class Stats(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the engine's own metrics said at `at` (seconds since the epoch). Ratios are 0..1, tokens are lifetime."""

    at: float
    memory_bytes: int = 0
    hit_rate: float = 0.0
    pressure: float = 0.0
    t2_hit_tokens: int = 0
    t2_query_tokens: int = 0


class Message(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=False):
    """The facts that every kind starts with."""

    version: int
    uid: str
    session: str
    n: int


class Begin(Message, frozen=True, tag="begin"):
    frame: int  # counts the keyframes of a session from 0
    rank: int  # stream sequence of the session's first begin; 0 in that begin itself
    model: str
    scheme: str
    coverage: Coverage
    reason: str  # why this keyframe is sent: start, restart, gap, asked, interval, outage, cleared …
    settings: dict[str, str] = {}


class Ops(Message, frozen=True, tag="ops"):
    groups: list[Group]


class Chunk(Message, frozen=True, tag="chunk"):
    frame: int
    groups: list[Group]


class End(Message, frozen=True, tag="end"):
    frame: int
    coverage: Coverage
    count: int
    sum: int  # of all keys held, modulo 2**64; a key held under two adapters counts twice


class Beat(Message, frozen=True, tag="beat"):
    coverage: Coverage
    count: int
    sum: int
    stats: Stats | None = None


class Bye(Message, frozen=True, tag="bye"):
    reason: FarewellReason


AnyMessage = Begin | Ops | Chunk | End | Beat | Bye

_decoder = msgspec.msgpack.Decoder(AnyMessage)
_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode


def decode(payload: bytes) -> AnyMessage:
    """One message. Raises WireError with a line that says what is wrong."""
    try:
        message = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"not a WARMLOG_KV message: {error}") from error
    if message.version != VERSION:
        raise WireError(f"wire version {message.version}, this program reads {VERSION}: upgrade the older side")
    return message


def pack_keys(keys: Iterable[int]) -> bytes:
    """Keys (0..2**64-1) as 8 little-endian bytes each."""
    packed = array("Q", keys)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_keys(packed: bytes) -> "array[int]":
    """The inverse of `pack_keys`. Raises WireError when the length is no multiple of 8."""
    keys = array("Q")
    try:
        keys.frombytes(packed)
    except ValueError as error:
        raise WireError(f"key column of {len(packed)} bytes is not a multiple of 8") from error
    if sys.byteorder == "big":
        keys.byteswap()
    return keys


class Control(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server tells a subscriber, as JSON on `wlkv.ctl.<tenant>.<replica>` or in an intake answer."""

    order: Literal["keyframe", "fenced"]
    session: str  # the session that is addressed; any other ignores it
    reason: str = ""
