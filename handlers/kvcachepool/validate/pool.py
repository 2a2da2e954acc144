"""KVCachePool: capacity of exactly one store.

Rules: spec/worker-gpustack.md section 1.2.
"""

from typing import Final

from crds import kvcache
from crds.kvcache import KVCachePool
from handlers.admission.decision import Violation
from handlers.kvcachepool.validate.common import Found, frozen, size
from handlers.world.reader import Reader

AT: Final = "spec.backends"


def violations(new: KVCachePool, old: KVCachePool | None, world: Reader) -> list[Violation]:
    """Only a new pool reads its backend: what became of it later is told in the status."""
    if old is None:
        return [*_own(new), *_backend(new, world)]
    before = list(_own(old))
    kept = [one for one in _own(new) if one not in before]
    return [*kept, *frozen(old.spec.backends, new.spec.backends, AT)]


def warnings(new: KVCachePool, world: Reader) -> list[str]:
    known = world.get(kvcache.BACKENDS, "", new.spec.backend) if new.spec.backend else None
    managed = known.value.spec.managed if known is not None and known.value is not None else None
    if managed is None or managed.leader.multi_tenancy is not False:
        return []
    return [
        f"KVCacheBackend {new.spec.backend} keeps no ledger (multiTenancy is false): no quota is in force, and one "
        "domain only can be bound"
    ]


def _own(pool: KVCachePool) -> Found:
    given = pool.spec.backends or []
    if len(given) != 1 or not given[0].strip():
        yield Violation("Invalid", AT, "must name exactly one KVCacheBackend", given)
    yield from size(pool.spec.quota.total if pool.spec.quota else None, "spec.quota.total")


def _backend(pool: KVCachePool, world: Reader) -> Found:
    name = pool.spec.backend
    if name and world.get(kvcache.BACKENDS, "", name) is None:
        yield Violation("NotFound", f"{AT}[0]", f"there is no KVCacheBackend {name}: create it first", name)
