"""One data-parallel rank of a simulated engine: serves prompts from a prefix cache and publishes what changes.

What is published, and when, follows the engines:
  vLLM    a batch per step; BlockStored covers the consecutive new blocks of a prefill chunk, then every decoded block
          as it fills; one BlockRemoved per evicted block, before the store that needed the room
  SGLang  one BlockStored per page, for a prefill chunk and again at the request's end; removals one by one, from
          0.5.20 grouped per run of a path
Blocks that are reused are not announced again. The key and value of the last sampled token are never computed, so it
fills no block. A cleared cache is announced with AllBlocksCleared; going to sleep empties the cache and says nothing.

Not here: HTTP, sockets (publisher.py). `publish` is where a batch goes; None makes the engine mute, as one without
KV events enabled. Not thread-safe. Bad requests raise ValueError with one line.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from enginesim import cache, forms, workload

_CHUNK: Final = 8192  # tokens of a prefill chunk
_TOKEN_LIMIT: Final = 1 << 32


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a request came to, in tokens and blocks."""

    cached_tokens: int
    token_ids: list[int]
    stored_blocks: int
    evicted_blocks: int
    held_blocks: int
    rank: int


class Counters(msgspec.Struct):
    """Lifetime counters, as the engines' own metrics have them (in tokens, but for requests)."""

    requests: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    generated: int = 0


class Engine:
    """A cache, the release it imitates and the place its batches go to."""

    def __init__(
        self,
        form: forms.Form,
        *,
        model: str,
        block_size: int,
        capacity: int,
        seed: bytes,
        publish: Callable[[bytes], object] | None,
        rank: int = 0,
        wire_rank: int | None = 0,
        bytes_hashes: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.form = form
        self.model = model
        self.rank = rank
        self.cache = cache.BlockCache(capacity=capacity, block_size=block_size, seed=seed)
        self.counters = Counters()
        self.sleep_level = 0
        self._publish = publish
        self._wire_rank = wire_rank
        self._bytes_hashes = bytes_hashes
        self._clock = clock
        self._adapters: dict[str, int] = {}  # adapter ids are counted up per process, in order of loading

    def generate(self, tokens: Sequence[int], max_tokens: int, *, lora: str = "", salt: str = "") -> Answer:
        """Serve one request to its end. Raises ValueError for tokens that are none, or a request that cannot fit."""
        if self.sleep_level:
            raise ValueError("the engine sleeps: wake it up first")
        if not tokens or not all(0 <= token < _TOKEN_LIMIT for token in tokens):
            raise ValueError("token_ids must be a non-empty list of numbers from 0 to 2**32-1")
        if max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        output = workload.continuation(tokens, max_tokens)
        path = self.cache.path([*tokens, *output[:-1]], adapter=lora, salt=salt)
        hits = self.cache.begin(path)
        size = self.cache.block_size
        in_prompt = len(tokens) // size
        # The last prompt token is always computed, for its logits: a fully cached prompt still misses its last block.
        cached = min(hits, (len(tokens) - 1) // size) * size
        evicted = 0
        at = hits
        for end in self._steps(hits, in_prompt, len(path)):
            new = path[at:end]
            gone = self.cache.insert(new)
            evicted += len(gone)
            self._send([*self._removals(gone), *self._stores(new, lora, salt)])
            at = end
        self.cache.finish(path)
        self.counters.requests += 1
        self.counters.prefix_queries += len(tokens)
        self.counters.prefix_hits += cached
        self.counters.generated += max_tokens
        return Answer(
            cached_tokens=cached,
            token_ids=output,
            stored_blocks=len(path) - hits,
            evicted_blocks=evicted,
            held_blocks=len(self.cache),
            rank=self.rank,
        )

    def held_tokens(self, tokens: Sequence[int], *, lora: str = "", salt: str = "") -> int:
        """The truth: how many leading tokens of a prompt are cached now, in whole blocks."""
        return self.cache.held(self.cache.path(tokens, adapter=lora, salt=salt)) * self.cache.block_size

    def reset(self) -> int:
        """Empty the cache and say so; returns how many blocks there were."""
        count = self.cache.clear()
        self._send([forms.Cleared()])
        return count

    def sleep(self, level: int) -> None:
        """The cache is gone and no event says so: an idle scheduler publishes nothing."""
        self.sleep_level = level
        self.cache.clear()

    def wake(self) -> None:
        self.sleep_level = 0

    def _steps(self, hits: int, in_prompt: int, total: int) -> list[int]:
        """After which blocks a batch is published, as growing ends of slices of the path."""
        chunk = max(1, _CHUNK // self.cache.block_size)
        ends = [*range(hits + chunk, in_prompt, chunk), in_prompt] if in_prompt > hits else []
        if self.form.kind == "sglang":
            return [*ends, total] if total > max(in_prompt, hits) else ends
        return [*ends, *range(max(in_prompt, hits) + 1, total + 1)]

    def _send(self, events: list[forms.Event]) -> None:
        if events and self._publish is not None:
            self._publish(self.form.batch(self._clock(), events, self._wire_rank))

    def _hash(self, digest: bytes) -> int | bytes:
        return self.form.hash(digest, as_bytes=self._bytes_hashes)

    def _stores(self, blocks: Sequence[cache.Block], lora: str, salt: str) -> list[forms.Event]:
        runs = [[block] for block in blocks] if self.form.kind == "sglang" else [list(blocks)] if blocks else []
        return [self._stored(run, lora, salt) for run in runs]

    def _stored(self, run: list[cache.Block], lora: str, salt: str) -> forms.Event:
        parent = run[0].parent
        return forms.Stored(
            block_hashes=[self._hash(block.digest) for block in run],
            parent_block_hash=None if parent is None else self._hash(parent),
            token_ids=[token for block in run for token in block.tokens],
            block_size=self.cache.block_size,
            lora_id=self._adapters.setdefault(lora, len(self._adapters) + 1) if lora else None,
            lora_name=lora or None,
            extra_keys=[_extra_keys(block, lora, salt) for block in run],
            cache_salt=salt or None,
        )

    def _removals(self, blocks: Sequence[cache.Block]) -> list[forms.Event]:
        grouped = self.form.kind == "sglang" and self.form.version >= (0, 5, 20)
        runs: list[list[cache.Block]] = []
        for block in blocks:
            if grouped and runs and runs[-1][-1].parent == block.digest:
                runs[-1].append(block)
            else:
                runs.append([block])
        return [forms.Removed(block_hashes=[self._hash(block.digest) for block in run]) for run in runs]


def _extra_keys(block: cache.Block, lora: str, salt: str) -> list[str] | None:
    """What vLLM keyed a block with besides its tokens: the adapter's name, and the salt in the first block only."""
    keys = [lora] if lora else []
    if salt and block.parent is None:
        keys.append(salt)
    return keys or None
