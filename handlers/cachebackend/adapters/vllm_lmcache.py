"""vLLM with LMCache's connector inside the engine: host memory, and a remote tier by lm:// or mooncakestore://.

One argument and eight environment variables. Mooncake dials engines on ports of its own choice, so an engine of it may
have to move to the host network; that happens only together with the wiring, and only when it was asked for.

Rules: seed 004, "Mooncake provider configuration"; spec/inferencecache.md section 6.6.
"""

import json
from typing import Any, Final

from crds.cachebackend import CacheBackendSpec
from handlers.admission import podedit
from handlers.cachebackend.adapters.base import Declined, Remote, host_gib
from handlers.outcome import Object

ROLES: Final = {"ReadOnly": "kv_consumer", "WriteOnly": "kv_producer", "ReadWrite": "kv_both"}
URL: Final = "LMCACHE_REMOTE_URL"
DEFAULT_GIB: Final = 20


def inject(pod: Object, engine: Object, spec: CacheBackendSpec, remote: Remote | None) -> None:
    moved = remote is not None and remote.binding == "mooncakestore" and spec.wiring.engine_host_network
    if moved and (why := _cannot_move(pod)):
        raise Declined("host-network", f"it moves engines to the host network: {why}")
    connector = {"kv_connector": "LMCacheConnectorV1", "kv_role": ROLES[spec.wiring.role]}
    podedit.set_flag(engine, "--kv-transfer-config", json.dumps(connector, separators=(",", ":")))
    if remote is None:
        podedit.remove(engine, "env", URL)
    else:
        podedit.set_env(engine, URL, remote.url)
    for name, value in settings(spec).items():
        podedit.set_env(engine, name, value)
    if moved:
        pod["spec"]["hostNetwork"] = True
        pod["spec"]["dnsPolicy"] = "ClusterFirstWithHostNet"


def _cannot_move(pod: Object) -> str:
    """Why API servers would refuse this Pod on the host network, "" when they would not."""
    if pod["spec"].get("hostUsers") is False:
        return "hostUsers is false, and user namespaces exclude it"
    taken: set[tuple[Any, ...]] = set()
    for container in podedit.containers(pod):
        for port in container.get("ports") or []:
            number = port.get("containerPort")
            if port.get("hostPort") not in (None, 0, number):
                return f"hostPort {port['hostPort']} would have to be containerPort {number}"
            place = (port.get("protocol", "TCP"), port.get("hostIP", ""), number)
            if place in taken:
                return f"two containers have port {number}"
            taken.add(place)
    return ""


def settings(spec: CacheBackendSpec) -> dict[str, str]:
    """Environment in the order in which it is injected, after the URL."""
    given = spec.lm_cache
    capacity = given.host_memory.capacity if given and given.host_memory else None
    local = capacity is not None or spec.remote_storage is None
    return {
        "LMCACHE_REMOTE_SERDE": (given.remote_serde if given else "") or "naive",
        "LMCACHE_CHUNK_SIZE": str((given.chunk_size_tokens if given else None) or 256),
        "LMCACHE_LOCAL_CPU": str(local),
        "LMCACHE_MAX_LOCAL_CPU_SIZE": str(host_gib(spec, default=DEFAULT_GIB)),
        "VLLM_USE_V1": "1",
        "INFERENCECACHE_FAIL_OPEN": str(spec.wiring.fail_open).lower(),
        "PYTHONHASHSEED": "0",
    }
