"""Admission of CachePolicies and CacheTenants. Their defaults are the schema's own: the mutating webhooks of the
contract exist and change nothing.

A refusal because of a sibling, or its absence, comes from the API itself: the log may be a moment behind, and two
policies of one namespace would be a trap. Where the API cannot be read nothing is admitted.

Rules: spec/inferencecache.md sections 5 and 9 (names and paths of the webhooks).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from crds import schema
from crds.inferencecache import CACHE_POLICIES, CACHE_TENANTS, CachePolicy, CacheTenant
from handlers.admission.decision import Decision, Question, Violation, allowed
from handlers.admission.view import Allow, View, resource
from handlers.cachepolicy import validate
from handlers.outcome import Key, Object
from handlers.world.reader import Reader
from handlers.world.state import Known

T = TypeVar("T", CachePolicy, CacheTenant)


class Defaults:
    """`mcachepolicy.inferencecache.io` and `mcachetenant.inferencecache.io`."""

    kinds: frozenset[str] = frozenset()
    fails_open = False

    def __init__(self, name: str) -> None:
        self.name = name

    def see(self, document: Object) -> View:
        return resource(document, Allow())

    def concerned(self, question: Question, world: Reader) -> bool:
        return False

    def decide(self, question: Question, world: Reader) -> Decision:
        return allowed("defaults")


class _Validation(Generic[T]):
    name: str
    kind: str
    struct: type[T]
    own: Callable[[T], list[Violation]]
    fails_open = False

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset((self.kind,))

    def see(self, document: Object) -> View:
        return resource(document, Allow())

    def concerned(self, question: Question, world: Reader) -> bool:
        return question.operation in ("CREATE", "UPDATE") and question.view is not None

    def decide(self, question: Question, world: Reader) -> Decision:
        if question.operation == "UPDATE" and (question.view or {}).get("metadata", {}).get("deletionTimestamp"):
            return allowed("being-deleted")  # finalizers must come off whatever the spec says
        try:
            new = schema.read(question.view, self.struct)
        except msgspec.ValidationError as error:
            return refused([Violation("Invalid", "spec", schema.line(error))])
        old = self._old(question)
        before = type(self).own(old) if old is not None else []
        found = [one for one in type(self).own(new) if one not in before]
        if not self.compares(new, old):
            return refused(found) if found else allowed("valid")
        found += self.beside(new, question.name, world, question.namespace)
        if found:
            return refused(found)
        return msgspec.structs.replace(allowed("valid"), missed=(self.kind,))

    def _old(self, question: Question) -> T | None:
        """None on creation, and where what is stored does not fit the schema: then everything is new."""
        try:
            return schema.read(question.old, self.struct) if question.old is not None else None
        except msgspec.ValidationError:
            return None

    def compares(self, new: T, old: T | None) -> bool:
        """Whether siblings matter."""
        raise NotImplementedError

    def beside(self, new: T, name: str, world: Reader, namespace: str) -> list[Violation]:
        raise NotImplementedError


class Policies(_Validation[CachePolicy]):
    """`vcachepolicy.inferencecache.io`."""

    name = "vcachepolicy.inferencecache.io"
    kind = CACHE_POLICIES
    struct = CachePolicy
    own = staticmethod(validate.policy)

    def compares(self, new: CachePolicy, old: CachePolicy | None) -> bool:
        return old is None

    def beside(self, new: CachePolicy, name: str, world: Reader, namespace: str) -> list[Violation]:
        other = world.first(self.kind, namespace, lambda key, known: key.name != name)
        return validate.alone(name, [] if other is None else [other[0].name])


class Tenants(_Validation[CacheTenant]):
    """`vcachetenant.inferencecache.io`."""

    name = "vcachetenant.inferencecache.io"
    kind = CACHE_TENANTS
    struct = CacheTenant
    own = staticmethod(validate.tenant)

    def compares(self, new: CacheTenant, old: CacheTenant | None) -> bool:
        return old is None or old.spec.tenant_id != new.spec.tenant_id

    def beside(self, new: CacheTenant, name: str, world: Reader, namespace: str) -> list[Violation]:
        identity = new.spec.tenant_id

        def same(key: Key, known: Known) -> bool:
            return key.name != name and known.value is not None and known.value.spec.tenant_id == identity

        other = world.first(self.kind, namespace, same)
        return validate.unique(new, {} if other is None else {other[0].name: identity})


def refused(found: list[Violation]) -> Decision:
    return Decision(verdict="refused", check="invalid", reason=found[0].detail, violations=tuple(found))
