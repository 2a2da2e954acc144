"""Names that the contract fixes: labels, annotations, volumes, containers, paths, environment. Values never change.

Rules: seeds 000, 001; spec/kernelcache.md sections 3, 6, 7.
"""

from typing import Final

HANDLER: Final = "kernelcache"

# Of a serving Pod.
SERVICE: Final = "serving.kserve.io/inferenceservice"
SUPPORTED: Final = "serving.kserve.io/kernelcache-supported"
SIDECAR_INJECTION: Final = "serving.kserve.io/kernelcache-sidecar-injection"
NODE_GROUP: Final = "serving.kserve.io/kernelcache-nodegroup"
SOURCE_URI: Final = "internal.serving.kserve.io/storage-initializer-sourceuri"
REVISION: Final = "pod-template-hash"
LLM_NAME: Final = "app.kubernetes.io/name"
LLM_PART_OF: Final = "app.kubernetes.io/part-of"
LLM_PART: Final = "llminferenceservice"
RUNTIME_CONTAINERS: Final = ("kserve-container", "main")

# Put on a Pod.
USAGE: Final = "internal.serving.kserve.io/kernelcache-usage"
REPORTER_SECRET: Final = "internal.serving.kserve.io/kernelcache-reporter-secret"
#: Ours: nodes that the preferred affinity names, so that a second pass finds it again.
PREFERRED: Final = "warmlog.io/kernelcache-preferred-nodes"

SOURCE_VOLUME: Final = "kernel-cache-source"
SOURCE_MOUNT: Final = "/var/run/gkm/kernel-cache"
RUNTIME_VOLUME: Final = "kernel-cache-runtime-"
LINKER: Final = "kernel-cache-linker"

SIDECAR: Final = "mcv"
SIDECAR_VOLUME: Final = "mcv-cache-"
SIDECAR_CACHE: Final = "/workspace/cache"
REPORTER_VOLUME: Final = "mcv-reporter-access"
REPORTER_MOUNT: Final = "/var/run/secrets/mcv-reporter"
REGISTRY_VOLUME: Final = "mcv-registry-access"
REGISTRY_MOUNT: Final = "/var/run/secrets/mcv-registry"
CAPTURE_CONFIG: Final = "MCV_CAPTURE_CONFIG"

# Paths.
CACHE_ROOT: Final = "VLLM_CACHE_ROOT"
DEFAULT_ROOT: Final = "/root/.cache/vllm"
VLLM_TREE: Final = "io.vllm.cache"
TRITON_TREE: Final = "io.triton.cache"
TREES: Final = (VLLM_TREE, TRITON_TREE)

CONFIG_MAP: Final = "inferenceservice-config"
CONFIG_KEY: Final = "kernelcache"
