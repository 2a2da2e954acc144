"""Wiring one engine Pod to the CacheBackend that selects it: a chain of small steps, all or nothing.

Whatever goes wrong, the Pod is admitted as it came; the decision says why, to its author. Marks of an earlier or forged
injection are taken off then, because Events and counts believe them.

Rules: seed 004, pod webhook; spec/inferencecache.md section 6.5 (the order of the steps).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from crds.cachebackend import CacheBackend, CacheBackendSpec
from handlers.admission import patches, podedit
from handlers.admission.decision import Decision
from handlers.cachebackend import adapters, endpoint, kernelcheck, matrix, names, overrides, sidecar
from handlers.cachebackend.adapters.base import Declined, Remote
from handlers.kvcachepool import names as pooling
from handlers.outcome import Object


class Options(NamedTuple):
    """Settings of the controller that shape what is injected."""

    subscriber_image: str = ""
    server: str = "inference-cache-server.inference-cache-system.svc.cluster.local:9090"
    native_sidecars: bool = True  # False on a cluster below 1.29


def takes_native_sidecars(version: Object) -> bool:
    """Whether a cluster knows init containers that stay, by what its API server says at /version. One that says nothing
    that can be read is taken for a new one."""
    found = [re.match(r"[0-9]{1,6}", str(version.get(part, "")), re.ASCII) for part in ("major", "minor")]
    numbers = [int(one[0]) for one in found if one is not None]
    return len(numbers) < 2 or numbers >= [1, 29]


#: The check that decided where no CacheBackend selects the Pod.
NO_MATCH = "no-match"
MARKS = (names.INJECTED_BY, names.INJECTED_BY_UID, names.INJECT_SKIPPED)


def opts_out(value: str | None) -> bool:
    """Whether skip-inject says so: Go's booleans, then the common words for no; any other word means yes."""
    if not value or value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    return value.lower() not in ("no", "off", "disable", "disabled")


def selected(backends: Sequence[CacheBackend], labels: dict[str, str]) -> CacheBackend | None:
    """The first by name whose labels the Pod all has."""
    return min((one for one in backends if claims(one, labels)), key=lambda one: one.metadata.name, default=None)


def claims(backend: CacheBackend, labels: dict[str, str]) -> bool:
    """Whether a Pod of these labels is meant. An empty selector claims nothing."""
    wanted = backend.spec.labels
    return bool(wanted) and wanted.items() <= labels.items()


def decide(view: Object, backends: Sequence[CacheBackend], options: Options) -> Decision:
    """The answer for a Pod that is being created; `backends` are those of its namespace."""
    metadata = view.get("metadata") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if opts_out(annotations.get(names.SKIP_INJECT)):
        return _skipped(view)
    backend = selected(backends, labels)
    if backend is None:
        return _unwired(view, NO_MATCH, "")
    after = podedit.editable(view)
    try:
        told = _wire(after, backend, options)
    except Declined as why:
        name = f"{backend.metadata.namespace}/{backend.metadata.name}"
        return _unwired(view, why.check, f"not wired to CacheBackend {name}: {why}")
    podedit.unannotate(after, names.INJECT_SKIPPED)
    podedit.annotate(after, names.INJECTED_BY, f"{backend.metadata.namespace}/{backend.metadata.name}")
    podedit.annotate(after, names.INJECTED_BY_UID, backend.metadata.uid)
    return _between(view, after, "injected", warnings=tuple(told))


def _wire(pod: Object, backend: CacheBackend, options: Options) -> list[str]:
    """Edit the Pod; warnings for its author. Raises Declined."""
    spec = backend.spec
    if not spec.offload:
        return _events_only(pod, backend, options)
    _alone(pod)
    engine = engine_of(pod, spec.runtime)
    pair, adapter = matrix.pair_of(spec), adapters.ADAPTERS.get((spec.runtime, spec.type))
    if pair is None or adapter is None:
        raise Declined("pair", f"there is no adapter for {spec.runtime} with {spec.type}")
    if (spec.runtime, spec.type) == ("SGLang", "LMCache") and not options.native_sidecars:
        raise Declined("cluster-version", "SGLang's LMCache worker needs native sidecars: Kubernetes 1.29 or newer")
    storage = spec.remote_storage
    if storage is not None and matrix.BINDINGS.get(storage.provider) not in pair.bindings:
        raise Declined("binding", f"{pair} cannot use {storage.provider}")
    remote = remote_of(backend)
    before = podedit.editable_container(engine)
    adapter(pod, engine, spec, remote)
    if spec.wiring.engine_overrides is not None:
        overrides.apply(before, engine, spec.wiring.engine_overrides, again=_marked(pod, backend))
    if spec.runtime == "VLLM":
        kernelcheck.apply(pod, engine, backend)
    _subscribe(pod, spec, options, pair.scheme)
    return _warnings(engine, spec, options)


