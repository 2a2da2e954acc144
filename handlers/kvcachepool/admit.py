"""The webhooks of KV cache injection: Pods are injected at creation, frozen afterwards; custom resources are validated.

Injection and validation fail closed, the freeze fails open: it must never be why a Pod cannot be finished.

Rules: spec/worker-gpustack.md sections 1 and 5; design.md section 5.
"""

from typing import Any, Final

import msgspec

from crds import core, kvcache, schema
from handlers.admission.decision import Decision, Question, Violation, allowed
from handlers.admission.view import View
from handlers.kvcachepool import contract, freeze, inject, masking
from handlers.kvcachepool.inject import Settings
from handlers.kvcachepool.validate import backend, binding, deployment, pool
from handlers.outcome import Object
from handlers.world.reader import Reader

STORES: Final = frozenset((kvcache.BINDINGS, kvcache.POOLS, kvcache.BACKENDS))
#: Kinds without a namespace, and where they are read.
CLUSTER: Final = {kvcache.POOLS: "", kvcache.BACKENDS: ""}


class Injection:
    """`mutate.gpustack-worker-kvcache.core.v1.pod`."""

    name = "mutate.gpustack-worker-kvcache.core.v1.pod"
    kinds = STORES
    places = CLUSTER
    fails_open = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def see(self, document: Object) -> View:
        return masking.pod(document)

    def concerned(self, question: Question, world: Reader) -> bool:
        """The configuration's selector asks the same; a label is believed once more here."""
        if question.operation != "CREATE" or question.kind != core.PODS or question.view is None:
            return False
        metadata = question.view.get("metadata")
        return isinstance(metadata, dict) and contract.opted_in(metadata.get("labels"))

    def decide(self, question: Question, world: Reader) -> Decision:
        return inject.decide(question.view or {}, question.namespace, world, self.settings)


class Freeze:
    """`validate.gpustack-worker-kvcache.core.v1.pod`."""

    name = "validate.gpustack-worker-kvcache.core.v1.pod"
    kinds: frozenset[str] = frozenset()
    fails_open = True

    def see(self, document: Object) -> View:
        return freeze.see(document)

    def concerned(self, question: Question, world: Reader) -> bool:
        if question.operation != "UPDATE" or question.view is None or question.old is None:
            return False
        return any(contract.opted_in(one["metadata"].get("labels")) for one in (question.view, question.old))

    def decide(self, question: Question, world: Reader) -> Decision:
        return freeze.decide(question.old or {}, question.view or {})


class _Validation:
    """Base of the three webhooks whose objects decode into one Struct."""

    fails_open = False
    struct: Any

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def see(self, document: Object) -> View:
        return masking.see(document)

    def concerned(self, question: Question, world: Reader) -> bool:
        return question.view is not None and question.operation in ("CREATE", "UPDATE")

    def decide(self, question: Question, world: Reader) -> Decision:
        try:
            new = schema.read(question.view, self.struct)
        except msgspec.ValidationError as error:
            return answer([Violation("Invalid", "spec", str(error))], [])
        try:
            old = schema.read(question.old, self.struct) if question.old is not None else None
        except msgspec.ValidationError:
            return allowed("stored-unreadable", warnings=("the stored object cannot be read: changes are not checked",))
        found = self.violations(new, old, world)
        return answer(found, [] if found else self.warnings(new, old, world))

    def violations(self, new: Any, old: Any, world: Reader) -> list[Violation]:
        raise NotImplementedError

    def warnings(self, new: Any, old: Any, world: Reader) -> list[str]:
        raise NotImplementedError


#: Where an object is looked for that a field names.
_NAMED: Final = {pool.AT: kvcache.BACKENDS, binding.POOL: kvcache.POOLS}


def answer(found: list[Violation], warnings: list[str]) -> Decision:
    if found:
        absent = [one.field.partition("[")[0] for one in found if one.type == "NotFound"]
        missed = tuple(_NAMED[field] for field in absent if field in _NAMED)
        reason = found[0].detail
        return Decision(verdict="refused", check="invalid", reason=reason, violations=tuple(found), missed=missed)
    return allowed("valid", warnings=tuple(warnings))


class Backends(_Validation):
    """`validate.gpustack-worker.worker.v1.kvcachebackend`."""

    name = "validate.gpustack-worker.worker.v1.kvcachebackend"
    kinds: frozenset[str] = frozenset()
    struct = kvcache.KVCacheBackend

    def violations(self, new: Any, old: Any, world: Reader) -> list[Violation]:
        return backend.violations(new, old, self.settings)

    def warnings(self, new: Any, old: Any, world: Reader) -> list[str]:
        return backend.warnings(new)


class Pools(_Validation):
    """`validate.gpustack-worker.worker.v1.kvcachepool`."""

    name = "validate.gpustack-worker.worker.v1.kvcachepool"
    kinds = frozenset((kvcache.BACKENDS,))
    places = CLUSTER
    struct = kvcache.KVCachePool

    def violations(self, new: Any, old: Any, world: Reader) -> list[Violation]:
        return pool.violations(new, old, world)

    def warnings(self, new: Any, old: Any, world: Reader) -> list[str]:
        return pool.warnings(new, world) if old is None else []


class Bindings(_Validation):
    """`validate.gpustack-worker.worker.v1.kvcachepoolbinding`."""

    name = "validate.gpustack-worker.worker.v1.kvcachepoolbinding"
    kinds = STORES
    places = {**CLUSTER, kvcache.BINDINGS: ""}  # noqa: RUF012 - a domain is one in all namespaces
    struct = kvcache.KVCachePoolBinding

    def violations(self, new: Any, old: Any, world: Reader) -> list[Violation]:
        return binding.violations(new, old, world, self.settings)

    def warnings(self, new: Any, old: Any, world: Reader) -> list[str]:
        return binding.warnings(new, world) if old is None else []


class Deployments:
    """`validate.gpustack-worker.worker.v1.modeldeployment`."""

    name = "validate.gpustack-worker.worker.v1.modeldeployment"
    kinds = STORES
    places = CLUSTER
    fails_open = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def see(self, document: Object) -> View:
        return deployment.see(document)

    def concerned(self, question: Question, world: Reader) -> bool:
        return question.view is not None and question.operation in ("CREATE", "UPDATE")

    def decide(self, question: Question, world: Reader) -> Decision:
        return answer(deployment.violations(question.view or {}, question.old, world, self.settings), [])
