"""Which adapter wires which pair. One line per module; see base for what an adapter is."""

from typing import Final

from handlers.cachebackend.adapters import sglang_hicache, sglang_lmcache, vllm_lmcache
from handlers.cachebackend.adapters.base import Adapter

ADAPTERS: Final[dict[tuple[str, str], Adapter]] = {
    ("VLLM", "LMCache"): vllm_lmcache.inject,
    ("SGLang", "LMCache"): sglang_lmcache.inject,
    ("SGLang", "SGLangHiCache"): sglang_hicache.inject,
}

#: The engine container's name where a Pod has several.
ENGINES: Final = {"VLLM": "vllm", "SGLang": "sglang"}
