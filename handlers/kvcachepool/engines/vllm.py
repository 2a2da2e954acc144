"""vLLM: a file, which the Pod projects from its own annotation. vLLM finds its own address when it starts.

Every key is written: two of the defaults are 4 GiB of host memory each, which no resources field shows.

Rules: spec/worker-gpustack.md section 3.1.
"""

from typing import Any, Final

import msgspec

from handlers.admission import flags
from handlers.kvcachepool import names
from handlers.kvcachepool.engines.base import Engine, Rendered, Store, dtype, literal

ROLES: Final = {"": "kv_both", "Prefill": "kv_producer", "Decode": "kv_consumer"}
CONNECTOR: Final = "MooncakeStoreConnector"


def document(store: Store) -> dict[str, Any]:
    """The client's configuration file."""
    found = {
        "metadata_server": names.P2P,
        "master_server_address": store.master,
        "protocol": store.protocol,
        "device_name": "",  # every device found: a name is right for one host of a pool only
        "mode": "standalone-store",
        "global_segment_size": 0,
        "local_buffer_size": names.STAGING,
    }
    return found if store.tenant is None else {**found, "tenant_id": store.tenant}


def connector(name: str, role: str) -> dict[str, Any]:
    return {"kv_connector": name, "kv_role": ROLES[role]}


def text(config: dict[str, Any]) -> str:
    return msgspec.json.encode(config).decode()


def transfer(config: dict[str, Any]) -> tuple[str, ...]:
    return (names.KV_TRANSFER, text(config))


def rendered(store: Store, name: str = CONNECTOR) -> Rendered:
    return Rendered(
        args=(*transfer(connector(name, store.role)), *dtype(store)),
        env=(literal(names.CONFIG_PATH, f"{names.DIRECTORY}/{names.FILE}"),),
        config=document(store),
    )


def starts(argv: tuple[str, ...], program: str) -> bool:
    return program == "vllm"


ENGINE: Final = Engine(
    name="vllm",
    family="vLLM",
    starts=starts,
    launch="vllm serve …",
    dialect=flags.VLLM,
    owned_args=(names.KV_TRANSFER,),
    owned_env=(names.CONFIG_PATH,),
    source_args=(),
    source_env=(),
    staging_mib=128,
    render=rendered,
    file=True,
)
