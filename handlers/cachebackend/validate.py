"""What a CacheBackend may say, beyond its schema: one small check per rule, all violations together.

An update refuses only what it introduces: a violation that the stored object has already, with the same value, stays.
The schema's own rules are the API server's; `crds.schema.violations` applies them where there is none.

Rules: seed 004, "Validating"; spec/inferencecache.md section 6.3. Each check carries its rule in its docstring.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from crds.cachebackend import CacheBackend, CacheBackendSpec, EnvVar, RemoteStorage
from handlers import quantity
from handlers.admission.decision import Violation
from handlers.cachebackend import endpoint, matrix, names, resources

Found = Iterator[Violation]
STORAGE: Final = "spec.remoteStorage"
OVERRIDES: Final = "spec.integration.engineOverrides"
BLOCKS: Final = {"Redis": "redis", "LMCacheServer": "lmCacheServer", "Mooncake": "mooncake"}


def violations(backend: CacheBackend) -> list[Violation]:
    """Every violation, in the order of the checks."""
    return [one for check in CHECKS for one in check(backend)]


def introduced(new: CacheBackend, old: CacheBackend) -> list[Violation]:
    """Violations of an update that the old object does not have, told apart by type, field, value and detail."""
    before = violations(old)
    return [one for one in violations(new) if one not in before]


def warnings(backend: CacheBackend) -> list[str]:
    """What is admitted, and will not do what its author expects. At most 120 characters each."""
    storage, found = backend.spec.remote_storage, []
    if storage is not None and storage.provider == "Mooncake" and not backend.spec.wiring.engine_host_network:
        found.append(
            "Mooncake moves no KV until spec.integration.engineHostNetwork is true: engines need the host network"
        )
    if backend.spec.deployment_kind == "StatefulSet" and storage is not None and storage.ownership == "Managed":
        found.append("spec.deploymentKind StatefulSet is not managed: no workload is made for it; use Deployment")
    return found


def hierarchy(backend: CacheBackend) -> Found:
    """Cache settings belong to their cache type; only a workload can be scaled."""
    spec = backend.spec
    if spec.autoscaling is not None and spec.remote_storage is None:
        yield Violation("Forbidden", "spec.autoscaling", "there is no workload to scale without spec.remoteStorage")
    if spec.lm_cache is not None and spec.type != "LMCache":
        yield Violation("Forbidden", "spec.lmCache", f"belongs to type LMCache, this is {spec.type}")
    if spec.hi_cache is not None and spec.type != "SGLangHiCache":
        yield Violation("Forbidden", "spec.hiCache", f"belongs to type SGLangHiCache, this is {spec.type}")
    capacity = spec.lm_cache.host_memory.capacity if spec.lm_cache and spec.lm_cache.host_memory else None
    if capacity is not None:
        yield from _positive(capacity, "spec.lmCache.hostMemory.capacity")


def _positive(value: str | int, at: str) -> Found:
    try:
        if quantity.parse(value) <= 0:
            yield Violation("Invalid", at, "must be greater than 0", str(value))
    except quantity.QuantityError as error:
        yield Violation("Invalid", at, str(error), str(value))


def storage(backend: CacheBackend) -> Found:
    """Who owns the remote tier decides who says its endpoint, and whose settings may stand there."""
    given = backend.spec.remote_storage
    if given is None:
        return
    if not given.provider:
        yield Violation("Required", f"{STORAGE}.provider", "must be one of Redis, LMCacheServer, Mooncake")
    if not given.ownership:
        yield Violation("Required", f"{STORAGE}.ownership", "must be Managed or External")
    yield from _endpoint(given)
    for provider, block in BLOCKS.items():
        if _block(given, provider) is None:
            continue
        if provider != given.provider:
            detail = f"belongs to provider {provider}, this is {given.provider}"
            yield Violation("Forbidden", f"{STORAGE}.{block}", detail)
        if given.ownership == "External":
            yield Violation("Forbidden", f"{STORAGE}.{block}", "External storage is not rendered: nothing would use it")


def _block(given: RemoteStorage, provider: str) -> Any:
    blocks = {"Redis": given.redis, "LMCacheServer": given.lm_cache_server, "Mooncake": given.mooncake}
    return blocks.get(provider)


def _endpoint(given: RemoteStorage) -> Found:
    at = f"{STORAGE}.endpoint"
    blank = not given.endpoint.strip()
    if given.ownership == "Managed" and not blank:
        detail = "must not be set for Managed storage: it is the Service that is made for it"
        yield Violation("Forbidden", at, detail)
    if given.ownership != "External":
        return
    if blank:
        yield Violation("Required", at, "External storage needs its host:port")
    elif given.provider in BLOCKS:
        try:
            endpoint.parse(given.provider, given.endpoint)
        except endpoint.EndpointError as error:
            yield Violation("Invalid", at, str(error), given.endpoint)


def namespace_crossing(backend: CacheBackend) -> Found:
    """A Service of another namespace needs allowCrossNamespace; names that tell no namespace pass."""
    given = backend.spec.remote_storage
    if given is None or backend.spec.allow_cross_namespace:
        return
    other = endpoint.namespace_of(given.endpoint)
    if other and other != backend.metadata.namespace:
        detail = f"is a Service of namespace {other}; set spec.allowCrossNamespace to reach it from here"
        yield Violation("Forbidden", f"{STORAGE}.endpoint", detail, given.endpoint)


def commands(backend: CacheBackend) -> Found:
    """A command that replaces the provider's has at least one element, and none is blank."""
    given = backend.spec.remote_storage
    if given is None or given.ownership != "Managed":
        return
    command = getattr(_block(given, given.provider), "command", None)
    if command is None:
        return
    at = f"{STORAGE}.{BLOCKS[given.provider]}.command"
    if not command:
        yield Violation("Invalid", at, "must have at least one element")
    for number, one in enumerate(command):
        if not one.strip():
            yield Violation("Invalid", f"{at}[{number}]", "must not be blank", one)


