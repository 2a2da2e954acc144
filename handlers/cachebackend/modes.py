"""Which of six shapes a CacheBackend has; everything else follows from it.

Rules: seed 004, "Conditions"; spec/inferencecache.md section 8 (dispatch order).
"""

from typing import Literal

from crds.cachebackend import CacheBackendSpec
from handlers.cachebackend import matrix

Mode = Literal["Managed", "External", "HostOnly", "EventsOnly", "HiCache", "Unmanaged"]

#: No workload of ours stands behind them: they are up as soon as they exist.
SERVERLESS = ("HostOnly", "EventsOnly")


def mode_of(spec: CacheBackendSpec) -> Mode:
    """What no adapter wires is Unmanaged: it was stored before a rule existed."""
    pair = matrix.pair_of(spec)
    if pair is None:
        return "Unmanaged"
    if not spec.offload:
        return "EventsOnly"
    storage = spec.remote_storage
    if storage is None:
        return "HiCache" if spec.type == "SGLangHiCache" else "HostOnly"
    if matrix.BINDINGS.get(storage.provider) not in pair.bindings:
        return "Unmanaged"
    if storage.ownership == "External":
        return "External"
    return "Unmanaged" if spec.deployment_kind == "StatefulSet" else "Managed"
