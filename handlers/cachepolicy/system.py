"""CachePolicy and CacheTenant as a system of the machine: both are watched, so that servers answer by what is there; a
CacheTenant's status says what its tenant has, and whether its quota counts.

A CachePolicy's status is reserved and nobody writes it. Nothing is said of a tenant before a server has counted.

Rules: spec/inferencecache.md section 5; quota has the conditions.
"""

from collections.abc import Container, Iterable
from typing import Final

import msgspec

from crds.inferencecache import CACHE_POLICIES, CACHE_TENANTS, CacheTenant
from eventstore import events, subjects
from handlers import conditions
from handlers.cachepolicy import quota, validate
from handlers.outcome import NOTHING, Key, Object, Outcome, Status
from handlers.unusable import Written
from handlers.world.reader import Reader
from handlers.world.state import Known, World

SECOND: Final = 1_000_000_000


def _broken(tenant: CacheTenant) -> str:
    found = next(iter(validate.tenant(tenant)), None)
    return f"{found.field}: {found.detail}" if found is not None else ""


class CacheTenants:
    name = "cachepolicy"
    kinds = frozenset((CACHE_POLICIES, CACHE_TENANTS))
    statuses = {CACHE_TENANTS: Written("inferencecache.io/v1alpha1", "CacheTenant", ("Ready",), _broken)}  # noqa: RUF012

    def __init__(self) -> None:
        self._world: World | None = None
        self._named: dict[Key, str] = {}  # what each object said its tenant is: for speed only
        self._counted: dict[str, dict[str, int]] = {}  # by shard

    def concerns(self, event: events.Decoded, world: World) -> Iterable[Key]:
        """A CacheTenant concerns every one of its tenant, before and after; a summary those whose tenant's count it
        changes."""
        if world is not self._world:
            self._world, self._named, self._counted = world, {}, {}
        match event.data:
            case events.ObjectSeen() | events.ObjectGone():
                kind, *rest = (subjects.unescape(part) for part in event.stored.subject.split(".")[2:])
                return self._changed(world, Key(kind, rest[0], rest[1])) if kind == CACHE_TENANTS else ()
            case events.KindListed() if event.stored.subject == subjects.kind_subject(CACHE_TENANTS):
                return self.keys(world)
            case events.IndexSummarised(tenants=dict(counted)) as summary:
                before = self._counted.get(summary.shard)
                self._counted[summary.shard] = counted
                if before is None:
                    return self.keys(world)
                changed = {one for one in counted.keys() | before.keys() if counted.get(one) != before.get(one)}
                return _of(world, changed)
        return ()

    def _changed(self, world: World, key: Key) -> Iterable[Key]:
        before, known = self._named.get(key), world.find(key)
        after = known.value.spec.tenant_id if known is not None and known.value is not None else None
        if after is None:
            self._named.pop(key, None)
        else:
            self._named[key] = after
        if before is None and known is not None and after is None:
            return [key]  # it never said anything that counts: the world would keep it
        if before is None:
            return [key, *(_of(world, {after}) if after is not None else self.keys(world))]
        return [key, *_of(world, {before, after})]

    def keys(self, world: World) -> Iterable[Key]:
        return world.keys(CACHE_TENANTS)

    def desired(self, world: Reader, key: Key) -> Outcome:
        known = world.get(*key)
        if known is None or known.value is None or known.value.metadata.deletion_timestamp:
            return NOTHING
        tenant: CacheTenant = known.value
        entries = world.entries(tenant.spec.tenant_id)
        if entries is None:
            return NOTHING
        before = world.status(key, msgspec.to_builtins(tenant.status))
        shown = quota.conditions(_placed(tenant, key), entries, _owner(world, tenant.spec.tenant_id))
        generation = tenant.metadata.generation
        prior: list[Object] = before.get("conditions") or []
        status = {
            "observedGeneration": generation,
            "indexEntries": entries,
            "conditions": conditions.merged(prior, shown, now=world.now_ns // SECOND, generation=generation),
        }
        if status == before:
            return NOTHING
        lazy = _states(before) == _states(status)
        return Outcome(intents=(Status(key=key, uid=known.uid, status=status, lazy=lazy),))


def _placed(tenant: CacheTenant, key: Key) -> CacheTenant:
    metadata = msgspec.structs.replace(tenant.metadata, namespace=key.namespace, name=key.name)
    return msgspec.structs.replace(tenant, metadata=metadata)


def _owner(world: Reader, tenant: str) -> tuple[str, str] | None:
    """The first by namespace and name of those with a quota; quota.effective says the same of all."""

    def counts(key: Key, known: Known) -> bool:
        if known.value is None or known.value.spec.tenant_id != tenant:
            return False
        limits = known.value.spec.quota
        return limits is not None and limits.max_index_entries is not None

    found = world.first(CACHE_TENANTS, None, counts)
    return None if found is None else (found[0].namespace, found[0].name)


def _states(status: Object) -> list[tuple[str, str, str]]:
    """Conditions without what only counts."""
    return [
        (one.get("type", ""), one.get("status", ""), one.get("reason", "")) for one in status.get("conditions") or ()
    ]


def _of(world: World, tenants: Container[str | None]) -> list[Key]:
    found = []
    for key in world.keys(CACHE_TENANTS):
        known = world.find(key)
        if known is None or known.value is None or known.value.spec.tenant_id in tenants:
            found.append(key)
    return found
