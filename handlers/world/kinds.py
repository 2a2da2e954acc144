"""Which kinds the world keeps, and as what. A system that reads a new kind adds its row here.

`shape` grows when a Struct gets a field that older events cannot have; the leader then appends the objects again.

Rules: design.md section 2, "Shapes".
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from crds import cachebackend, core, inferencecache, kernelcache, kvcache
from handlers.kernelcache import config


class Kind(NamedTuple):
    """`judge` says in one line what is wrong with an object that cannot be used, "" for one that can: the world then
    keeps the last good one, and the line beside it."""

    struct: type[msgspec.Struct]
    shape: int
    judge: Callable[[Any], str] | None = None


def usable(value: Any) -> str:
    """What decodes can be used; of what does not, the last good one stays."""
    return ""


KINDS: Final[dict[str, Kind]] = {
    inferencecache.CACHE_POLICIES: Kind(inferencecache.CachePolicy, 1, usable),
    inferencecache.CACHE_TENANTS: Kind(inferencecache.CacheTenant, 1, usable),
    cachebackend.CACHE_BACKENDS: Kind(cachebackend.CacheBackend, 1),
    core.PODS: Kind(core.Pod, 1),
    core.SERVICES: Kind(core.Service, 1),
    core.DEPLOYMENTS: Kind(core.Deployment, 1),
    core.REPLICA_SETS: Kind(core.ReplicaSet, 1),
    core.AUTOSCALERS: Kind(core.HorizontalPodAutoscaler, 1),
    core.NODES: Kind(core.Node, 1),
    core.CONFIG_MAPS: Kind(core.ConfigMap, 1, config.judge),
    kernelcache.NODE_GROUPS: Kind(kernelcache.KernelCacheNodeGroup, 1),
    kernelcache.NODES: Kind(kernelcache.KernelCacheNode, 1),
    kernelcache.CAPTURES: Kind(kernelcache.KernelCacheCapture, 1),
    kernelcache.CACHES: Kind(kernelcache.KernelCache, 1),
    kvcache.BACKENDS: Kind(kvcache.KVCacheBackend, 1),
    kvcache.POOLS: Kind(kvcache.KVCachePool, 1),
    kvcache.BINDINGS: Kind(kvcache.KVCachePoolBinding, 1),
}


def decode(kind: str, document: dict[str, Any]) -> tuple[msgspec.Struct | None, str]:
    """The narrow Struct, or None and one line that says why it is none."""
    try:
        return msgspec.convert(document, KINDS[kind].struct), ""
    except (msgspec.ValidationError, RecursionError) as error:
        return None, str(error)
