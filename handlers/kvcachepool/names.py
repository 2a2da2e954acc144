"""Names that the contract fixes: label, annotations, flags, variables, paths. Values never change.

Rules: seed 003; spec/worker-gpustack.md sections 2, 3 and 5.
"""

from typing import Final

PREFIX: Final = "kvcache.gpustack.ai/"
INJECT: Final = f"{PREFIX}inject"  # a label

BINDING: Final = f"{PREFIX}binding"
ENGINE: Final = f"{PREFIX}engine"
MANUFACTURER: Final = f"{PREFIX}manufacturer"
ROLE: Final = f"{PREFIX}role"
CONTAINER: Final = f"{PREFIX}container"
FORWARDED: Final = f"{PREFIX}launch-args-forwarded"
CLIENT_CONFIG: Final = f"{PREFIX}client-config"
INJECTED: Final = f"{PREFIX}injected"
DOMAIN: Final = f"{PREFIX}domain"

ACCEPTED: Final = (BINDING, ENGINE, MANUFACTURER, ROLE, CONTAINER, FORWARDED)
WRITTEN: Final = (CLIENT_CONFIG, INJECTED)

KV_TRANSFER: Final = "--kv-transfer-config"
KV_EVENTS: Final = "--kv-events-config"
DTYPE: Final = "--kv-cache-dtype"
HICACHE_BACKEND: Final = "--hicache-storage-backend"
HICACHE_EXTRA: Final = "--hicache-storage-backend-extra-config"
HIERARCHICAL: Final = "--enable-hierarchical-cache"
OFFLOADING: Final = "--kv-offloading-size"

CONFIG_PATH: Final = "MOONCAKE_CONFIG_PATH"
SGLANG_CONFIG_PATH: Final = "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH"
TENANT: Final = "MOONCAKE_TENANT_ID"
TOGGLES: Final = ("MC_TE_METRIC", "MC_STORE_CLIENT_METRIC_BANDWIDTH")

VOLUME: Final = "gpustack-kvcache-config"
DIRECTORY: Final = "/etc/gpustack/kvcache"
FILE: Final = "mooncake.json"

P2P: Final = "P2PHANDSHAKE"
STAGING: Final = 134_217_728  # bytes of local_buffer_size
SETTING: Final = "model-deployment-kv-cache-dtype-owned"


def annotation(key: str) -> str:
    """The field of an annotation."""
    return f"metadata.annotations[{key}]"
