"""The systems that this program knows. A new one is a line here.

Rules: design.md section 6, last paragraph.
"""

from collections.abc import Mapping

from handlers.cachebackend import admit
from handlers.cachebackend.inject import Options
from handlers.cachebackend.system import CacheBackends
from handlers.system import Admitter, System


def systems() -> list[System]:
    return [CacheBackends()]


def admitters(options: Options) -> Mapping[str, Admitter]:
    """Path of the webhook -> who answers."""
    return {
        "/mutate--v1-pod": admit.Pods(options),
        "/mutate-inferencecache-io-v1alpha1-cachebackend": admit.Defaults(),
        "/validate-inferencecache-io-v1alpha1-cachebackend": admit.Validation(),
    }