def scaling(backend: CacheBackend) -> Found:
    """Zero replicas under an autoscaler need their floor said; what cannot be doubled is a singleton."""
    spec = backend.spec
    if spec.autoscaling is not None and spec.replicas == 0 and spec.autoscaling.min_replicas is None:
        detail = "must be set when spec.replicas is 0; or remove spec.autoscaling to scale to zero"
        yield Violation("Required", "spec.autoscaling.minReplicas", detail)
    why = _singleton(spec)
    if why and spec.replicas is not None and spec.replicas > 1:
        yield Violation("Invalid", "spec.replicas", f"must be 0 or 1: {why}", spec.replicas)
    if why and spec.autoscaling is not None:
        yield Violation("Invalid", "spec.autoscaling", f"must not be set: {why}")


def _singleton(spec: CacheBackendSpec) -> str:
    """Why a managed workload cannot have two replicas, "" when it can."""
    given = spec.remote_storage
    if given is None or given.ownership != "Managed":
        return ""
    if given.provider == "Mooncake":
        return "a second Mooncake master would be a store of its own"
    if given.provider == "Redis" and (spec.runtime, spec.type) == ("SGLang", "LMCache") and spec.offload:
        return "a second Redis would be a store of its own"
    return ""


def host_network(backend: CacheBackend) -> Found:
    """engineHostNetwork is for Mooncake alone, so that it can never sit there without effect."""
    given = backend.spec.remote_storage
    if backend.spec.wiring.engine_host_network and (given is None or given.provider != "Mooncake"):
        detail = "only engines of a Mooncake remoteStorage need the host network"
        yield Violation("Invalid", "spec.integration.engineHostNetwork", detail, True)


def provider_resources(backend: CacheBackend) -> Found:
    """The rendered container's resources, judged as the API server would. Another provider's block is refused whole."""
    given = backend.spec.remote_storage
    asked = getattr(_block(given, given.provider), "resources", None) if given else None
    if given is not None and asked is not None:
        yield from resources.violations(asked, f"{STORAGE}.{BLOCKS[given.provider]}.resources")


def events_only(backend: CacheBackend) -> Found:
    """EventsOnly wires no connector and runs no server: what would need one contradicts it."""
    spec = backend.spec
    if spec.offload:
        return
    if spec.type != "LMCache":
        yield Violation("Forbidden", "spec.integration.mode", f"EventsOnly needs type LMCache, this is {spec.type}")
    if spec.autoscaling is not None:
        yield Violation("Forbidden", "spec.autoscaling", "EventsOnly runs no server to scale")
    if spec.remote_storage is not None:
        yield Violation("Forbidden", STORAGE, "EventsOnly wires no remote tier")


def hicache(backend: CacheBackend) -> Found:
    """SGLang's own host cache: exactly one capacity, inside the engine, always read and write, always fail open."""
    spec = backend.spec
    if spec.type != "SGLangHiCache":
        return
    yield from _hicache_capacity(spec)
    if spec.runtime != "SGLang":
        yield Violation("Invalid", "spec.runtime", "SGLangHiCache needs runtime SGLang", spec.runtime)
    if not spec.labels:
        yield Violation("Required", "spec.engineSelector.matchLabels", "must select the engines: nothing else is wired")
    if spec.autoscaling is not None:
        yield Violation("Forbidden", "spec.autoscaling", "SGLangHiCache runs no workload to scale")
    wiring = spec.wiring
    if wiring.mode != "Offload":
        yield Violation("NotSupported", "spec.integration.mode", 'supported values: "Offload"', wiring.mode)
    if wiring.role != "ReadWrite":
        yield Violation("NotSupported", "spec.integration.role", 'supported values: "ReadWrite"', wiring.role)
    if not wiring.fail_open:
        yield Violation("NotSupported", "spec.integration.failOpen", 'supported values: "true"', False)