def _alone(pod: Object) -> None:
    """An engine has one KV connector, and a Pod that joins a pool has asked for that one: this is told, whoever is
    called first. Raises Declined."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if labels.get(pooling.INJECT) == "true":
        raise Declined(
            "kv-cache-injection",
            f"the Pod asks for KV cache injection too (label {pooling.INJECT}), and an engine has one KV connector: "
            "take the label off, or set spec.integration.mode to EventsOnly",
        )


def _events_only(pod: Object, backend: CacheBackend, options: Options) -> list[str]:
    """Only the subscriber, whatever the engine's container is called. A Pod that gains none is not touched, so nothing
    claims that it was wired."""
    pair = matrix.pair_of(backend.spec)
    if pair is not None and pair.runtime == "VLLM":
        podedit.remove(pod["spec"], "initContainers", names.KERNEL_CHECK_CONTAINER)
    if pair is None or not (_subscribe(pod, backend.spec, options, pair.scheme) or _subscribed(pod, backend, options)):
        raise Declined(
            "no-subscriber", "EventsOnly adds a subscriber: it has no image, no modelID, or stands there already"
        )
    try:
        engine = engine_of(pod, backend.spec.runtime)
    except Declined:
        return []  # nothing can be said of an engine that is not known
    return _warnings(engine, backend.spec, options)


def _subscribe(pod: Object, spec: CacheBackendSpec, options: Options, scheme: str) -> bool:
    made = sidecar.container(spec, image=options.subscriber_image, server=options.server, scheme=scheme)
    if made is None or _standing(pod, names.SUBSCRIBER):
        return False
    if (profile := _profile(pod)) is not None:
        made["securityContext"]["seccompProfile"] = profile
    podedit.containers(pod).append(made)
    return True


def _standing(pod: Object, name: str) -> bool:
    """Whether a container of this name stands in the Pod, as a native sidecar too: names are unique among both."""
    given = (podedit.containers(pod), pod["spec"].get("initContainers"))
    return any(podedit.named(one, name) is not None for one in given)


def _profile(pod: Object) -> Object | None:
    """The seccomp profile that the author gave containers one by one: a namespace that demands it would refuse the Pod
    for a container without."""
    if (pod["spec"].get("securityContext") or {}).get("seccompProfile"):
        return None
    theirs = (one for one in podedit.containers(pod) if one.get("name") not in names.SIDECARS)
    found = ((one.get("securityContext") or {}).get("seccompProfile") for one in theirs)
    return next((one for one in found if one), None)


def _subscribed(pod: Object, backend: CacheBackend, options: Options) -> bool:
    """Whether the subscriber that stands there is ours, from an earlier call for the same Pod."""
    there = podedit.named(podedit.containers(pod), names.SUBSCRIBER)
    return there is not None and options.subscriber_image != "" and _marked(pod, backend)


def _marked(pod: Object, backend: CacheBackend) -> bool:
    annotations = pod.get("metadata", {}).get("annotations") or {}
    return bool(backend.metadata.uid) and annotations.get(names.INJECTED_BY_UID) == backend.metadata.uid


def _warnings(engine: Object, spec: CacheBackendSpec, options: Options) -> list[str]:
    found = []
    if options.subscriber_image and (silent := sidecar.hears_nothing(engine)):
        found.append(silent)
    if _behind_a_shell(engine):
        found.append("the engine is started by a shell script: arguments that are added to it do not reach the engine")
    return found


def _behind_a_shell(engine: Object) -> bool:
    """`sh -c "vllm serve …"`: what is appended becomes a parameter of the script."""
    words = [*(engine.get("command") or [])]
    return len(words) >= 2 and words[0].rsplit("/", 1)[-1] in ("sh", "bash", "dash", "ash") and words[1].endswith("c")


def engine_of(pod: Object, runtime: str) -> Object:
    """The container of the runtime's name, else the only one. Raises Declined."""
    given = podedit.containers(pod)
    name = adapters.ENGINES.get(runtime, "")
    if (found := podedit.named(given, name)) is not None:
        return found
    others = [one for one in given if one.get("name") not in names.SIDECARS]
    if len(others) != 1:
        raise Declined("engine", f"which of {len(given)} containers is the engine? Name it {name}")
    return others[0]


def remote_of(backend: CacheBackend) -> Remote | None:
    """The remote tier: what the spec says of External storage, what was observed of Managed. Raises Declined."""
    given = backend.spec.remote_storage
    if given is None:
        return None
    text = given.endpoint if given.ownership == "External" else backend.status.endpoint
    if not text.strip():
        raise Declined("endpoint", "its endpoint is not known yet; Pods that are created later will be wired")
    try:
        address = endpoint.parse(given.provider, text)
    except endpoint.EndpointError as error:
        raise Declined("endpoint", f"its endpoint {text.strip()!r} cannot be used: {error}") from None
    return Remote(matrix.BINDINGS[given.provider], address)


def _skipped(view: Object) -> Decision:
    after = podedit.editable(view)
    podedit.unannotate(after, names.INJECTED_BY, names.INJECTED_BY_UID)
    podedit.annotate(after, names.INJECT_SKIPPED, "skip-inject-annotation")
    return _between(view, after, "skip-inject")


def _unwired(view: Object, check: str, reason: str) -> Decision:
    after = podedit.editable(view)
    podedit.unannotate(after, *MARKS)
    return _between(view, after, check, reason=reason, warnings=(reason,) if reason else ())


def unmarked(view: Object, decision: Decision) -> Decision:
    """A decision that was not made here, for a Pod that stays as it came; marks that it brought go nevertheless."""
    after = podedit.editable(view)
    podedit.unannotate(after, *MARKS)
    patch = tuple(patches.diff(view, after))
    return msgspec.structs.replace(decision, verdict="patched", patch=patch) if patch else decision


def _between(before: Object, after: Object, check: str, reason: str = "", warnings: tuple[str, ...] = ()) -> Decision:
    patch = tuple(patches.diff(before, after))
    return Decision(
        verdict="patched" if patch else "allowed", check=check, reason=reason, warnings=warnings, patch=patch
    )
