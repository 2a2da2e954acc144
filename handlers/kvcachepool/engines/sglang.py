"""SGLang: the environment. Its client reads its own address from configuration, and only the environment can hold an
address that is known when the container starts.

The store hangs off the hierarchical cache's host tier: without that switch the first request fails.

Rules: spec/worker-gpustack.md section 3.2.
"""

from typing import Final

from handlers.admission import flags
from handlers.kvcachepool import names
from handlers.kvcachepool.engines.base import Engine, Rendered, Store, dtype, literal
from handlers.outcome import Object

HOSTNAME: Final[Object] = {
    "name": "MOONCAKE_LOCAL_HOSTNAME",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}


def environment(store: Store) -> tuple[Object, ...]:
    tenant = () if store.tenant is None else (literal(names.TENANT, store.tenant),)
    return (
        *tenant,
        literal("MOONCAKE_MASTER", store.master),
        literal("MOONCAKE_TE_META_DATA_SERVER", names.P2P),
        literal("MOONCAKE_PROTOCOL", store.protocol),
        literal("MOONCAKE_DEVICE", ""),
        literal("MOONCAKE_GLOBAL_SEGMENT_SIZE", "0"),
        HOSTNAME,
    )


def rendered(store: Store) -> Rendered:
    """The role changes nothing: the store client does not know roles."""
    return Rendered(
        args=(names.HICACHE_BACKEND, "mooncake", *dtype(store)),
        env=environment(store),
        defaulted=((names.HIERARCHICAL,),),
    )


def starts(argv: tuple[str, ...], program: str) -> bool:
    return program == "python3" and argv[1:3] == ("-m", "sglang.launch_server")


ENGINE: Final = Engine(
    name="sglang",
    family="SGLang",
    starts=starts,
    launch="python3 -m sglang.launch_server …",
    dialect=flags.SGLANG,
    owned_args=(names.HICACHE_BACKEND,),
    owned_env=(),
    source_args=(names.HICACHE_EXTRA,),
    source_env=(names.SGLANG_CONFIG_PATH,),
    staging_mib=16,
    render=rendered,
)
