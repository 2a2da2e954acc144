"""Which cache a Pod gets: every candidate, the check that it failed, and the one that is chosen.

A candidate is a KernelCache of the Pod's namespace, or what a node says it has of one. The checks run in this order and
the first that fails is named:

gone           the object exists
footprints     workload or compatibility agrees
mount-type     oci
paths          it has some; each resolves in the Pod (else: the code of handlers.kernelcache.path)
path-differs   each is where this engine would look
verification   its signature was checked, where that is asked
node           a node has it ready, as the object describes it
placement      the Pod may run on one of those nodes
hardware       one of those has the accelerator and CPU that the kernels were compiled on (unknown is no reason)

Workload matches come before compatibility matches, newer caches before older ones, then by name.

Rules: seed 000, "Admission selection order"; spec/kernelcache.md section 2.8.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from crds.kernelcache import (
    CacheStatus,
    Footprints,
    KernelCache,
    KernelCacheNode,
    KernelCachePath,
    NodeStatus,
    Producer,
    Reference,
)
from handlers.kernelcache import footprint, names, path, placement
from handlers.kernelcache.identity import Identity
from handlers.kernelcache.path import PathError, Resolved
from handlers.outcome import Object

Labels = Callable[[str], Mapping[str, str] | None]
_PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """`failed` is "" for the one that was chosen, and "not-chosen" for one that was as good and came later."""

    name: str
    match: str = ""
    failed: str = ""
    detail: str = ""
    nodes: tuple[str, ...] = ()


class Chosen(NamedTuple):
    cache: KernelCache
    match: str
    paths: tuple[Resolved, ...]
    nodes: tuple[str, ...]


class Failed(Exception):
    def __init__(self, check: str, detail: str) -> None:
        super().__init__(detail)
        self.check = check


class Asked(NamedTuple):
    """What is being asked about. `labels` gives a node's, None where it is not known."""

    pod: Object
    namespace: str
    identity: Identity
    mode: str  # of artifactSecurity
    labels: Labels


def choose(
    asked: Asked, caches: Iterable[KernelCache], nodes: Sequence[KernelCacheNode]
) -> tuple[Chosen | None, list[Candidate]]:
    """The choice and every candidate, by name."""
    objects = {one.metadata.name: one for one in caches if one.metadata.namespace == asked.namespace}
    passed: list[Chosen] = []
    failed: list[Candidate] = []
    for name in sorted({*objects, *named(nodes, asked.namespace)}):
        match = ""
        try:
            cache = existing(objects.get(name))
            match = agrees(asked.identity, cache)
            passed.append(Chosen(cache, match, *checked(asked, cache, nodes)))
        except Failed as why:
            failed.append(Candidate(name, match, why.check, str(why)))
    passed.sort(key=lambda one: one.cache.metadata.name)
    passed.sort(key=lambda one: one.cache.metadata.creation_timestamp, reverse=True)
    passed.sort(key=lambda one: one.match != "workload")
    return (passed[0] if passed else None), sorted([*failed, *_told(passed)], key=lambda one: one.name)


def _told(passed: list[Chosen]) -> list[Candidate]:
    found = []
    for number, one in enumerate(passed):
        detail = f"{passed[0].cache.metadata.name} comes first" if number else ""
        found.append(Candidate(one.cache.metadata.name, one.match, "not-chosen" if number else "", detail, one.nodes))
    return found


Held = Sequence[tuple[KernelCacheNode, CacheStatus]]


def named(nodes: Sequence[KernelCacheNode], namespace: str) -> set[str]:
    """Caches of a namespace that nodes speak of. Theirs are many: keys are compared, entries are not looked at."""
    prefix = f"{namespace}/"
    keys = set[str]().union(*(one.status.cache_status or () for one in nodes))
    return {key.removeprefix(prefix) for key in keys if key.startswith(prefix)} - {""}


def held(nodes: Sequence[KernelCacheNode], namespace: str, name: str) -> Held:
    """What nodes have of one cache."""
    reference, key = Reference(namespace, name), f"{namespace}/{name}"
    found = ((one, (one.status.cache_status or {}).get(key)) for one in nodes)
    return [(one, entry) for one, entry in found if entry is not None and entry.kernel_cache_ref == reference]


def existing(cache: KernelCache | None) -> KernelCache:
    if cache is None:
        raise Failed("gone", "a node has it, but the KernelCache does not exist")
    return cache


def agrees(identity: Identity, cache: KernelCache) -> str:
    match = footprint.matches(identity.footprints, cache.spec.artifact.footprints)
    if match:
        return match
    if identity.missing:
        raise Failed("footprints", f"the Pod has no identity: {identity.missing}")
    if identity.footprints == Footprints():
        raise Failed("footprints", f"the Pod's image is floating ({identity.factors.get('runtimeImage', '')}): pin it")
    known = cache.spec.artifact.identity.factors if cache.spec.artifact.identity is not None else None
    raise Failed("footprints", _difference(identity.factors, known or {}))


