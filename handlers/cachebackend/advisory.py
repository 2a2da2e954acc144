"""Conditions that advise: kernels, compatibility, the remote tier's hit rate. Only a strict kernel check gates.

Absent means that there is nothing to say.

Rules: seed 004, rows EngineKernelsHealthy, EngineCompatibility, T2Degraded; spec/inferencecache.md section 8.
"""

from collections.abc import Iterable, Sequence

from crds import core
from crds.cachebackend import CacheBackend
from handlers.cachebackend import engines, kernelcheck, names
from handlers.conditions import Shown
from handlers.outcome import Object


def kernels(backend: CacheBackend, pods: Sequence[core.Pod]) -> Shown | None:
    """Of Pods that the selector matches and the webhook wired: the worst report wins (fail, error, pending, ok)."""
    labels = backend.spec.labels
    reports = [
        (pod.metadata.name, status)
        for pod in pods
        if labels and labels.items() <= pod.metadata.labels.items() and engines.wired_to(pod, backend)
        for status in pod.status.init_container_statuses
        if status.name == names.KERNEL_CHECK_CONTAINER
    ]
    if not reports:
        return None
    told = sorted((_report(name, status.state) for name, status in reports), key=lambda one: _RANK[one.reason])
    return told[0]


_RANK = {"KernelLoadFailed": 0, "KernelCheckError": 1, "KernelCheckPending": 2, "KernelsHealthy": 3}


def _report(pod: str, state: core.ContainerState) -> Shown:
    ended = state.terminated
    if ended is None:
        return Shown("Unknown", "KernelCheckPending", f"the check in Pod {pod} has not ended")
    message = ended.message.strip()
    if message.startswith("FAIL"):
        return Shown("False", "KernelLoadFailed", f"Pod {pod}: {message[:400]}")
    if message == "OK":
        return Shown("True", "KernelsHealthy", "compiled kernels load on every Pod that reported")
    return Shown("Unknown", "KernelCheckError", f"the check in Pod {pod} ended without a result ({ended.exit_code})")


def strict(backend: CacheBackend) -> bool:
    return kernelcheck.mode(backend) == "strict"


def compatibility(backend: CacheBackend, pods: Iterable[core.Pod]) -> Shown | None:
    """An engine that was wired and crash-loops. An observation, not a cause."""
    stuck = sorted(
        pod.metadata.name
        for pod in pods
        if engines.wired_to(pod, backend)
        and any(
            status.name != names.SUBSCRIBER and (status.state.waiting or core.Waiting()).reason == "CrashLoopBackOff"
            for status in pod.status.container_statuses
        )
    )
    if not stuck:
        return None
    return Shown(
        "False",
        "InjectedEngineCrashLooping",
        f"engine Pod {stuck[0]} crash-loops since a KV connector was wired ({len(stuck)} in all); a model with hybrid "
        "attention takes none: spec.integration.mode EventsOnly keeps routing. Its log tells the cause",
    )


def remote_tier(participation: Object | None) -> Shown | None:
    rate = (participation or {}).get("t2HitRate")
    if rate is None:
        return None
    if rate == "0":
        return Shown("True", "T2ZeroHitRate", "the remote tier was asked and never had an answer")
    return Shown("False", "T2Serving", f"the remote tier answers, hit rate {rate}")
