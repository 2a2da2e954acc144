"""Keys of token blocks: an XXH3-64 chain over token content, the same on every engine and in every process.

content(block) = XXH3(token ids as u32 little-endian); key[0] = content[0], or XXH3(parent ++ content[0]) below a
parent; key[i] = XXH3(key[i-1] ++ content[i]), all with seed 1337, numbers as u64 little-endian. On the public wire a
key is 8 big-endian bytes. A trailing partial block has no key. Tenant, model, scheme and adapter are no input: they
choose the domain in which a key is looked up.

Blocks that an engine keyed with more than their tokens (cache salt, images, embeddings) chain through `salted`, so
they can never equal the plain chain of the same tokens.

The loop over blocks is done by the native helper (_native.c) where there is one; `chain_in_python` and `one_in_python`
are what it must equal, and what runs without it.

Rules: spec of the reference fingerprint, frozen across languages (golden vectors in tests/conformance);
design.md section 3.
"""

import sys
from array import array
from collections.abc import Sequence
from typing import Final

import xxhash

try:
    from handlers.prefixindex import _native
except ImportError:  # no compiler when this was installed
    _native = None  # type: ignore[assignment]

native = _native

SEED: Final = 1337
_NATIVE_TOKENS: Final = 16  # the smallest block that the helper hashes; smaller ones are rare
_hash = xxhash.xxh3_64_intdigest


def pack_tokens(tokens: Sequence[int]) -> bytes:
    """Token ids as u32 little-endian. Raises OverflowError or TypeError for anything that is no u32."""
    packed = array("I", tokens)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def content(block: bytes) -> int:
    """The content hash of one whole block of packed tokens."""
    return _hash(block, SEED)


def chain(packed: bytes, block_size: int, parent: int | None = None) -> list[int]:
    """Keys of every whole block of packed tokens, below `parent` when there is one."""
    if native is not None and block_size >= _NATIVE_TOKENS:
        return native.chain(packed, block_size, parent)
    return chain_in_python(packed, block_size, parent)


def chain_in_python(packed: bytes, block_size: int, parent: int | None = None) -> list[int]:
    keys: list[int] = []
    width = block_size * 4
    if width <= 0:
        return keys
    view = memoryview(packed)
    for at in range(0, len(packed) - width + 1, width):
        block = _hash(view[at : at + width], SEED)
        parent = block if parent is None else _hash(parent.to_bytes(8, "little") + block.to_bytes(8, "little"), SEED)
        keys.append(parent)
    return keys


def one(block: bytes, parent: int | None = None) -> int:
    """The key of exactly one block of packed tokens: `chain` for the case of nearly all events."""
    if native is not None and len(block) >= 4 * _NATIVE_TOKENS:
        return native.one(block, parent)
    return one_in_python(block, parent)


def one_in_python(block: bytes, parent: int | None = None) -> int:
    key = _hash(block, SEED)
    return key if parent is None else _hash(parent.to_bytes(8, "little") + key.to_bytes(8, "little"), SEED)


def salted(parent: int | None, block: bytes, extra: bytes) -> int:
    """The key of a block that also depends on `extra` (canonical bytes of salt, image or embedding keys)."""
    start = b"" if parent is None else parent.to_bytes(8, "little")
    return _hash(start + _hash(block, SEED).to_bytes(8, "little") + b"\x00extra" + extra, SEED)


def to_wire(key: int) -> bytes:
    return key.to_bytes(8, "big")


def from_wire(key: bytes) -> int:
    """A public key of any length; one that is not 8 bytes is a number that no block has."""
    return int.from_bytes(key, "big") if len(key) == 8 else -1
