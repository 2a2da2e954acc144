"""One module per engine: what it is given to join a store, and which keys are then ours.

base · vllm · vllm_ascend · sglang
"""

from typing import Final

from handlers.kvcachepool.engines import sglang, vllm, vllm_ascend
from handlers.kvcachepool.engines.base import Engine

ENGINES: Final[dict[str, Engine]] = {one.name: one for one in (vllm.ENGINE, vllm_ascend.ENGINE, sglang.ENGINE)}
