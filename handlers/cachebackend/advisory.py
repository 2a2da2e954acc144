"""Conditions that advise: kernels, compatibility, the remote tier's hit rate. Only a strict kernel check gates.

Absent means that there is nothing to say.

Rules: seed 004, rows EngineKernelsHealthy, EngineCompatibility, T2Degraded; spec/inferencecache.md section 8.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from crds import core
from crds.cachebackend import CacheBackend
from handlers.cachebackend import adapters, engines, names
from handlers.conditions import Shown
from handlers.outcome import Object


def kernels(backend: CacheBackend, pods: Sequence[core.Pod]) -> Shown | None:
    """Of Pods that the selector matches and the webhook wired: the worst report wins (fail, error, pending, ok)."""
    told = sorted((_report(pod, ended) for pod, ended in _checks(backend, pods)), key=lambda one: _RANK[one.reason])
    return told[0] if told else None


def gates(backend: CacheBackend, pods: Sequence[core.Pod]) -> bool:
    """Whether a Pod that was admitted with a strict check failed it. The Pod itself tells: only a strict check ends
    with an exit code. What the annotation says now counts for Pods to come."""
    return any(
        ended is not None and ended.message.strip().startswith(FAILED) and ended.exit_code != 0
        for _, ended in _checks(backend, pods)
    )


def _checks(backend: CacheBackend, pods: Sequence[core.Pod]) -> Iterator[tuple[str, core.Terminated | None]]:
    """(Pod, how the check ended last) of the Pods that count; a check that is started over has ended before."""
    labels = backend.spec.labels
    for pod in pods:
        if not labels or not labels.items() <= pod.metadata.labels.items() or not engines.wired_to(pod, backend):
            continue
        for status in pod.status.init_container_statuses:
            if status.name == names.KERNEL_CHECK_CONTAINER:
                yield pod.metadata.name, status.state.terminated or status.last_state.terminated


FAILED: Final = "FAIL:"


_RANK = {"KernelLoadFailed": 0, "KernelCheckError": 1, "KernelCheckPending": 2, "KernelsHealthy": 3}


def _report(pod: str, ended: core.Terminated | None) -> Shown:
    if ended is None:
        return Shown("Unknown", "KernelCheckPending", f"the check in Pod {pod} has not ended")
    message = ended.message.strip()
    if message.startswith(FAILED):
        return Shown("False", "KernelLoadFailed", f"Pod {pod}: {message[:400]}")
    if message == "OK" and ended.exit_code == 0:
        return Shown("True", "KernelsHealthy", "compiled kernels load on every Pod that reported")
    return Shown("Unknown", "KernelCheckError", f"the check in Pod {pod} ended without a result ({ended.exit_code})")


def compatibility(backend: CacheBackend, pods: Iterable[core.Pod]) -> Shown | None:
    """An engine that was wired and crash-loops. An observation, not a cause."""
    stuck = sorted(
        pod.metadata.name
        for pod in pods
        if engines.wired_to(pod, backend)
        and (engine := _engine(pod, backend)) is not None
        and engine.state.waiting is not None
        and engine.state.waiting.reason == "CrashLoopBackOff"
    )
    if not stuck:
        return None
    return Shown(
        "False",
        "InjectedEngineCrashLooping",
        f"engine Pod {stuck[0]} crash-loops since a KV connector was wired ({len(stuck)} in all); a model with hybrid "
        "attention takes none: spec.integration.mode EventsOnly keeps routing. Its log tells the cause",
    )


def _engine(pod: core.Pod, backend: CacheBackend) -> core.ContainerStatus | None:
    """The engine's container: the one of its name, else the only one beside the subscriber."""
    name = adapters.ENGINES.get(backend.spec.runtime, "")
    given = pod.status.container_statuses
    if (found := next((one for one in given if one.name == name), None)) is not None:
        return found
    others = [one for one in given if one.name not in names.SIDECARS]
    return others[0] if len(others) == 1 else None


def remote_tier(participation: Object | None) -> Shown | None:
    rate = (participation or {}).get("t2HitRate")
    if rate is None:
        return None
    if rate == "0":
        return Shown("True", "T2ZeroHitRate", "the remote tier was asked and never had an answer")
    return Shown("False", "T2Serving", f"the remote tier answers, hit rate {rate}")
