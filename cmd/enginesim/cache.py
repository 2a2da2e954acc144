"""A prefix cache of token blocks with least-recently-used eviction, leaf first, as the engines' block pools have.

A block is named by a digest over its parent's digest, its tokens and whatever else the engine keys with (adapter,
salt), started from a seed that is random per process: two engines never agree on a digest. There are no reference
counts and no second physical copies. Every use of a path makes its head more recent than its tail, so a parent is
always younger than its children and a leaf is evicted first.

Not here: what is published about it (engine.py). A request that needs more blocks than there are raises TooLong.
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec


class TooLong(ValueError):
    """A request that needs more blocks than the whole cache has."""


class Block(msgspec.Struct, frozen=True, gc=False):
    """One cached block: its digest, the digest of the block before it (None at the root), its tokens."""

    digest: bytes
    parent: bytes | None
    tokens: tuple[int, ...]
    keyed_with: tuple[str, str]  # adapter and salt, empty when there are none


class BlockCache:
    """At most `capacity` blocks of `block_size` tokens, in order of use."""

    def __init__(self, *, capacity: int, block_size: int, seed: bytes) -> None:
        if capacity < 1 or block_size < 1:
            raise ValueError(f"capacity {capacity} and block size {block_size} must be at least 1")
        self.capacity = capacity
        self.block_size = block_size
        self._seed = seed
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._blocks)

    def path(self, tokens: Sequence[int], *, adapter: str = "", salt: str = "") -> list[Block]:
        """Every whole block of `tokens`, held or not. The salt is keyed into the first block only, as engines do."""
        size = self.block_size
        path: list[Block] = []
        parent: bytes | None = None
        for at in range(0, len(tokens) - size + 1, size):
            block = tuple(tokens[at : at + size])
            digest = hashlib.sha256(parent or self._seed)
            digest.update(array("I", block).tobytes())
            digest.update(adapter.encode() + (b"\0" + salt.encode() if at == 0 else b""))
            path.append(Block(digest.digest(), parent, block, (adapter, salt)))
            parent = path[-1].digest
        return path

    def held(self, path: Sequence[Block]) -> int:
        """How many leading blocks of a path are cached. Changes no order: asking is not using."""
        for count, block in enumerate(path):
            if block.digest not in self._blocks:
                return count
        return len(path)

    def begin(self, path: Sequence[Block]) -> int:
        """A request starts: its cached head is in use and cannot be evicted before it. Returns how many blocks hit."""
        if len(path) > self.capacity:
            raise TooLong(f"the request needs {len(path)} blocks of {self.block_size}, the cache has {self.capacity}")
        hits = self.held(path)
        self._use(path[:hits])
        return hits

    def insert(self, blocks: Sequence[Block]) -> list[Block]:
        """Computed blocks enter, oldest blocks make room. Returns the evicted ones in the order of eviction."""
        evicted: list[Block] = []
        for block in blocks:
            if block.digest not in self._blocks and len(self._blocks) >= self.capacity:
                evicted.append(self._blocks.popitem(last=False)[1])
            self._blocks[block.digest] = block
        return evicted

    def finish(self, path: Sequence[Block]) -> None:
        """A request ends: its blocks are freed tail first, so that the shared head stays longest."""
        self._use(path)

    def clear(self) -> int:
        """Forget everything; returns how many blocks there were."""
        count = len(self._blocks)
        self._blocks.clear()
        return count

    def prefixes(self) -> Iterator[list[Block]]:
        """Every maximal path that is held, root first: together they are the exact content."""
        parents = {block.parent for block in self._blocks.values()}
        for block in self._blocks.values():
            if block.digest in parents:
                continue
            path = [block]
            while (parent := path[-1].parent) is not None:
                path.append(self._blocks[parent])
            yield path[::-1]

    def _use(self, path: Sequence[Block]) -> None:
        for block in reversed(path):
            self._blocks.move_to_end(block.digest)
