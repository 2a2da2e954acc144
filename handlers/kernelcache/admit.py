"""Kernel Cache's admission: a serving Pod gets the cache that fits it, or a sidecar that captures one, or nothing.

Serving is never blocked: whatever is wrong is a warning and the Pod is admitted as it came.

A decision never sees a real Pod, and hashes of what it sees would be hashes of tokens. So `see` computes the identity
where the real values are, and puts it into the view: factors, hashes and names. `decide` on a real Pod computes it
itself, and both come to the same answer.

Rules: seed 001, "Cache reuse", "Capture"; spec/kernelcache.md section 6. Ours: failurePolicy Ignore; a Pod is decided
on as it was before an earlier call, so that the order of webhooks and reinvocation change nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from crds import core, kernelcache, schema
from crds.kernelcache import KernelCache, KernelCacheCapture, KernelCacheNode
from handlers.admission import patches, podedit
from handlers.admission.decision import Decision, Question
from handlers.admission.view import Allow, View, view
from handlers.kernelcache import (
    capture,
    config,
    environment,
    factors,
    identity,
    inject,
    names,
    naming,
    path,
    placement,
    selection,
)
from handlers.kernelcache.config import Config, Standing
from handlers.kernelcache.identity import Identity
from handlers.kernelcache.inject import Options
from handlers.kernelcache.selection import Candidate
from handlers.outcome import Key, Object
from handlers.world.reader import Reader
from handlers.world.state import Known

#: What decisions and their readers see of a Pod beside its structure and its identity.
ALLOW: Final = Allow(
    annotations=frozenset(
        (
            names.SUPPORTED,
            names.SIDECAR_INJECTION,
            names.NODE_GROUP,
            names.USAGE,
            names.REPORTER_SECRET,
            names.PREFERRED,
        )
    ),
    env=frozenset(
        (
            *(*path.ROOTS, *factors.VARIABLES),
            *("MCV_CAPTURE_MODE", names.CAPTURE_CONFIG, "MCV_READINESS_CONFIG", "MCV_RUNTIME_INFO"),
            *("MCV_REPORTER_ACCESS_FILE", "MCV_KUBERNETES_CA_FILE", "MCV_REGISTRY_ACCESS_FILE"),
            *("MCV_REGISTRY_ALLOWED_ENDPOINT", "MCV_REGISTRY_CA_FILE"),
        )
    ),
)
#: Where the view holds the identity.
FACTS: Final = "kernelCache"


class Pods:
    """`mkernelcache.serving.kserve.io`."""

    name = "mkernelcache.serving.kserve.io"
    kinds = frozenset((core.CONFIG_MAPS, core.NODES, kernelcache.NODES, kernelcache.CACHES, kernelcache.CAPTURES))
    fails_open = True

    def __init__(self, given: Options) -> None:
        self.options = given
        #: Kinds that are not read in the Pod's namespace.
        self.places: Mapping[str, str] = {
            core.CONFIG_MAPS: given.kserve_namespace,
            core.NODES: "",
            kernelcache.NODES: "",
        }

    def see(self, document: Object) -> View:
        """With the identity, computed here because only here are the real values."""
        made = view(document, ALLOW)
        if concerns(document):
            namespace = str((document.get("metadata") or {}).get("namespace") or "")
            made.object[FACTS] = msgspec.to_builtins(identity.of(bare(document), namespace))
            _rooted(document, made.object)
        return made

    def concerned(self, question: Question, world: Reader) -> bool:
        """A supported serving Pod while Kernel Cache is on, or while nobody can tell whether it is."""
        if question.operation != "CREATE" or question.kind != core.PODS or not concerns(question.view or {}):
            return False
        standing = config.standing(world, self.options.kserve_namespace)
        return standing.config.enabled or bool(standing.problem)

    def decide(self, question: Question, world: Reader) -> Decision:
        standing = config.standing(world, self.options.kserve_namespace)
        return decide(question, world, standing, self.options)


def _rooted(document: Object, shown: Object) -> None:
    """Variables that say where a cache lies, with the values that they refer to: those are tokens in a view. Nothing
    here changes a variable of the Pod."""
    for real, seen in zip(podedit.containers(document), podedit.containers(shown), strict=True):
        if any("$" in str(one.get("value") or "") for one in real.get("env") or () if one.get("name") in path.ROOTS):
            values = environment.read(real).values
            seen["env"] = [
                {**one, "value": values[one["name"]]}
                if one.get("name") in path.ROOTS and one["name"] in values
                else one
                for one in seen["env"]
            ]


def concerns(pod: Object) -> bool:
    metadata = pod.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return bool(labels.get(names.SERVICE)) and annotations.get(names.SUPPORTED) == "true"


def bare(pod: Object) -> Object:
    """As it was before an earlier call for the same Pod."""
    found = podedit.editable(pod)
    if isinstance(found.get("spec"), dict):
        inject.remove(found)
        capture.remove(found)
    return found


def decide(question: Question, world: Reader, standing: Standing, given: Options) -> Decision:
    pod = question.view or {}
    warnings = [standing.problem] if standing.problem else []
    if not standing.config.enabled:
        return Decision(verdict="allowed", check="disabled", reason=standing.problem, warnings=tuple(warnings))
    after = bare(pod)
    who = facts(pod, after, question.namespace)
    if who.missing:
        check = who.code
        reason = f"no kernel cache: {who.missing}"
        return _between(pod, after, check, reason, [*warnings, reason])
    judged = judge(after, who, question.namespace, world, standing.config)
    check, reason = "no-cache", explained(judged[1])
    if judged[0] is not None and given.image_volumes:
        made = podedit.editable(after)
        try:
            inject.mount(made, judged[0], given, hostnames(world, judged[0].nodes))
            return _between(pod, made, "mounted", _chosen(judged[0]), warnings)
        except inject.Conflict as why:
            check, reason = "conflict", f"kernel cache {judged[0].cache.metadata.name} is not mounted: {why}"
            warnings.append(reason)
            return _between(pod, after, check, reason, warnings)
    if judged[0] is not None:
        reason = "this cluster has no image volumes (--image-volumes): a cache that fits is not mounted"
        return _between(pod, after, "image-volumes", reason, [*warnings, reason])
    return _captured(question, world, standing.config, pod, after, who, reason, warnings)


def facts(pod: Object, plain: Object, namespace: str) -> Identity:
    """What `see` computed, in the namespace of the question; of a real Pod, computed here."""
    if FACTS in pod:
        return identity.placed(msgspec.convert(pod[FACTS], Identity), namespace)
    return identity.of(plain, namespace)


def judge(
    pod: Object, who: Identity, namespace: str, world: Reader, settings: Config
) -> tuple[selection.Chosen | None, list[Candidate]]:
    """Every cache that the world knows of, for this Pod. Raises Unlisted."""
    asked = selection.Asked(pod, namespace, who, settings.artifact_security.mode, lambda node: labels(world, node))
    caches = [
        _shown(world, key, known.value) for key, known in world.select(kernelcache.CACHES, namespace) if known.value
    ]
    prefix = f"{namespace}/"

    def speaks(known: Known) -> bool:  # of a cache of this namespace
        return known.value is not None and any(key.startswith(prefix) for key in known.value.status.cache_status or ())

    nodes: list[KernelCacheNode] = [known.value for _, known in world.select(kernelcache.NODES, "", speaks)]
    return selection.choose(asked, caches, nodes)


def _shown(world: Reader, key: Key, cache: KernelCache) -> KernelCache:
    """With the status that the world knows: its own last write may be newer than what was observed."""
    if world.applied(key) is None:
        return cache
    status = world.status(key, msgspec.to_builtins(cache.status))
    return msgspec.structs.replace(cache, status=schema.read(status, kernelcache.CacheState))


def labels(world: Reader, node: str) -> dict[str, str] | None:
    known = world.get(core.NODES, "", node)
    return None if known is None or known.value is None else known.value.metadata.labels


def hostnames(world: Reader, nodes: tuple[str, ...]) -> list[str]:
    return sorted((labels(world, node) or {}).get(placement.HOSTNAME, node) for node in nodes)


def _chosen(chosen: selection.Chosen) -> str:
    return (
        f"kernel cache {chosen.cache.metadata.name} by its {chosen.match} footprint, ready on {len(chosen.nodes)} nodes"
    )


def explained(candidates: list[Candidate]) -> str:
    """One line for all candidates."""
    if not candidates:
        return "no kernel cache: this namespace has none"
    shown = "; ".join(f"{one.name}: {one.failed}: {one.detail}" for one in candidates[:5])
    return f"no kernel cache fits: {shown}" + (f"; and {len(candidates) - 5} more" if len(candidates) > 5 else "")


# A producer -----------------------------------------------------------------------------------------------------------


def _captured(
    question: Question, world: Reader, settings: Config, pod: Object, after: Object, who: Identity, reason: str,
    warnings: list[str],
) -> Decision:  # fmt: skip
    wanted, problem = wants_capture(after, settings)
    if problem:
        warnings.append(problem)
    if not wanted:
        return _between(pod, after, "no-cache", reason, warnings)
    try:
        name = capture.name_of(after.get("metadata") or {}, who)
        existing = _existing(world, question.namespace, name) if name else None
        plan = capture.plan(after, question.namespace, who, settings, existing)
        before = capture.session_of(pod)
        session = before[1] if before is not None and before[0] == plan.name else ""
        made = podedit.editable(after)
        capture.add(
            made, plan, question.namespace, who, settings,
            session=session or naming.session(question.uid, question.namespace, plan.name),
        )  # fmt: skip
    except capture.Skipped as why:
        told = why.check not in ("captured",)
        line = f"not captured: {why}"
        return _between(pod, after, f"no-capture-{why.check}", f"{reason}; {line}", [*warnings, *([line] * told)])
    except inject.Conflict as why:
        line = f"not captured: {why}"
        return _between(pod, after, "conflict", f"{reason}; {line}", [*warnings, line])
    return _between(pod, made, "capture", f"{reason}; captured by {plan.name}", warnings)


def _existing(world: Reader, namespace: str, name: str) -> KernelCacheCapture | None:
    known = world.get(kernelcache.CAPTURES, namespace, name)
    if known is None or known.value is None:
        return None
    found: KernelCacheCapture = known.value
    status = world.status(Key(kernelcache.CAPTURES, namespace, name), msgspec.to_builtins(found.status))
    return msgspec.structs.replace(found, status=schema.read(status, kernelcache.CaptureStatus))


def wants_capture(pod: Object, settings: Config) -> tuple[bool, str]:
    """Whether a sidecar may be added, and what is wrong with the annotation that says so."""
    said = ((pod.get("metadata") or {}).get("annotations") or {}).get(names.SIDECAR_INJECTION)
    if said is None or said in ("true", "false"):
        return settings.default_sidecar_injection if said is None else said == "true", ""
    line = f"annotation {names.SIDECAR_INJECTION} is {said[:40]!r}; it must be true or false: no sidecar is added"
    return False, line


def _between(before: Object, after: Object, check: str, reason: str, warnings: list[str]) -> Decision:
    patch: tuple[dict[str, Any], ...] = tuple(patches.diff(before, after))
    return Decision(
        verdict="patched" if patch else "allowed", check=check, reason=reason, warnings=tuple(warnings), patch=patch
    )
