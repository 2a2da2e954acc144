"""What CachePolicies and CacheTenants may say, beyond their schemas.

Checks of one object are told apart from checks against its siblings: an update is never refused for what others are.

Rules: spec/inferencecache.md section 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from crds.inferencecache import CachePolicy, CacheTenant
from handlers import goduration
from handlers.admission.decision import Violation

#: The tenant of functional probes: its entries never count.
PROBE: Final = "inferencecache.io/probe"


def policy(one: CachePolicy) -> list[Violation]:
    return [*_ttl(one), *_chain(one)]


def _ttl(one: CachePolicy) -> Iterator[Violation]:
    """A block that is never fresh could never match."""
    at, given = "spec.evictionTTL", one.spec.eviction_ttl
    if given is None:
        return
    nanoseconds = goduration.nanoseconds(given)
    if nanoseconds is None:
        yield Violation("Invalid", at, "must be a duration such as 30m or 1h30m", given)
    elif nanoseconds <= 0:
        yield Violation("Invalid", at, "must be greater than 0", given)


def _chain(one: CachePolicy) -> Iterator[Violation]:
    """Nothing would ever match."""
    strategy = one.spec.strategy
    if strategy.require_chain and not strategy.enable_chain_matching:
        detail = "needs spec.strategy.enableChainMatching"
        yield Violation("Invalid", "spec.strategy.requireChain", detail, True)


def alone(name: str, others: Sequence[str]) -> list[Violation]:
    """One policy speaks for a namespace; `others` are the names of those that are there."""
    if not others:
        return []
    detail = f"CachePolicy {min(others)} is the policy of this namespace already; change or delete it"
    return [Violation("Forbidden", "metadata.name", detail, name)]


def tenant(one: CacheTenant) -> list[Violation]:
    given = one.spec.tenant_id
    if given != PROBE:
        return []
    return [Violation("Invalid", "spec.tenantID", "is reserved for functional probes", given)]


def unique(one: CacheTenant, others: Mapping[str, str]) -> list[Violation]:
    """Two quotas for one tenant: which would count? `others` is name -> tenantID of those that are there."""
    given = one.spec.tenant_id
    same = sorted(name for name, identity in others.items() if identity == given)
    if not same:
        return []
    detail = f"CacheTenant {same[0]} of this namespace has it already"
    return [Violation("Invalid", "spec.tenantID", detail, given)]
