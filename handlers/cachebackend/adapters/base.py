"""What an adapter is: one module per pair of runtime and cache that edits an engine's Pod.

A new pair is a new module with `inject`, its row in `handlers.cachebackend.matrix` and its line in `adapters.ADAPTERS`.
An adapter edits the Pod that it is given, or raises `Declined` and leaves it to be thrown away: there is no half
injection.

Rules: seed 004, "Engine-side contract"; spec/inferencecache.md section 6.5.
"""

from typing import NamedTuple, Protocol

from crds.cachebackend import CacheBackendSpec
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


class Adapter(Protocol):
    """`inject(pod, engine, spec, remote)`: `engine` is the container in `pod`, `remote` None for host memory only."""

    def __call__(self, pod: Object, engine: Object, spec: CacheBackendSpec, remote: Remote | None) -> None: ...