def _hicache_capacity(spec: CacheBackendSpec) -> Found:
    given = spec.hi_cache
    if given is None or (given.size_gb is None and not given.ratio):
        yield Violation("Required", "spec.hiCache", "exactly one of sizeGB and ratio must be set")
        return
    if given.size_gb is not None and given.ratio:
        yield Violation("Invalid", "spec.hiCache", "sizeGB and ratio exclude each other")
    if given.size_gb is not None and given.size_gb < 1:
        yield Violation("Invalid", "spec.hiCache.sizeGB", "must be at least 1", given.size_gb)
    if given.ratio and not _is_ratio(given.ratio):
        yield Violation("Invalid", "spec.hiCache.ratio", "must be a finite number greater than 0", given.ratio)


def _is_ratio(text: str) -> bool:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
        return False
    return math.isfinite(float(text)) and float(text) > 0


def annotation(backend: CacheBackend) -> Found:
    """The kernel check has four modes."""
    value = backend.metadata.annotations.get(names.KERNEL_CHECK, "")
    if value not in names.KERNEL_CHECK_VALUES:
        detail = "must be auto, report-only, strict or off"
        yield Violation("Invalid", f"metadata.annotations[{names.KERNEL_CHECK}]", detail, value)


def pair(backend: CacheBackend) -> Found:
    """Runtime and cache type have an adapter, the adapter speaks the tier's protocol, and it knows the role."""
    spec = backend.spec
    found = matrix.pair_of(spec)
    if found is None:
        listed = ", ".join(map(str, matrix.PAIRS))
        yield Violation("Invalid", "spec.runtime", f"{spec.runtime} with {spec.type} is none of {listed}", spec.runtime)
        return
    given = spec.remote_storage
    if given is not None and given.provider in matrix.BINDINGS:
        binding = matrix.BINDINGS[given.provider]
        if binding not in found.bindings:
            takes = (
                ", ".join(sorted(p for p, b in matrix.BINDINGS.items() if b in found.bindings)) or "no remote storage"
            )
            detail = f"{found} cannot use {given.provider}; it takes {takes}"
            yield Violation("Invalid", f"{STORAGE}.provider", detail, given.provider)
    if (found.runtime, found.type) == ("SGLang", "LMCache") and spec.wiring.role != "ReadWrite":
        detail = "SGLang's LMCache always reads and writes: use ReadWrite"
        yield Violation("Invalid", "spec.integration.role", detail, spec.wiring.role)


def overrides(backend: CacheBackend) -> Found:
    """Overrides may tune what is injected and may not take the wiring out."""
    given, found = backend.spec.wiring.engine_overrides, matrix.pair_of(backend.spec)
    if given is None:
        return
    for number, one in enumerate(given.env or ()):
        yield from _env(one, f"{OVERRIDES}.env[{number}]")
    if found is None:
        return  # what is reserved is the pair's; that there is none is told by `pair`
    for below, words in (("args", given.args), ("suppressArgs", given.suppress_args)):
        for number, word in enumerate(words or ()):
            flag = word.split("=", 1)[0].strip()
            if flag in found.reserved_args:
                yield Violation("Forbidden", f"{OVERRIDES}.{below}[{number}]", f"{flag} is reserved by {found}", word)
    for number, one in enumerate(given.env or ()):
        if one.name in found.reserved_env:
            at = f"{OVERRIDES}.env[{number}].name"
            yield Violation("Forbidden", at, f"{one.name} is reserved by {found}", one.name)
    for number, name in enumerate(given.suppress_env or ()):
        if name in found.reserved_env:
            yield Violation("Forbidden", f"{OVERRIDES}.suppressEnv[{number}]", f"{name} is reserved by {found}", name)


#: Names that every supported Kubernetes takes; since 1.34 all take nearly any printable one.
_NAME: Final = re.compile(r"(?!\.\.)[-._A-Za-z][-._A-Za-z0-9]*", re.ASCII)
SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _env(one: EnvVar, at: str) -> Found:
    """An environment variable as the API server would judge it."""
    if not one.name:
        yield Violation("Required", f"{at}.name", "must be set")
    elif not _NAME.fullmatch(one.name) or one.name == ".":
        detail = "must be letters, digits, '_', '-' and '.', and not begin with a digit or '..'"
        yield Violation("Invalid", f"{at}.name", detail, one.name)
    if one.value_from is None:
        return
    if one.value:
        yield Violation("Invalid", at, "value and valueFrom exclude each other")
    sources = [name for name in SOURCES if one.value_from.get(name) is not None]
    if not sources:
        yield Violation("Required", f"{at}.valueFrom", f"must have one of {', '.join(SOURCES)}")
    elif len(sources) > 1:
        yield Violation("Invalid", f"{at}.valueFrom", f"must have one source, it has {', '.join(sources)}")


CHECKS: Final[tuple[Callable[[CacheBackend], Found], ...]] = (
    hierarchy,
    storage,
    namespace_crossing,
    commands,
    scaling,
    host_network,
    provider_resources,
    events_only,
    hicache,
    annotation,
    pair,
    overrides,
)
