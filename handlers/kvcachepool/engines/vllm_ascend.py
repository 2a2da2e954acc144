"""vLLM on Ascend: vLLM's file with a connector of its own, and one transport only.

Rules: spec/worker-gpustack.md sections 3.1 and 6.
"""

from typing import Final

from handlers.kvcachepool.engines import vllm
from handlers.kvcachepool.engines.base import Rendered, Store

CONNECTOR: Final = "AscendStoreConnector"


def rendered(store: Store) -> Rendered:
    return vllm.rendered(store, CONNECTOR)


ENGINE: Final = vllm.ENGINE._replace(
    name="vllm-ascend",
    render=rendered,
    transports=("ascend",),
    measured="its store client raises NotImplementedError for any other when it starts",
)
