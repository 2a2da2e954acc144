"""Whether a pool can be joined now, and whether its store knows tenants.

    QuotaLedgerAvailable      joined   tenant
    True                      yes      the Binding's domain
    False, MultiTenancyDisabled  yes   none: the store keeps no ledger
    absent, Unknown, False    no       every write would fail or be charged to nobody

Rules: spec/worker-gpustack.md section 2 ("Ledger gate", "Tenant decision"); refusal R6.
"""

from typing import Final

from crds.kvcache import LEDGER, KVCacheBackend, KVCachePool
from handlers.kvcachepool import names
from handlers.kvcachepool.refusal import Refused

DISABLED: Final = "MultiTenancyDisabled"


def tenanted(pool: KVCachePool) -> bool:
    """Whether a tenant is due. Raises Refused while the ledger is not known to answer."""
    found = pool.status.ledger
    if found is not None and found.status == "True":
        return True
    if found is not None and found.status == "False" and found.reason == DISABLED:
        return False
    said = "is not reported" if found is None else f"is {found.status or 'Unknown'}, reason {found.reason or 'none'}"
    detail = (
        f"KVCachePool {pool.metadata.name}: {LEDGER} {said}: what the engine writes could not be charged; restore the "
        "store's master, wait until the condition is True, and create the Pod again"
    )
    raise Refused("ledger", names.annotation(names.BINDING), detail)


def declared(pool: KVCachePool, backend: KVCacheBackend) -> bool:
    """For who renders without a gate: the condition where there is one, else what the backend declares."""
    found = pool.status.ledger
    if found is not None and found.status in ("True", "False"):
        return found.status == "True"
    managed = backend.spec.managed
    return managed is None or managed.leader.multi_tenancy is not False
