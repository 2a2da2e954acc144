"""What an adapter is: one module per pair of runtime and cache that edits an engine's Pod.

A new pair is a new module with `inject`, its row in `handlers.cachebackend.matrix` and its line in `adapters.ADAPTERS`.
An adapter edits the Pod that it is given, or raises `Declined` and leaves it to be thrown away: there is no half
injection.

Rules: seed 004, "Engine-side contract"; spec/inferencecache.md section 6.5.
"""

from typing import NamedTuple, Protocol

from crds.cachebackend import CacheBackendSpec
from handlers import quantity
from handlers.cachebackend.endpoint import Address
from handlers.outcome import Object


class Declined(Exception):
    """The Pod cannot be wired as it is; one line says why, for its author. It is admitted as it came."""

    def __init__(self, check: str, why: str) -> None:
        super().__init__(why)
        self.check = check


class Remote(NamedTuple):
    """A remote tier that engines dial: its protocol and address."""

    binding: str
    address: Address

    @property
    def url(self) -> str:
        return f"{self.binding}://{self.address}"


def host_gib(spec: CacheBackendSpec, *, default: int) -> int:
    """Host memory for the cache in whole GiB, rounded up; the default where none is said, or what was stored before it
    was judged is no amount."""
    memory = spec.lm_cache.host_memory if spec.lm_cache else None
    if memory is None or memory.capacity is None:
        return default
    try:
        gib = quantity.ceil_gib(memory.capacity)
    except quantity.QuantityError:
        return default
    return gib if gib > 0 else default


class Adapter(Protocol):
    """`inject(pod, engine, spec, remote)`: `engine` is the container in `pod`, `remote` None for host memory only."""

    def __call__(self, pod: Object, engine: Object, spec: CacheBackendSpec, remote: Remote | None) -> None: ...
