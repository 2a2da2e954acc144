"""Which runtime goes with which cache, which remote tier each pair can reach, and what its users may not touch.

One row per pair. The storage provider gives a binding (a protocol and an address), the pair says which it accepts; both
halves know nothing of each other.

Rules: seed 004, "Cache hierarchy and ownership", "Reserved declarations"; spec/inferencecache.md sections 6.3, 6.4.
"""

from typing import Final, Literal, NamedTuple

from crds.cachebackend import CacheBackendSpec

Binding = Literal["lm", "mooncakestore", "resp"]


class Pair(NamedTuple):
    """`bindings` are the remote protocols that the engine side can speak; host memory alone is always possible."""

    runtime: str
    type: str
    bindings: frozenset[Binding]
    reserved_args: tuple[str, ...]
    reserved_env: tuple[str, ...]
    scheme: str  # hash scheme of the engine's KV events

    def __str__(self) -> str:
        return f"{self.runtime.lower()}/{self.type}"


PAIRS: Final = (
    Pair(
        "VLLM",
        "LMCache",
        frozenset(("lm", "mooncakestore")),
        ("--kv-transfer-config",),
        ("LMCACHE_REMOTE_URL", "VLLM_USE_V1", "INFERENCECACHE_FAIL_OPEN", "PYTHONHASHSEED"),
        "vllm",
    ),
    Pair(
        "SGLang",
        "LMCache",
        frozenset(("resp",)),
        ("--enable-lmcache", "--lmcache-config-file"),
        ("LMCACHE_USE_EXPERIMENTAL", "INFERENCECACHE_FAIL_OPEN"),
        "sglang",
    ),
    Pair(
        "SGLang",
        "SGLangHiCache",
        frozenset(),
        (
            "--enable-hierarchical-cache",
            "--hicache-size",
            "--hicache-ratio",
            "--hicache-write-policy",
            "--hicache-io-backend",
            "--hicache-mem-layout",
        ),
        (),
        "sglang",
    ),
)

#: provider -> the binding that it gives, and the scheme that its endpoint may carry.
BINDINGS: Final[dict[str, Binding]] = {"LMCacheServer": "lm", "Mooncake": "mooncakestore", "Redis": "resp"}
SCHEMES: Final[dict[str, str]] = {"LMCacheServer": "lm", "Mooncake": "mooncakestore"}


def pair_of(spec: CacheBackendSpec) -> Pair | None:
    return next((pair for pair in PAIRS if (pair.runtime, pair.type) == (spec.runtime, spec.type)), None)
