"""What is admitted, and may not do what its author expects: one line each, never a refusal.

The reference is blind to all of these. Figures were read in the engines' own sources.

Rules: seed 003, "Workload impact", "Tenant compatibility", "Verify the vLLM file vehicle", "Engine prefix caching";
spec/worker-gpustack.md section 8.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from handlers import quantity
from handlers.admission import flags
from handlers.kvcachepool import names, owned
from handlers.kvcachepool.engines.base import Engine
from handlers.outcome import Object

MIB: Final = 1 << 20


class Image(NamedTuple):
    """An engine's official image; versions are the first whose source reads what is injected, () where none does."""

    repository: str
    reader: tuple[int, ...]
    tenant: tuple[int, ...]


#: Read in the wheels of vllm 0.14-0.33, sglang 0.4.8-0.5.23 and vllm-ascend 0.11-0.23.
IMAGES: Final = {
    "vllm": Image("vllm/vllm-openai", (0, 21, 0), (0, 28, 0)),
    "vllm-ascend": Image("ascend/vllm-ascend", (0, 13, 0), ()),
    "sglang": Image("lmsysorg/sglang", (0, 4, 10), (0, 5, 17)),
}
_TAG: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:\.post\d+)?", re.ASCII)
_REGISTRIES: Final = ("docker.io/", "index.docker.io/", "quay.io/")

#: Data types that an engine's own parser is known to refuse.
REFUSED_DTYPES: Final = {"vllm": ("bf16",), "vllm-ascend": ("bf16",), "sglang": ("fp8", "float16")}


def warnings(engine: Engine, container: Object, protocol: str, dtype: str | None, tenant: str | None) -> list[str]:
    """At most 240 characters each."""
    return [
        *_offloading(engine, container),
        *_image(engine, container, tenant),
        *_dtype(engine, dtype),
        *_environment_source(container),
        *_device(container, protocol),
        *_memory(engine, container),
    ]


def _offloading(engine: Engine, container: Object) -> Iterator[str]:
    """vLLM then replaces the connector, in silence: there is one."""
    others = (*engine.keys, "--kv-offloading-backend")
    if engine.file and flags.hits(owned.words(container), (names.OFFLOADING,), engine.dialect, others):
        yield (
            f"{names.OFFLOADING} makes vLLM replace the injected connector: the shared cache will not be used; "
            "choose one of the two and remove the other"
        )


def _image(engine: Engine, container: Object, tenant: str | None) -> Iterator[str]:
    """Official images with a plain version tag only: any other may hold anything."""
    known, image = IMAGES[engine.name], str(container.get("image", ""))
    repository, _, tag = image.partition("@")[0].rpartition(":")
    for registry in _REGISTRIES:
        repository = repository.removeprefix(registry)
    found = _TAG.fullmatch(tag)
    if repository != known.repository or found is None:
        return
    version = tuple(map(int, found.groups()))
    if version < known.reader:
        yield (
            f"image {image}: {engine.name} reads the injected configuration from {dotted(known.reader)} on; this Pod "
            "will not use the cache"
        )
    elif tenant not in (None, "default") and (not known.tenant or version < known.tenant):
        since = f"from {dotted(known.tenant)} on" if known.tenant else "in no release known here"
        yield (
            f'image {image}: {engine.name} reads the tenant {since}; it will use "default" instead of "{tenant}", '
            "which needs a Binding of that domain"
        )


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _dtype(engine: Engine, dtype: str | None) -> Iterator[str]:
    if dtype in REFUSED_DTYPES[engine.name]:
        yield f"{engine.name} does not take {names.DTYPE} {dtype}, the Binding's spec.domain.dtype: it will not start"


def _environment_source(container: Object) -> Iterator[str]:
    if container.get("envFrom"):
        yield (
            "envFrom cannot be looked into: a MOONCAKE_ variable in it is overwritten, or selects another "
            "configuration, without a sign; declare such variables in env"
        )


def _device(container: Object, protocol: str) -> Iterator[str]:
    if protocol not in ("rdma", "efa"):
        return
    asked = [*_amounts(container, "limits"), *_amounts(container, "requests")]
    if not any(word in str(name) for name in asked for word in ("rdma", "efa", "hca")):
        yield f"the pool's transport is {protocol}; the injection grants no device: request its plugin's resource"


def _memory(engine: Engine, container: Object) -> Iterator[str]:
    """Staging is charged to the container and placed by its request: both have to hold it."""
    limit, request = (_quantity(_amounts(container, part).get("memory")) for part in ("limits", "requests"))
    staging = Fraction(engine.staging_mib * MIB)
    if request is None:
        request = limit  # as the API server fills it in
    if limit is not None and request is not None and limit - request == staging:
        yield (
            f"limits.memory is {engine.staging_mib} MiB above requests.memory: the scheduler places by requests; raise "
            "both for the store's staging"
        )
        return
    said = [_said(name, value, staging) for name, value in (("requests", request), ("limits", limit))]
    tier = ", and its host tier is pinned beside that" if not engine.file else ""
    yield f"the store takes {engine.staging_mib} MiB of host memory{tier}: {'; '.join(said)}"


def _amounts(container: Object, part: str) -> Object:
    resources = container.get("resources")
    found = resources.get(part) if isinstance(resources, dict) else None
    return found if isinstance(found, dict) else {}


def _said(name: str, value: Fraction | None, staging: Fraction) -> str:
    if value is None:
        return f"{name}.memory is not set: {int(staging) // MIB} MiB missing" if name == "requests" else "no limit"
    if value < staging:
        return f"{name}.memory lacks {-int(-(staging - value) // MIB)} MiB"
    return f"{name}.memory must include it"


def _quantity(value: Any) -> Fraction | None:
    try:
        return None if value is None else quantity.parse(value)
    except quantity.QuantityError:
        return None
