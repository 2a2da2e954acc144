"""The systems that this program knows. A new one is a line in each list here.

Rules: design.md section 6, last paragraph.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers.cachebackend import admit
from handlers.cachebackend.inject import Options
from handlers.cachebackend.system import CacheBackends
from handlers.kernelcache import admit as kernelcache
from handlers.kernelcache import inject as caching
from handlers.kernelcache import names
from handlers.kernelcache.system import KernelCaches
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


def cache_options(values: flags.Values) -> caching.Options:
    return caching.Options(
        linker_image=values["kernel-cache-linker-image"],
        kserve_namespace=values["kserve-namespace"],
        image_volumes=values["image-volumes"],
    )


class Hook(NamedTuple):
    """One webhook: where API servers call it, who answers, and for which kind and operations it is called."""

    path: str
    admitter: Admitter
    kind: str
    operations: tuple[str, ...]
    mutating: bool


def systems() -> list[System]:
    return [CacheBackends(), KernelCaches()]


def hooks(options: Options, caches: caching.Options = caching.Options()) -> list[Hook]:  # noqa: B008 - immutable
    """In the order in which API servers call them: mutating ones first, each list by name."""
    written = ("CREATE", "UPDATE")
    return [
        Hook("/mutate--v1-pod", admit.Pods(options), core.PODS, ("CREATE",), True),
        Hook("/mutate-kernelcache-pods", kernelcache.Pods(caches), core.PODS, ("CREATE",), True),
        Hook("/mutate-inferencecache-io-v1alpha1-cachebackend", admit.Defaults(), CACHE_BACKENDS, written, True),
        Hook("/validate-inferencecache-io-v1alpha1-cachebackend", admit.Validation(), CACHE_BACKENDS, written, False),
    ]


def admitters(options: Options, caches: caching.Options) -> Mapping[str, Admitter]:
    """Path of the webhook -> who answers."""
    return {one.path: one.admitter for one in hooks(options, caches)}
