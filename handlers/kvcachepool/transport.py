"""Which transport a store offers, in the store's own spelling, and which of them an engine can use.

Rules: seed 003, "Transport compatibility at binding"; spec/worker-gpustack.md section 6; refusal R31.
"""

from typing import Final

from crds.kvcache import KVCacheBackend
from handlers.kvcachepool.engines.base import Engine
from handlers.kvcachepool.refusal import Refused, listed

#: The API's spelling -> the store's.
SPELLED: Final = {
    "": "tcp",
    "Auto": "tcp",
    "TCP": "tcp",
    "RDMA": "rdma",
    "EFA": "efa",
    "CANN": "ascend",
    "ROCM": "hip",
    "MUSA": "musa",
    "MACA": "maca",
}
_API: Final = {spelled: api for api, spelled in SPELLED.items() if api not in ("", "Auto")}


def offers(backend: KVCacheBackend) -> list[str]:
    """One per member group, in order; the backend's own where there are no groups. Unknown values are passed over."""
    own = backend.spec.transport.protocol
    managed = backend.spec.managed
    groups = (managed.members or []) if managed is not None else []
    given = [(one.transport.protocol if one.transport else "") or own for one in groups] or [own]
    return [SPELLED[one] for one in given if one in SPELLED]


def chosen(engine: Engine, backend: KVCacheBackend, field: str) -> str:
    """The transport to write. Raises Refused when the engine could not use the store, or only a part of it."""
    found, name = offers(backend), backend.metadata.name
    distinct = list(dict.fromkeys(found))
    if engine.transports:
        fitting = next((one for one in found if one in engine.transports), "")
        if fitting:
            return fitting
        wanted = engine.transports[0]
        detail = (
            f"{engine.name} takes the transport {wanted} only ({engine.measured}) and KVCacheBackend {name} offers "
            f"{listed(distinct)}: set its spec.transport.protocol, or the transport.protocol of one member group, to "
            f"{_API[wanted]}; Auto is tcp"
        )
        raise Refused("transport-unsupported", field, detail)
    if len(distinct) > 1:
        detail = (
            f"the member groups of KVCacheBackend {name} offer {listed(distinct)}: reads of blocks on a transport that "
            "the engine did not install fail with NotSupportedTransport; give all groups one transport, or use "
            "another pool"
        )
        raise Refused("transport-mixed", field, detail)
    return distinct[0] if distinct else "tcp"
