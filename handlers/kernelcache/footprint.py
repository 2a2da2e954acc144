"""The two opaque hashes of an identity.

compatibility   runtime image, model and everything that decides which kernels are compiled
workload        the same, and namespace, workload, command and arguments

A reference of an image that may change its content gives less: see imageclass. Empty never equals empty.

Rules: seed 000, "Footprints", "Runtime image references".
"""

from collections.abc import Mapping
from typing import Final

from crds.kernelcache import Footprints
from handlers import canonical
from handlers.kernelcache.imageclass import Class

WORKLOAD_ONLY: Final = frozenset(("namespace", "workloadKind", "workloadName", "commandHash", "argsHash"))


def of(factors: Mapping[str, str], class_: Class) -> Footprints:
    if class_ == "floating":
        return Footprints()
    shared = {name: value for name, value in factors.items() if name not in WORKLOAD_ONLY}
    whole = canonical.digest(dict(factors)) if class_ == "digest" else ""
    return Footprints(workload_footprint=whole, compatibility_footprint=canonical.digest(shared))


def matches(one: Footprints, other: Footprints) -> str:
    """workload, compatibility or ""."""
    if one.workload_footprint and one.workload_footprint == other.workload_footprint:
        return "workload"
    if one.compatibility_footprint and one.compatibility_footprint == other.compatibility_footprint:
        return "compatibility"
    return ""
