"""The webhooks of KV cache injection: Pods are injected at creation, frozen afterwards; custom resources are validated.

Injection and validation fail closed, the freeze fails open: it must never be why a Pod cannot be finished.

Rules: spec/worker-gpustack.md sections 1 and 5; design.md section 5.
"""

from collections.abc import Callable, Mapping
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


class Validation:
    """A webhook of one custom resource: whoever writes it hears at once what is wrong with it."""

    fails_open = False

    def __init__(
        self,
        name: str,
        decide: Callable[[Question, Reader], Decision],
        *,
        see: Callable[[Object], View] = masking.see,
        kinds: frozenset[str] = frozenset(),
        places: Mapping[str, str] = CLUSTER,
    ) -> None:
        self.name = name
        self.decide = decide
        self.see = see
        self.kinds = kinds
        self.places = places

    def concerned(self, question: Question, world: Reader) -> bool:
        return question.view is not None and question.operation in ("CREATE", "UPDATE")


#: Where an object is looked for that a field names.
_NAMED: Final = {pool.AT: kvcache.BACKENDS, binding.POOL: kvcache.POOLS}


def answer(found: list[Violation], warnings: list[str]) -> Decision:
    if found:
        absent = [one.field.partition("[")[0] for one in found if one.type == "NotFound"]
        missed = tuple(_NAMED[field] for field in absent if field in _NAMED)
        reason = found[0].detail
        return Decision(verdict="refused", check="invalid", reason=reason, violations=tuple(found), missed=missed)
    return allowed("valid", warnings=tuple(warnings))


def decoded(
    struct: Any,
    violations: Callable[[Any, Any, Reader], list[Violation]],
    warnings: Callable[[Any, Any, Reader], list[str]],
) -> Callable[[Question, Reader], Decision]:
    """A decision about what decodes into `struct`, new and old (None on creation)."""

    def decide(question: Question, world: Reader) -> Decision:
        try:
            new = schema.read(question.view, struct)
        except msgspec.ValidationError as error:
            return answer([Violation("Invalid", "spec", str(error))], [])
        try:
            old = schema.read(question.old, struct) if question.old is not None else None
        except msgspec.ValidationError:
            return allowed("stored-unreadable", warnings=("the stored object cannot be read: changes are not checked",))
        found = violations(new, old, world)
        return answer(found, [] if found else warnings(new, old, world))

    return decide


def backends(settings: Settings) -> Validation:
    return Validation(
        "validate.gpustack-worker.worker.v1.kvcachebackend",
        decoded(
            kvcache.KVCacheBackend,
            lambda new, old, world: backend.violations(new, old, settings),
            lambda new, old, world: backend.warnings(new),
        ),
    )


def pools(settings: Settings) -> Validation:
    return Validation(
        "validate.gpustack-worker.worker.v1.kvcachepool",
        decoded(
            kvcache.KVCachePool,
            pool.violations,
            lambda new, old, world: pool.warnings(new, world) if old is None else [],
        ),
        kinds=frozenset((kvcache.BACKENDS,)),
    )


def bindings(settings: Settings) -> Validation:
    return Validation(
        "validate.gpustack-worker.worker.v1.kvcachepoolbinding",
        decoded(
            kvcache.KVCachePoolBinding,
            lambda new, old, world: binding.violations(new, old, world, settings),
            lambda new, old, world: binding.warnings(new, world) if old is None else [],
        ),
        kinds=STORES,
        places={**CLUSTER, kvcache.BINDINGS: ""},  # a domain is one in all namespaces
    )


def deployments(settings: Settings) -> Validation:
    return Validation(
        "validate.gpustack-worker.worker.v1.modeldeployment",
        lambda question, world: answer(deployment.violations(question.view or {}, question.old, world, settings), []),
        see=deployment.see,
        kinds=STORES,
    )
