"""CacheBackend's admission: engine Pods are wired, CacheBackends are defaulted and validated.

The first never blocks anything; the other two refuse what cannot work.

Rules: seed 004, "Admission"; spec/inferencecache.md sections 6.2, 6.3, 6.5.
"""

from collections.abc import Hashable
from typing import Final

import msgspec

from crds import cachebackend, core, schema
from crds.cachebackend import CacheBackend
from handlers.admission import cache
from handlers.admission.decision import Decision, Question, Violation, allowed
from handlers.admission.glance import Glancer
from handlers.admission.view import Allow, View, resource, view
from handlers.cachebackend import default, inject, matrix, names, validate
from handlers.outcome import Key, Object
from handlers.system import Recalled
from handlers.world.reader import Reader
from handlers.world.state import Known

#: What the decision reads of a Pod beside its structure.
ALLOW: Final = Allow(
    annotations=frozenset((*inject.MARKS, names.SKIP_INJECT)),
    env=frozenset(
        (
            "LMCACHE_REMOTE_URL",
            "LMCACHE_REMOTE_SERDE",
            "LMCACHE_CHUNK_SIZE",
            "LMCACHE_LOCAL_CPU",
            "LMCACHE_MAX_LOCAL_CPU_SIZE",
            "LMCACHE_USE_EXPERIMENTAL",
            "VLLM_USE_V1",
            "INFERENCECACHE_FAIL_OPEN",
            "INFERENCECACHE_MP_WORKER",
            "PYTHONHASHSEED",
            "NVIDIA_VISIBLE_DEVICES",
            "KERNEL_CHECK_STRICT",
        )
    ),
    flags=frozenset(("--kv-events-config", *(flag for pair in matrix.PAIRS for flag in pair.reserved_args))),
)


#: Annotations of a CacheBackend that are read.
_MARKS: Final = frozenset((names.KERNEL_CHECK, names.REQUIRE_KV_EVENTS, names.SKIP_PROBE))
OWN: Final = ALLOW._replace(annotations=_MARKS)


#: Annotations that make a Pod ours whatever its labels are.
MARKED: Final = (*inject.MARKS, names.SKIP_INJECT)
_OBSERVED: Final[Object] = {}


class Pods:
    """`mpod.inferencecache.io`."""

    name = "mpod.inferencecache.io"
    kinds = frozenset((cachebackend.CACHE_BACKENDS,))
    fails_open = True

    def __init__(self, options: inject.Options) -> None:
        self.options = options
        self._decisions = cache.Decisions()
        self._glancer = Glancer(ALLOW)

    def settle(self, options: inject.Options) -> None:
        """Other options from now on: what was decided under the old ones is forgotten."""
        self.options, self._decisions = options, cache.Decisions()

    def see(self, document: Object) -> View:
        return view(document, ALLOW)

    def undecided(self, question: Question, decision: Decision) -> Decision:
        if question.operation != "CREATE" or question.kind != core.PODS or question.view is None:
            return decision
        return inject.unmarked(question.view, decision)

    def concerned(self, question: Question, world: Reader) -> bool:
        """A Pod that is being created and has labels, which a selector could name, or an annotation of ours."""
        if question.operation != "CREATE" or question.kind != core.PODS or question.view is None:
            return False
        metadata = question.view.get("metadata") or {}
        return bool(metadata.get("labels")) or any(one in (metadata.get("annotations") or {}) for one in MARKED)

    def decide(self, question: Question, world: Reader) -> Decision:
        view = question.view or {}
        labels = (view.get("metadata") or {}).get("labels") or {}
        first = _first(world, question.namespace, labels)
        if first is None:
            decision = inject.decide(view, [], self.options)
            if decision.check != inject.NO_MATCH:
                return decision
            missed = (cachebackend.CACHE_BACKENDS,)
            return msgspec.structs.replace(decision, missed=missed, ours=bool(decision.patch))
        backend = _shown(_named(first.value, first.uid), world)
        key = _facts(first, backend, cache.likeness(view))
        return self._decisions.find(key) or self._decisions.keep(key, inject.decide(view, [backend], self.options))

    def recall(self, raw: bytes, *, operation: str, kind: str, namespace: str, world: Reader) -> Recalled | None:
        """As `decide`, for a Pod that is like one that was decided on."""
        if operation != "CREATE" or kind != core.PODS:
            return None
        first, seen = None, self._glancer.look(raw)
        if seen is not None:
            first = _first(world, namespace, seen.labels)
        if seen is None or first is None:
            return None
        known = self._decisions.find(_facts(first, _shown(_named(first.value, first.uid), world), seen.likeness))
        return None if known is None else Recalled(known, seen)


