"""What each engine held when, kept by whoever drives the engines: the truth that answers are judged against.

The driver makes every call to every engine and keeps a second cache of its own per engine life, the simulator's own
`BlockCache` fed with the same calls: so it knows which blocks entered and left, block by block. `check_truth` compares
it with what the engine itself says (GET /truth); a difference is a fault of this harness and ends the run.

A call was sent at t0 and answered at t1: what it stored or evicted happened between the two. A call that was cut off by
a kill may have happened or not: its blocks may be held from t0 on and are never surely held.

A **life** is one process of an engine. Times are seconds of time.monotonic(). Pure.
"""

from array import array
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import msgspec

from enginesim import cache, workload

_SEED = b"oracle"


class Stay(msgspec.Struct):
    """A block in a cache: it entered between added[0] and added[1], and left between left[0] and left[1]."""

    added: tuple[float, float]
    left: tuple[float, float] = (inf, inf)


class Life:
    """One process of an engine: from `ready` (its ports answer) to `ended`."""

    def __init__(self, ready: float, *, capacity: int, block_size: int) -> None:
        self.ready = ready
        self.ended = inf
        self.cache = cache.BlockCache(capacity=capacity, block_size=block_size, seed=_SEED)
        self.stays: dict[bytes, list[Stay]] = {}

    def generated(self, tokens: Sequence[int], max_tokens: int, sent: float, answered: float | None) -> None:
        """A request, and when it was answered: None when it was cut off."""
        path = self.cache.path([*tokens, *workload.continuation(tokens, max_tokens)[:-1]])
        hits = self.cache.begin(path)
        gone = self.cache.insert(path[hits:])
        self.cache.finish(path)
        until = inf if answered is None else answered
        for block in path[hits:]:
            self.stays.setdefault(block.digest, []).append(Stay((sent, until)))
        self._leave((block.digest for block in gone), (sent, until))

    def cleared(self, sent: float, answered: float) -> None:
        """The engine was told to empty its cache and said that it has."""
        self._leave(list(self._held()), (sent, answered))
        self.cache.clear()

    def _leave(self, digests: Iterable[bytes], when: tuple[float, float]) -> None:
        for digest in digests:
            self.stays[digest][-1].left = when

    def _held(self) -> Iterable[bytes]:
        return (digest for digest, stays in self.stays.items() if stays[-1].left[1] == inf)

    def check_truth(self, said: dict[str, Any]) -> None:
        """Compare with GET /truth of a rank that nobody is calling now."""
        mine = {tuple(block.tokens for block in path) for path in self.cache.prefixes()}
        theirs = {tuple(tuple(block) for block in path["blocks"]) for path in said["ranks"][0]}
        if mine != theirs:
            raise AssertionError(f"the harness lost track of an engine: {len(mine)} prefixes here, {len(theirs)} there")

    def prefixes(self) -> list[list[int]]:
        """Prompts that together are all that is held, each with one token more, so that its last block may match."""
        return [[token for block in path for token in block.tokens] for path in self.cache.prefixes()]


class Engine:
    """All lives of one replica."""

    def __init__(self, name: str, *, capacity: int, block_size: int, replay: bool, ring: int) -> None:
        self.name = name
        self.capacity, self.block_size = capacity, block_size
        self.unit = max(16, block_size)  # tokens per block as the index counts them
        self.exact = replay and ring >= 10_000  # a restart of its subscriber must leave it complete
        self.lives: list[Life] = []
        self._naming = cache.BlockCache(capacity=1, block_size=block_size, seed=_SEED)
        self._paths: dict[bytes, list[bytes]] = {}

    @property
    def life(self) -> Life | None:
        """The one that is up now."""
        return self.lives[-1] if self.lives and self.lives[-1].ended == inf else None

    def begins(self, now: float) -> None:
        self.lives.append(Life(now, capacity=self.capacity, block_size=self.block_size))

    def ends(self, now: float) -> None:
        if self.life is not None:
            self.life.ended = now

    def path(self, tokens: Sequence[int]) -> list[bytes]:
        """Digests of a prompt's blocks, in this engine's block size."""
        key = array("I", tokens).tobytes()
        if (found := self._paths.get(key)) is None:
            if len(self._paths) > 5_000:
                self._paths.clear()
            found = self._paths[key] = [block.digest for block in self._naming.path(tokens)]
        return found
