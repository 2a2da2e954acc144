"""The two shapes of an Event: v1's and events.k8s.io/v1's are the same stored object, read under either name.

Field names by pkg/apis/events/v1 conversion. An object is stored as it was written and turned on reading.
"""

from typing import Final

from devkube.kinds import Object

KEY: Final = "events"
CORE: Final = "v1"
NEW: Final = "events.k8s.io/v1"
_NAMES: Final = (  # core's, the other's
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)
_TO_CORE: Final = {new: core for core, new in _NAMES}
_TO_NEW: Final = dict(_NAMES)


def turned(obj: Object, group_version: str) -> Object:
    """The same event in the shape of this version."""
    if obj.get("apiVersion") == group_version:
        return obj
    names = _TO_CORE if group_version == CORE else _TO_NEW
    return {names.get(k, k): v for k, v in obj.items()} | {"apiVersion": group_version}
