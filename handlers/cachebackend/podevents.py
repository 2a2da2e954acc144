"""Events on engine Pods, told after the Pod exists: that it was wired, or that it asked not to be.

The webhook cannot tell them, a Pod has no uid yet when it answers. The marks are believed only where the uid is that of
the living CacheBackend: a copied template says nothing.

Rules: seed 004, "Contract Notes" (InjectedByCacheBackend, SkippedByOperator).
"""

from crds import cachebackend, core
from handlers.cachebackend import inject, names
from handlers.outcome import NOTHING, Key, Outcome, Told
from handlers.world.reader import Reader


def desired(world: Reader, key: Key) -> Outcome:
    known = world.get(*key)
    if known is None or known.value is None:
        return NOTHING
    pod: core.Pod = known.value
    marks = pod.metadata.annotations
    if inject.opts_out(marks.get(names.SKIP_INJECT)):
        if marks.get(names.INJECT_SKIPPED) != "skip-inject-annotation":
            return NOTHING
        return _told(key, known.uid, "SkippedByOperator", f"{names.SKIP_INJECT} asks not to be wired")
    namespace, _, name = marks.get(names.INJECTED_BY, "").partition("/")
    if not name or namespace != key.namespace:
        return NOTHING
    backend = world.get(cachebackend.CACHE_BACKENDS, namespace, name)
    if backend is None or backend.uid != marks.get(names.INJECTED_BY_UID):
        return NOTHING
    return _told(key, known.uid, "InjectedByCacheBackend", f"wired to CacheBackend {namespace}/{name}")


def _told(key: Key, uid: str, reason: str, message: str) -> Outcome:
    event = Told(
        about=key,
        uid=uid,
        api_version="v1",
        object_kind="Pod",
        type="Normal",
        reason=reason,
        message=message,
        transition="once",
    )
    return Outcome(intents=(event,))
