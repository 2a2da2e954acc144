"""From the Binding that a Pod names to the store that it joins: Binding, pool, ledger, backend, endpoint.

What is absent is refused here; whether absence is believed (a live read) is the machine's business. Neither the
Binding's phase nor its readiness is looked at.

Rules: spec/worker-gpustack.md section 2, order 6-10; refusals R3-R7.
"""

from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from crds import kvcache, schema
from crds.kvcache import KVCacheBackend, KVCachePool, KVCachePoolBinding
from handlers.kvcachepool import ledger, names
from handlers.kvcachepool.refusal import Refused
from handlers.outcome import Key, Object
from handlers.world.reader import Reader

AT: Final = names.annotation(names.BINDING)
_OBSERVED: Final[Object] = {}
T = TypeVar("T", bound=msgspec.Struct)


class Resolved(NamedTuple):
    """`tenant` is None when the store keeps no ledger."""

    binding: KVCachePoolBinding
    pool: KVCachePool
    backend: KVCacheBackend
    endpoint: str
    tenant: str | None

    @property
    def domain(self) -> str:
        return domain_of(self.binding)

    @property
    def dtype(self) -> str:
        return self.binding.spec.domain.dtype if self.binding.spec.domain else ""


def domain_of(binding: KVCachePoolBinding) -> str:
    return binding.spec.domain.name if binding.spec.domain else "default"


def resolve(name: str, namespace: str, world: Reader) -> Resolved:
    """Raises Refused, naming the object that is missing or not fit."""
    binding = _binding(name, namespace, world)
    pool = _pool(binding, world)
    tenanted = ledger.tenanted(pool)
    backend = _backend(pool, world)
    if not pool.status.client_endpoint:
        detail = f"KVCachePool {pool.metadata.name} has no status.clientEndpoint yet: wait until it is published"
        raise Refused("pool-endpoint", AT, detail)
    tenant = domain_of(binding) if tenanted else None
    return Resolved(binding, pool, backend, pool.status.client_endpoint, tenant)


def _binding(name: str, namespace: str, world: Reader) -> KVCachePoolBinding:
    """R3, R4."""
    found = world.get(kvcache.BINDINGS, namespace, name)
    if found is None:
        detail = (
            f"there is no KVCachePoolBinding {name} in namespace {namespace}: create it, or correct {names.BINDING}"
        )
        raise Refused("binding-absent", AT, detail, missed=(kvcache.BINDINGS,))
    binding: KVCachePoolBinding = _readable(found.value, found.problem, f"KVCachePoolBinding {namespace}/{name}")
    if binding.metadata.deletion_timestamp:
        detail = (
            f"KVCachePoolBinding {namespace}/{name} is being deleted: every write would fail with "
            "TENANT_NOT_REGISTERED; wait and create it again, or name another Binding"
        )
        raise Refused("binding-deleted", AT, detail)
    return binding


def _pool(binding: KVCachePoolBinding, world: Reader) -> KVCachePool:
    """R5."""
    at, name = f"KVCachePoolBinding {binding.metadata.name}", binding.spec.pool
    found = world.get(kvcache.POOLS, "", name)
    if found is None:
        detail = f"{at} names KVCachePool {name or '(none)'}, which does not exist: create it, or correct spec.poolRef"
        raise Refused("pool-absent", AT, detail, missed=(kvcache.POOLS,))
    return current(_readable(found.value, found.problem, f"KVCachePool {name}"), kvcache.POOLS, world)


def _backend(pool: KVCachePool, world: Reader) -> KVCacheBackend:
    """R5."""
    name = pool.spec.backend
    if not name:
        detail = f"KVCachePool {pool.metadata.name} names no backend in spec.backends: recreate it with one"
        raise Refused("backend-unnamed", AT, detail)
    found = world.get(kvcache.BACKENDS, "", name)
    if found is None:
        detail = f"KVCachePool {pool.metadata.name} names KVCacheBackend {name}, which does not exist: create it"
        raise Refused("backend-absent", AT, detail, missed=(kvcache.BACKENDS,))
    return _readable(found.value, found.problem, f"KVCacheBackend {name}")  # type: ignore[no-any-return]


def _readable(value: Any, problem: str, what: str) -> Any:
    if value is None:
        raise Refused("unreadable", AT, f"{what} cannot be read ({problem}): correct it")
    return value


def current(pool: KVCachePool, kind: str, world: Reader) -> KVCachePool:
    """With the status that the world knows: its own last write may be newer than what was observed."""
    status = world.status(Key(kind, "", pool.metadata.name), _OBSERVED)
    if status is _OBSERVED:
        return pool
    return msgspec.structs.replace(pool, status=schema.read(status, kvcache.KVCachePoolStatus))
