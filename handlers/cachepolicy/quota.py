"""A CacheTenant's conditions, from what the index holds for its tenant.

Of several CacheTenants with one tenantID the first by namespace and name that sets a quota is in force; the others say
so. Quotas of the index itself are handlers/prefixindex/policies.

Rules: spec/inferencecache.md section 5 ("CacheTenant", "Controller").
"""

from collections.abc import Iterable, Mapping

from crds.inferencecache import CacheTenant
from handlers.conditions import Shown


def effective(tenants: Iterable[CacheTenant]) -> dict[str, tuple[str, str]]:
    """tenantID -> (namespace, name) of the CacheTenant whose quota counts."""
    found: dict[str, tuple[str, str]] = {}
    for one in tenants:
        if one.spec.quota is None or one.spec.quota.max_index_entries is None:
            continue
        name = (one.metadata.namespace, one.metadata.name)
        found[one.spec.tenant_id] = min(name, found.get(one.spec.tenant_id, name))
    return found


def conditions(one: CacheTenant, entries: int, owner: tuple[str, str] | None) -> Mapping[str, Shown]:
    """`entries` is what the tenant holds now, `owner` the CacheTenant that counts for it (None: none has a quota)."""
    if owner is not None and owner != (one.metadata.namespace, one.metadata.name):
        told = f"CacheTenant {owner[0]}/{owner[1]} counts for tenant {one.spec.tenant_id}"
        return {
            "Ready": Shown("False", "DuplicateTenantID", told),
            "QuotaExceeded": Shown("False", "NotEffective", told),
        }
    return {"Ready": Shown("True", "Observed", f"{entries} entries"), "QuotaExceeded": exceeded(one, entries)}


def exceeded(one: CacheTenant, entries: int) -> Shown:
    budget = one.spec.quota.max_index_entries if one.spec.quota is not None else None
    if budget is None:
        return Shown("False", "NoQuota", "no quota is set")
    if entries > budget:
        return Shown("True", "OverEntryBudget", f"{entries} entries, {budget} are allowed")
    return Shown("False", "WithinBudget", f"{entries} of {budget} entries")
