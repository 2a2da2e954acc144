"""The factors of a runtime: what of its launch and environment decides which kernels it compiles.

`option.*` and `env.*` are the contract's. Two are ours: `launchOpaque` stands for a launch that could not be read, and
is equal only for the same launch in the same environment; `othersHash` stands for what the engine's own compile key
depends on beside the contract's factors. Both are part of the compatibility footprint: without them, engines that
compile different kernels would share one.

Rules: seed 000, "Identity factors"; spec/kernelcache.md sections 2.1 to 2.7.
"""

import fnmatch
from typing import Any, Final, NamedTuple

from handlers import canonical
from handlers.kernelcache import environment, launch, names, normalise
from handlers.kernelcache.environment import Environment
from handlers.outcome import Object

#: Variable -> kind of value.
VARIABLES: Final = {
    **dict.fromkeys(
        ("VLLM_USE_AOT_COMPILE", "VLLM_USE_MEGA_AOT_ARTIFACT", "VLLM_USE_STANDALONE_COMPILE",
         "VLLM_ENABLE_PREGRAD_PASSES", "VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE",
         "VLLM_ENABLE_INDUCTOR_COORDINATE_DESCENT_TUNING", "VLLM_BATCH_INVARIANT", "VLLM_TRITON_USE_TD"),
        "bool",
    ),
    "VLLM_FLOAT32_MATMUL_PRECISION": "string",
    "VLLM_PP_LAYER_PARTITION": "string",  # by position: never sorted
    "VLLM_DISABLED_KERNELS": "list",
}  # fmt: skip
#: The engine compiles by these too, unless they match one of the patterns below: places, addresses, logs, secrets.
_COUNTED: Final = ("VLLM_*", "TORCHINDUCTOR_*")
_IGNORED: Final = (
    names.CACHE_ROOT, "*_CACHE_DIR", "VLLM_CONFIG_ROOT", "VLLM_ASSETS_CACHE*", "VLLM_MODEL_REDIRECT_PATH",
    "VLLM_*LOG*", "VLLM_*_IP", "VLLM_*HOST*", "VLLM_*PORT*", "VLLM_*_ADDRESS*", "VLLM_RPC_*", "VLLM_*TIMEOUT*",
    "VLLM_*KEY*", "VLLM_*TOKEN", "VLLM_*SECRET*", "VLLM_*PASSWORD*", "VLLM_*USAGE*", "VLLM_DO_NOT_TRACK",
    "VLLM_DEBUG*", "VLLM_TRACE*", "VLLM_*PROFILER*", "VLLM_*MEDIA*", "VLLM_*_FETCH_*", "VLLM_S3_*", "VLLM_NIXL_*",
    "VLLM_DP_RANK*", "VLLM_DP_MASTER*", "VLLM_SERVER_DEV_MODE", "VLLM_KEEP_ALIVE*", "VLLM_*THREAD*",
    "VLLM_WORKER_MULTIPROC_METHOD", "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_LOOPBACK*", "VLLM_*_STATS*",
)  # fmt: skip


class Runtime(NamedTuple):
    """`sources` tells for every factor where its value was found; `opaque` why the launch could not be read."""

    factors: dict[str, str]
    sources: dict[str, str]
    opaque: tuple[str, ...]


def of(container: Object) -> Runtime:
    """Of the runtime's container: environment first, then options, as the engine would let them win."""
    seen = environment.read(container)
    started = launch.read(container, seen)
    factors, sources, opaque = {}, {}, list(started.opaque)
    others: list[tuple[str, Any]] = list(started.others)
    for name in sorted({*seen.values, *seen.references}):
        if name in VARIABLES and name in seen.values:
            usable = normalise.KINDS[VARIABLES[name]](seen.values[name])
            if usable is not None:
                factors[f"env.{name}"], sources[f"env.{name}"] = usable, f"env {name}"
            if name in seen.unsure:
                opaque.append(f"env {name}: refers to a variable that is not in the manifest")
        others += _other(name, seen)
    for key, given in started.factors.items():
        factors[key], sources[key] = given.value, given.where
    if others:
        factors["othersHash"] = canonical.digest(others)
        sources["othersHash"] = ", ".join(dict.fromkeys(name for name, _ in others))
    if opaque:
        factors["launchOpaque"] = canonical.digest(_whole(container, seen))
        sources["launchOpaque"] = "; ".join(opaque)
    return Runtime(factors, sources, tuple(opaque))


def _other(name: str, seen: Environment) -> list[tuple[str, Any]]:
    """What the engine may read of a variable beyond its factor. It reads some booleans as 1 and nothing else."""
    if not any(fnmatch.fnmatchcase(name, one) for one in _COUNTED) or any(
        fnmatch.fnmatchcase(name, one) for one in _IGNORED
    ):
        return []
    if name in seen.references:
        return [(name, {"valueFrom": seen.references[name]})]
    value = seen.values[name]
    kind = VARIABLES.get(name)
    if kind is None or (kind == "bool" and value not in ("0", "1")):
        return [(name, value)]
    return []


def _whole(container: Object, seen: Environment) -> Object:
    """Everything that a launch which cannot be read may depend on."""
    return {
        "command": container.get("command") or [],
        "args": container.get("args") or [],
        "env": {name: value for name, value in seen.values.items() if name != names.CACHE_ROOT},
        "references": {name: one for name, one in seen.references.items() if name != names.CACHE_ROOT},
        "envFrom": list(seen.sources),
    }
