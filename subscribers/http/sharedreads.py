"""Live reads of admission: one LIST per kind and namespace for all who ask at the same time, 300 ms at most.

Not here: what is read (subscribers.kubernetes.livereads), when it is needed (admission).

Rules: design.md section 5.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from handlers.world.state import Known

READ: Final = 0.3
#: Lists one kind in one namespace, narrowed. Raises ClusterError.
Live = Callable[[str, str], Awaitable[Mapping[Key, Known]]]


class Unsaid(Exception):
    """What a decision needs could not be read, or has changed meanwhile; one line says what."""


class SharedReads:
    """`lists` and `failed` count what was sent."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.lists = self.failed = 0
        self._reads: dict[tuple[str, str], asyncio.Task[Mapping[Key, Known]]] = {}

    async def objects(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        """Raises Unsaid."""
        task = self._reads.get((kind, namespace))
        if task is None:
            task = asyncio.get_running_loop().create_task(self._limited(kind, namespace))
            self._reads[kind, namespace] = task
            task.add_done_callback(lambda done: self._listed(kind, namespace, done))
        try:
            return await asyncio.shield(task)
        except ClusterError as error:
            raise Unsaid(f"{kind} in namespace {namespace} cannot be read: {error}") from error
        except TimeoutError:
            raise Unsaid(f"{kind} in namespace {namespace} cannot be read within {READ:g} s") from None

    async def _limited(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        self.lists += 1
        async with asyncio.timeout(READ):
            return await self.live(kind, namespace)

    def _listed(self, kind: str, namespace: str, done: asyncio.Task[Mapping[Key, Known]]) -> None:
        del self._reads[kind, namespace]
        if not done.cancelled() and done.exception() is not None:
            self.failed += 1