def _difference(pod: Mapping[str, str], cache: Mapping[str, str]) -> str:
    """Factors that must agree and do not."""
    keys = sorted((pod.keys() | cache.keys()) - footprint.WORKLOAD_ONLY)
    differing = [key for key in keys if pod.get(key) != cache.get(key)]
    if not cache or not differing:
        return "its footprints are others; its factors do not tell why"
    said = [f"{key} is {_short(pod.get(key))} here and {_short(cache.get(key))} there" for key in differing[:4]]
    more = f", and {len(differing) - 4} more differ" if len(differing) > 4 else ""
    return "; ".join(said) + more


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= 80 else value[:77] + "…"


def checked(
    asked: Asked, cache: KernelCache, nodes: Sequence[KernelCacheNode]
) -> tuple[tuple[Resolved, ...], tuple[str, ...]]:
    """Where it goes and the nodes that are ready for it. Raises Failed."""
    if cache.spec.mount_type not in ("", "oci"):
        raise Failed("mount-type", f"mountType {cache.spec.mount_type} is not oci")
    places = resolved(asked.pod, cache)
    verified(asked.mode, cache)
    ready = prepared(cache, held(nodes, asked.namespace, cache.metadata.name))
    allowed = [node for node in ready if placement.allows(asked.pod, node.metadata.name, asked.labels(_name(node)))]
    if not allowed:
        raise Failed("placement", f"the Pod may not run where it is ready: {_listed(ready)}")
    fitting = [node for node in allowed if fits(cache.spec.artifact.producer, node.status, asked.labels(_name(node)))]
    if not fitting:
        raise Failed("hardware", f"made on {_made_on(cache)}; of that kind is none of {_listed(allowed)}")
    return places, tuple(sorted(map(_name, fitting)))


def _name(node: KernelCacheNode) -> str:
    return node.metadata.name


def _listed(nodes: Sequence[KernelCacheNode]) -> str:
    shown = ", ".join(sorted(map(_name, nodes))[:5])
    return shown if len(nodes) <= 5 else f"{shown} and {len(nodes) - 5} more"


def resolved(pod: Object, cache: KernelCache) -> tuple[Resolved, ...]:
    """Raises Failed. A path where this engine would not look is a cache that it would not find."""
    if not cache.spec.artifact.paths:
        raise Failed("paths", "it has no cachePaths")
    found: list[Resolved] = []
    for one in cache.spec.artifact.paths:
        try:
            at = path.resolve(one, pod)
            _looked_at(pod, at)
            path.mounted(pod, at)
        except PathError as error:
            raise Failed(error.code, str(error)) from None
        for other in found:
            if other.container == at.container and path.overlap(other.container_path, at.container_path):
                raise Failed("paths", f"{other.container_path} and {at.container_path} lie in each other")
        found.append(at)
    return tuple(found)


def _looked_at(pod: Object, at: Resolved) -> None:
    if at.oci_path != names.VLLM_TREE:
        return
    expected = path.resolve(KernelCachePath(), pod)
    if at.container != expected.container:
        raise Failed("path-differs", f"it belongs in container {at.container}; the runtime is {expected.container}")
    if at.container_path != expected.container_path:
        raise Failed(
            "path-differs", f"it belongs at {at.container_path}; this engine looks at {expected.container_path}"
        )


def verified(mode: str, cache: KernelCache) -> None:
    if mode in ("", "none"):
        return
    found = cache.status.verification
    if found is None or not (found.mode == mode and found.state == "Succeeded" and found.verified):
        said = "was not done" if found is None else f"is {found.mode} {found.state or 'unknown'}"
        raise Failed("verification", f"artifactSecurity.mode is {mode}; its verification {said}")


def prepared(cache: KernelCache, entries: Held) -> list[KernelCacheNode]:
    """Nodes that have exactly this artifact ready. Raises Failed."""
    ready = [(node, entry) for node, entry in entries if entry.state == "Ready"]
    if not entries:
        raise Failed("node", "no node has it")
    if not ready:
        said = ", ".join(f"{_name(node)} {entry.state or 'unknown'}" for node, entry in entries[:5])
        raise Failed("node", f"no node has it ready: {said}")
    artifact = cache.spec.artifact
    found = [
        node
        for node, entry in ready
        if entry.image_reference == artifact.image_reference and entry.footprints == artifact.footprints
    ]
    if not found:
        raise Failed("node", f"what is ready on {_listed([node for node, _ in ready])} is another artifact")
    return found


def fits(producer: Producer | None, node: NodeStatus, labels: Mapping[str, str] | None) -> bool:
    """Whether kernels of this producer can run there. What is unknown on either side is no reason against it."""
    if producer is None:
        return True
    known = labels or {}
    cpu = node.cpu_arch or known.get("kubernetes.io/arch", "")
    products = {one.product for one in node.accelerators or () if one.product}
    products |= {known[label] for label in _PRODUCT_LABELS if known.get(label)}
    architectures = {one.arch for one in node.accelerators or () if one.arch}
    if producer.cpu_arch and cpu and producer.cpu_arch != cpu:
        return False
    if producer.accelerator_arch and architectures:
        return producer.accelerator_arch in architectures
    return not (producer.accelerator_product and products) or producer.accelerator_product in products


def _made_on(cache: KernelCache) -> str:
    made = cache.spec.artifact.producer or Producer()
    return " ".join(filter(None, (made.accelerator_product, made.accelerator_arch, made.cpu_arch)))
