"""KVCachePoolBinding: a namespace's share of a pool, and the domain that it registers with the pool's store.

A domain is one tenant of one master: two Bindings with the same name on the same backend would share blocks and a
quota, in whatever namespaces they are.

Rules: spec/worker-gpustack.md section 1.3.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from crds import kvcache
from crds.kvcache import KVCachePool, KVCachePoolBinding
from handlers import quantity
from handlers.admission.decision import Violation
from handlers.kvcachepool import ledger, names, resolve
from handlers.kvcachepool.inject import Settings
from handlers.kvcachepool.validate.common import LABEL, Found, frozen, size
from handlers.world.reader import Reader
from handlers.world.state import Known

CEILING: Final = "spec.quota.ceiling"
POOL: Final = "spec.poolRef.name"
DOMAIN: Final = "spec.domain"
DTYPE: Final = f"{DOMAIN}.dtype"


def violations(
    new: KVCachePoolBinding, old: KVCachePoolBinding | None, world: Reader, settings: Settings
) -> list[Violation]:
    pool = _pool(new, world)
    if old is None:
        return [*_own(new), *_new(new, pool, world, settings), *_within(new, pool)]
    before = list(_own(old))
    found = [one for one in _own(new) if one not in before]
    if _ceiling(new) != _ceiling(old):
        found += _within(new, pool)
    return [*found, *_changes(new, old)]


def warnings(new: KVCachePoolBinding, world: Reader) -> list[str]:
    """Of a new Binding."""
    pool = _pool(new, world)
    if pool is None:
        return []
    if _no_ledger(pool, world):
        return [f"the store of KVCachePool {pool.metadata.name} keeps no ledger: no quota is in force for this domain"]
    others = {domain for _, domain in _domains(new, pool, world)} - {resolve.domain_of(new)}
    if others and pool.status.ledger is None:
        return [f"whether the store of KVCachePool {pool.metadata.name} keeps domains apart is not known yet"]
    return []


def _own(binding: KVCachePoolBinding) -> Found:
    """What a Binding says by itself."""
    if not binding.spec.pool:
        yield Violation("Required", POOL, "must name a KVCachePool")
    yield from size(_given(binding), CEILING)
    domain = binding.spec.domain
    if domain is None:
        yield Violation("Required", DOMAIN, "must be set: dtype at least")
        return
    if not LABEL.fullmatch(domain.name):
        yield Violation("Invalid", f"{DOMAIN}.name", "must be a DNS label of at most 63 characters", domain.name)
    if domain.block_size is not None and not 0 < domain.block_size < 2**31:
        yield Violation("Invalid", f"{DOMAIN}.blockSize", "must be greater than 0", domain.block_size)
    if not domain.dtype:
        yield Violation("Required", DTYPE, "must be set, as the engine spells it: bfloat16, fp8_e4m3 …")
    elif len(domain.dtype) > 32 or domain.dtype != domain.dtype.lower() or domain.dtype.split() != [domain.dtype]:
        yield Violation("Invalid", DTYPE, "must be lowercase, one word of at most 32 characters", domain.dtype)


def _new(binding: KVCachePoolBinding, pool: KVCachePool | None, world: Reader, settings: Settings) -> Found:
    domain = binding.spec.domain
    if domain is not None and domain.dtype == "auto" and settings.dtype_owned:
        detail = (
            "must be a data type: with auto, engines of one domain may differ, and their blocks are not told apart; "
            f"name one, or switch the setting {names.SETTING} off"
        )
        yield Violation("Invalid", DTYPE, detail, "auto")
    if pool is None:
        if name := binding.spec.pool:
            yield Violation("NotFound", POOL, f"there is no KVCachePool {name}: create it first", name)
        return
    mine = resolve.domain_of(binding)
    held = list(_domains(binding, pool, world))
    for holder, name in held:
        if name == mine:
            detail = (
                f'"{mine}" is held by KVCachePoolBinding {holder} on KVCacheBackend {pool.spec.backend}: choose another'
            )
            yield Violation("Duplicate", f"{DOMAIN}.name", detail, mine)
            return
    others = sorted({name for _, name in held})
    if others and _no_ledger(pool, world):
        detail = (
            f"KVCacheBackend {pool.spec.backend} keeps no ledger and has the domain {', '.join(others)} already: a "
            "second one would not be kept apart; use that domain's Binding, or a backend with multiTenancy"
        )
        yield Violation("Forbidden", DOMAIN, detail)


def _within(binding: KVCachePoolBinding, pool: KVCachePool | None) -> Found:
    ceiling, total = _ceiling(binding), pool.spec.quota.total if pool and pool.spec.quota else None
    if pool is None or ceiling is None or total is None:
        return
    if ceiling > quantity.parse(total):
        detail = f"must not be more than spec.quota.total of KVCachePool {pool.metadata.name}, {total}"
        yield Violation("Invalid", CEILING, detail, str(_given(binding)))


def _changes(new: KVCachePoolBinding, old: KVCachePoolBinding) -> Found:
    yield from frozen(old.spec.pool, new.spec.pool, POOL)
    before, after = old.spec.domain, new.spec.domain
    if before is None or after is None:
        yield from frozen(before, after, DOMAIN)
        return
    yield from frozen(before.name, after.name, f"{DOMAIN}.name")
    yield from frozen(before.block_size, after.block_size, f"{DOMAIN}.blockSize")
    yield from frozen(before.dtype, after.dtype, DTYPE)


def _given(binding: KVCachePoolBinding) -> str | int | None:
    return binding.spec.quota.ceiling if binding.spec.quota else None


def _ceiling(binding: KVCachePoolBinding) -> Fraction | None:
    try:
        given = _given(binding)
        return None if given is None else quantity.parse(given)
    except quantity.QuantityError:
        return None


def _pool(binding: KVCachePoolBinding, world: Reader) -> KVCachePool | None:
    known = world.get(kvcache.POOLS, "", binding.spec.pool) if binding.spec.pool else None
    return resolve.current(known.value, kvcache.POOLS, world) if known is not None and known.value else None


def _domains(binding: KVCachePoolBinding, pool: KVCachePool, world: Reader) -> Iterator[tuple[str, str]]:
    """(holder, domain) of every other Binding on the same backend; whose pool is gone holds nothing."""
    me = (binding.metadata.namespace, binding.metadata.name)

    def beside(known: Known) -> bool:
        other = _pool(known.value, world) if known.value is not None else None
        return other is not None and other.spec.backend == pool.spec.backend

    for key, known in world.select(kvcache.BINDINGS, None, beside):
        if (key.namespace, key.name) != me:
            yield f"{key.namespace}/{key.name}", resolve.domain_of(known.value)


def _no_ledger(pool: KVCachePool, world: Reader) -> bool:
    """Whether the store is known to keep none."""
    found = pool.status.ledger
    if found is not None and found.status == "False" and found.reason == ledger.DISABLED:
        return True
    known = world.get(kvcache.BACKENDS, "", pool.spec.backend) if pool.spec.backend else None
    managed = known.value.spec.managed if known is not None and known.value is not None else None
    return managed is not None and managed.leader.multi_tenancy is False