def _first(world: Reader, namespace: str, labels: dict[str, str]) -> Known | None:
    """The backend that claims a Pod."""

    def claiming(key: Key, known: Known) -> bool:
        return known.value is not None and inject.claims(known.value, labels)

    found = world.first(cachebackend.CACHE_BACKENDS, namespace, claiming)
    return None if found is None else found[1]


def _facts(known: Known, backend: CacheBackend, likeness: bytes) -> Hashable:
    """All that a decision depends on: the backend as it is, its endpoint as it is shown, the Pod as it is seen."""
    return known.uid, known.resource_version, known.sequence, backend.status.endpoint, likeness


def _named(backend: CacheBackend, uid: str) -> CacheBackend:
    if backend.metadata.uid == uid:
        return backend
    return msgspec.structs.replace(backend, metadata=msgspec.structs.replace(backend.metadata, uid=uid))


def _shown(backend: CacheBackend, world: Reader) -> CacheBackend:
    """With the status that the world knows: its own last write may be newer than what was observed."""
    key = Key(cachebackend.CACHE_BACKENDS, backend.metadata.namespace, backend.metadata.name)
    status = world.status(key, _OBSERVED)
    if status is _OBSERVED:
        return backend
    return msgspec.structs.replace(backend, status=schema.read(status, cachebackend.CacheBackendStatus))


class Defaults:
    """`mcachebackend.inferencecache.io`."""

    name = "mcachebackend.inferencecache.io"
    kinds: frozenset[str] = frozenset()
    fails_open = False

    def see(self, document: Object) -> View:
        return backend_view(document)

    def concerned(self, question: Question, world: Reader) -> bool:
        return question.view is not None

    def decide(self, question: Question, world: Reader) -> Decision:
        spec = (question.view or {}).get("spec")
        patch = tuple(default.defaults(spec)) if isinstance(spec, dict) else ()
        return Decision(verdict="patched" if patch else "allowed", check="defaults", patch=patch)


class Validation:
    """`vcachebackend.inferencecache.io`."""

    name = "vcachebackend.inferencecache.io"
    kinds: frozenset[str] = frozenset()
    fails_open = False

    def see(self, document: Object) -> View:
        return backend_view(document)

    def concerned(self, question: Question, world: Reader) -> bool:
        return question.view is not None

    def decide(self, question: Question, world: Reader) -> Decision:
        try:
            new = schema.read(question.view, CacheBackend)
        except msgspec.ValidationError as error:
            return _refused([Violation("Invalid", "spec", schema.line(error))])
        found = validate.violations(new)
        if question.operation == "UPDATE" and question.old is not None:
            if (question.view or {}).get("metadata", {}).get("deletionTimestamp"):
                return allowed("being-deleted")  # finalizers must come off whatever the spec says
            found = [one for one in found if one not in _before(question.old)]
        if found:
            return _refused(found, warnings=tuple(validate.warnings(new)))
        return allowed("valid", warnings=tuple(validate.warnings(new)))


def backend_view(document: Object) -> View:
    """A CacheBackend without what an operator wrote for environments, arguments and commands: it may be secret."""
    return resource(document, OWN)


def _before(old: dict[str, object]) -> list[Violation]:
    try:
        return validate.violations(schema.read(old, CacheBackend))
    except msgspec.ValidationError:
        return []


def _refused(found: list[Violation], warnings: tuple[str, ...] = ()) -> Decision:
    told = found[0].detail
    return Decision(verdict="refused", check="invalid", reason=told, warnings=warnings, violations=tuple(found))
