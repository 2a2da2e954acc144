"""KV cache pools as a system of the machine: which kinds are watched, so that admission answers from the world.

Backends and pools are not converged here yet.

Rules: handlers/system.py; design.md section 5.
"""

from collections.abc import Iterable

from crds import kvcache
from eventstore import events
from handlers.outcome import NOTHING, Key, Outcome
from handlers.world.reader import Reader
from handlers.world.state import World


class KVCachePools:
    name = "kvcachepool"
    kinds = frozenset((kvcache.BACKENDS, kvcache.POOLS, kvcache.BINDINGS))

    def concerns(self, event: events.Decoded, world: World) -> Iterable[Key]:
        return ()

    def keys(self, world: World) -> Iterable[Key]:
        return ()

    def desired(self, world: Reader, key: Key) -> Outcome:
        return NOTHING
