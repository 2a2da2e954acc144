"""The systems that this program knows. A new one is a line in each list here.

Rules: design.md section 6, last paragraph.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crds import core, kvcache, modeldeployment
from crds.cachebackend import CACHE_BACKENDS
from crds.inferencecache import CACHE_POLICIES as POLICIES
from crds.inferencecache import CACHE_TENANTS as TENANTS
from handlers.cachebackend import admit
from handlers.cachebackend.inject import Options
from handlers.cachebackend.system import CacheBackends
from handlers.cachepolicy import admit as policing
from handlers.cachepolicy.system import CacheTenants
from handlers.kernelcache import admit as kernelcache
from handlers.kernelcache import inject as caching
from handlers.kernelcache import names
from handlers.kernelcache.system import KernelCaches
from handlers.kvcachepool import admit as joining
from handlers.kvcachepool import names as pooling
from handlers.kvcachepool.inject import Settings
from handlers.kvcachepool.system import KVCachePools
from handlers.system import Admitter, System
from warmlog import VERSION, flags

#: Of the roles and tools that answer admission for Kernel Cache.
CACHE_FLAGS: Final = (
    flags.Flag("kserve-namespace", f"where ConfigMap {names.CONFIG_MAP} lives", caching.Options().kserve_namespace),
    flags.Flag(
        "kernel-cache-linker-image", "image of the init container that links a kernel cache", f"warmlog:{VERSION}"
    ),
    flags.Flag("image-volumes", "whether the cluster has image volumes (Kubernetes 1.35)", "true", flags.boolean),
)
#: Of the roles and tools that answer admission for KV cache pools.
POOL_FLAGS: Final = (
    flags.Flag(
        pooling.SETTING,
        "whether an engine's KV cache dtype is its Binding's: rendered, and refused in a Pod",
        "true",
        flags.boolean,
    ),
    flags.Flag("kv-cache-backend-image", "image of a KVCacheBackend that names none", Settings().backend_image),
)


def options(told: Mapping[str, Any]) -> tuple[Options, caching.Options, Settings]:
    """What `hooks` takes, from the values of flags or from what the log says of them (texts). What is not told, for a
    log may be older than a flag, is as it was without."""
    caches, pools = caching.Options(), Settings()
    return (
        Options(
            subscriber_image=told.get("kvevent-subscriber-image", ""),
            server=told.get("policy-server-grpc-address", Options().server),
            native_sidecars=_whether(told, "native-sidecars"),
        ),
        caching.Options(
            linker_image=told.get("kernel-cache-linker-image", caches.linker_image),
            kserve_namespace=told.get("kserve-namespace", caches.kserve_namespace),
            image_volumes=_whether(told, "image-volumes"),
        ),
        Settings(
            dtype_owned=_whether(told, pooling.SETTING),
            backend_image=told.get("kv-cache-backend-image", pools.backend_image),
        ),
    )


def _whether(told: Mapping[str, Any], name: str) -> bool:
    value = told.get(name, True)
    return value if isinstance(value, bool) else flags.boolean(value)


class Hook(NamedTuple):
    """One webhook: where API servers call it, who answers, and for which kind and operations it is called."""

    path: str
    admitter: Admitter
    kind: str
    operations: tuple[str, ...]
    mutating: bool


_MUTATE: Final = "/mutate-inferencecache-io-v1alpha1"
_VALIDATE: Final = "/validate-inferencecache-io-v1alpha1"
_POOLS: Final = "/validate-worker-gpustack-ai-v1"


def systems() -> list[System]:
    return [CacheBackends(), CacheTenants(), KernelCaches(), KVCachePools()]


def hooks(
    options: Options,
    caches: caching.Options = caching.Options(),  # noqa: B008 - immutable
    pools: Settings = Settings(),  # noqa: B008 - immutable
) -> list[Hook]:
    """In the order in which API servers call them: mutating ones first, each list by name."""
    written = ("CREATE", "UPDATE")
    return [
        Hook("/mutate-gpustack-worker-kvcache-core-v1-pod", joining.Injection(pools), core.PODS, ("CREATE",), True),
        Hook("/mutate--v1-pod", admit.Pods(options), core.PODS, ("CREATE",), True),
        Hook("/mutate-kernelcache-pods", kernelcache.Pods(caches), core.PODS, ("CREATE",), True),
        Hook(f"{_MUTATE}-cachebackend", admit.Defaults(), CACHE_BACKENDS, written, True),
        Hook(f"{_MUTATE}-cachepolicy", policing.Defaults("mcachepolicy.inferencecache.io"), POLICIES, written, True),
        Hook(f"{_MUTATE}-cachetenant", policing.Defaults("mcachetenant.inferencecache.io"), TENANTS, written, True),
        Hook("/validate-gpustack-worker-kvcache-core-v1-pod", joining.Freeze(), core.PODS, ("UPDATE",), False),
        Hook(f"{_POOLS}-kvcachebackend", joining.backends(pools), kvcache.BACKENDS, written, False),
        Hook(f"{_POOLS}-kvcachepool", joining.pools(pools), kvcache.POOLS, written, False),
        Hook(f"{_POOLS}-kvcachepoolbinding", joining.bindings(pools), kvcache.BINDINGS, written, False),
        Hook(f"{_POOLS}-modeldeployment", joining.deployments(pools), modeldeployment.DEPLOYMENTS, written, False),
        Hook(f"{_VALIDATE}-cachebackend", admit.Validation(), CACHE_BACKENDS, written, False),
        Hook(f"{_VALIDATE}-cachepolicy", policing.Policies(), POLICIES, written, False),
        Hook(f"{_VALIDATE}-cachetenant", policing.Tenants(), TENANTS, written, False),
    ]


def admitters(
    options: Options,
    caches: caching.Options = caching.Options(),  # noqa: B008 - immutable
    pools: Settings = Settings(),  # noqa: B008 - immutable
) -> Mapping[str, Admitter]:
    """Path of the webhook -> who answers."""
    return {one.path: one.admitter for one in hooks(options, caches, pools)}
