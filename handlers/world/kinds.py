"""Which kinds the world keeps, and as what. A system that reads a new kind adds its row here.

`shape` grows when a Struct gets a field that older events cannot have; the leader then appends the objects again.

Rules: design.md section 2, "Shapes".
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from crds import cachebackend, core, inferencecache, kernelcache, kvcache, schema
from handlers import tokens
from handlers.cachebackend import secrets
from handlers.kernelcache import config
from handlers.world.state import Rest


class Kind(NamedTuple):
    """`judge` says in one line what is wrong with an object that cannot be used, "" for one that can: the world then
    keeps the last good one, and the line beside it. `hide` puts tokens where an operator's values stand that somebody
    will need: `values` finds them again."""

    struct: type[msgspec.Struct]
    shape: int
    judge: Callable[[Any], str] | None = None
    hide: Callable[[dict[str, Any], tokens.Hider], None] = lambda document, hider: None


def usable(value: Any) -> str:
    """What decodes can be used; of what does not, the last good one stays."""
    return ""


KINDS: Final[dict[str, Kind]] = {
    inferencecache.CACHE_POLICIES: Kind(inferencecache.CachePolicy, 1, usable),
    inferencecache.CACHE_TENANTS: Kind(inferencecache.CacheTenant, 2, usable),
    cachebackend.CACHE_BACKENDS: Kind(cachebackend.CacheBackend, 1, hide=secrets.hide),
    core.PODS: Kind(core.Pod, 1),
    core.SERVICES: Kind(core.Service, 1),
    core.DEPLOYMENTS: Kind(core.Deployment, 1),
    core.REPLICA_SETS: Kind(core.ReplicaSet, 1),
    core.AUTOSCALERS: Kind(core.HorizontalPodAutoscaler, 1),
    core.NODES: Kind(core.Node, 1),
    core.CONFIG_MAPS: Kind(core.ConfigMap, 2, config.judge),
    kernelcache.NODE_GROUPS: Kind(kernelcache.KernelCacheNodeGroup, 1),
    kernelcache.NODES: Kind(kernelcache.KernelCacheNode, 1),
    kernelcache.CAPTURES: Kind(kernelcache.KernelCacheCapture, 1),
    kernelcache.CACHES: Kind(kernelcache.KernelCache, 1),
    kvcache.BACKENDS: Kind(kvcache.KVCacheBackend, 1),
    kvcache.POOLS: Kind(kvcache.KVCachePool, 1),
    kvcache.BINDINGS: Kind(kvcache.KVCachePoolBinding, 1),
}


#: Alone in what is told of an object that does not decode: why, and state.Rest. No Struct decodes from it.
UNREADABLE: Final = "unreadable"


class _Unreadable(Rest, frozen=True):
    problem: str = ""


def decode(kind: str, document: dict[str, Any]) -> tuple[msgspec.Struct | None, str]:
    """The narrow Struct, or None and one line that says why it is none."""
    if (found := _unreadable(document)) is not None:
        return None, found.problem
    try:
        return msgspec.convert(document, KINDS[kind].struct), ""
    except (msgspec.ValidationError, RecursionError) as error:
        return None, schema.line(error)


def rest(document: dict[str, Any]) -> Rest | None:
    """Of what is told of an object that does not decode."""
    found = _unreadable(document)
    return None if found is None else Rest(found.generation, found.deleting, found.status)


def unreadable(problem: str, rest: Rest) -> dict[str, Any]:
    return {UNREADABLE: {"problem": problem, **msgspec.to_builtins(rest)}}


def _unreadable(document: dict[str, Any]) -> _Unreadable | None:
    if UNREADABLE not in document or len(document) > 1:
        return None
    try:
        return msgspec.convert(document[UNREADABLE], _Unreadable)
    except msgspec.ValidationError:
        return None


def hidden(kind: str, document: dict[str, Any], hider: tokens.Hider) -> dict[str, Any]:
    """What is told of an object that decodes: tokens in place of values. The document may be changed."""
    KINDS[kind].hide(document, hider)
    found: dict[str, Any] = hider.texts(document)
    return found


def values(kind: str, document: dict[str, Any]) -> dict[str, str]:
    """token -> value, of an object as the API server has it; of one that does not decode nothing was told."""
    try:
        known = msgspec.to_builtins(msgspec.convert(document, KINDS[kind].struct))
    except (msgspec.ValidationError, RecursionError):
        return {}
    hider = tokens.Hider(str((document.get("metadata") or {}).get("uid", "")))
    hidden(kind, known, hider)
    return hider.values
