"""The systems that this program knows. A new one is a line in each list here.

Rules: design.md section 6, last paragraph.
"""

from collections.abc import Mapping
from typing import NamedTuple

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers.cachebackend import admit
from handlers.cachebackend.inject import Options
from handlers.cachebackend.system import CacheBackends
from handlers.system import Admitter, System


class Hook(NamedTuple):
    """One webhook: where API servers call it, who answers, and for which kind and operations it is called."""

    path: str
    admitter: Admitter
    kind: str
    operations: tuple[str, ...]
    mutating: bool


def systems() -> list[System]:
    return [CacheBackends()]


def hooks(options: Options) -> list[Hook]:
    """In the order in which API servers call them: mutating ones first, each list by name."""
    written = ("CREATE", "UPDATE")
    return [
        Hook("/mutate--v1-pod", admit.Pods(options), core.PODS, ("CREATE",), True),
        Hook("/mutate-inferencecache-io-v1alpha1-cachebackend", admit.Defaults(), CACHE_BACKENDS, written, True),
        Hook("/validate-inferencecache-io-v1alpha1-cachebackend", admit.Validation(), CACHE_BACKENDS, written, False),
    ]


def admitters(options: Options) -> Mapping[str, Admitter]:
    """Path of the webhook -> who answers."""
    return {one.path: one.admitter for one in hooks(options)}
