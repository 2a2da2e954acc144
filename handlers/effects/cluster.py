"""What effects need of a Kubernetes API, and how it says no.

Rules: spec/kubernetes.md section 4; upstream's status reasons.
"""

from typing import NamedTuple, Protocol

from handlers.outcome import Key, Object

MANAGER = "warmlog"


class Written(NamedTuple):
    """The object after a write."""

    uid: str
    resource_version: str
    generation: int


class ClusterError(Exception):
    """An answer that is no success, or none at all (`code` 0). `retry_after` in seconds, when the server said one."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after = code, reason, message, retry_after

    @property
    def passing(self) -> bool:
        """Worth trying again as it is: no answer, overload, a server's own trouble. A refusal is final until the world
        changes; a conflict means that it has."""
        return self.code in (0, 408, 429) or self.code >= 500


class Cluster(Protocol):
    """Every call has a deadline of its own and raises ClusterError."""

    async def get(self, key: Key) -> Object | None: ...

    async def apply(self, key: Key, body: Object, *, force: bool = True) -> Written:
        """Server-side apply as MANAGER."""
        ...

    async def status(self, key: Key, body: Object) -> Written:
        """Replace the status subresource of one object, given whole with uid and resourceVersion."""
        ...

    async def patch(self, key: Key, body: Object) -> Written:
        """A merge patch; metadata.uid and metadata.resourceVersion in it are preconditions."""
        ...

    async def replace(self, key: Key, body: Object) -> Written:
        """The whole object, with the resourceVersion that was read."""
        ...

    async def create(self, key: Key, body: Object) -> Written: ...

    async def delete(self, key: Key, *, uid: str, resource_version: str = "") -> None:
        """With preconditions; foreground or background is the server's default. Gone already is success."""
        ...
