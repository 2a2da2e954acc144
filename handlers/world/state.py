"""What the control log says, as one value: the world.

Here: the parts and what each means. Not here: how an event changes them (fold), how handlers read them (reader), how
the world is kept and compared (keyframe). Only `fold` writes; everything else sees it through a `Reader`.

Rules: design.md section 2.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from handlers.outcome import Key, Object

#: The newest of these are kept; how many there were is told by the position of each.
KEPT_SKIPPED: Final = 1000


class Rest(msgspec.Struct, frozen=True):
    """What was seen of an object that does not decode: enough to tell its author so, and no fact to decide on."""

    generation: int = 0
    deleting: bool = False
    status: Object = {}


class Known(msgspec.Struct, frozen=True, gc=False):
    """An object as last observed. `sequence` is that of its event. `value` is the narrow Struct of its kind, or None
    when what was stored does not decode into it; `problem` then says why, `rest` what was seen of it. The object exists
    all the same. Of kinds that are judged `value` is the last good one."""

    uid: str
    resource_version: str
    shape: int
    sequence: int
    time_ns: int
    value: Any
    problem: str = ""
    rest: Rest | None = None


class Listed(msgspec.Struct, frozen=True, gc=False):
    """A complete list of a kind was folded. `shape` tells which fields its objects have."""

    sequence: int
    shape: int
    count: int


class Applied(msgspec.Struct, frozen=True, gc=False):
    """The last write of ours to an object. `status` is the body of a status write: it is what the object shows from
    then on, even before a watch brought it back."""

    sequence: int
    time_ns: int
    verb: str
    desired: str
    resource_version: str
    uid: str
    generation: int = 0
    status: Object | None = None


class Replica(msgspec.Struct, frozen=True, gc=False):
    """An engine replica, from its edges and the newest summary. Times are the stream's, 0 = never."""

    tenant: str
    replica: str
    model: str
    scheme: str
    uid: str
    state: str
    sequence: int
    first_event_ns: int = 0
    last_event_ns: int = 0
    blocks: int = 0
    hit_rate: float = 0.0
    statistics: dict[str, float] = {}
    time_ns: int = 0  # of the newest edge or summary


class Summary(msgspec.Struct, frozen=True, gc=False):
    """The newest summary of a part of the index: distinct keys by tenant, rounded."""

    sequence: int
    tenants: dict[str, int]


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """An event that could not be folded; it is passed over for ever, and told."""

    sequence: int
    type: str
    reason: str


@dataclass
class World:
    """Everything at `sequence` of `incarnation`. `now_ns` is the newest stream time folded: the only clock there is."""

    incarnation: str = ""
    sequence: int = 0
    now_ns: int = 0
    contact_ns: int = 0
    objects: dict[str, dict[str, dict[str, Known]]] = field(default_factory=dict)  # kind -> namespace -> name
    listed: dict[str, Listed] = field(default_factory=dict)
    applied: dict[Key, Applied] = field(default_factory=dict)
    told: dict[str, dict[str, int]] = field(default_factory=dict)  # reconciled key -> names of its Events -> sequence
    replicas: dict[tuple[str, str], Replica] = field(default_factory=dict)
    summaries: dict[str, Summary] = field(default_factory=dict)  # by shard
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    epoch: int = 0
    leader: str = ""
    skipped: deque[Skipped] = field(default_factory=lambda: deque(maxlen=KEPT_SKIPPED))
    marked: int = 0  # sequence of the newest mark: where every fold of this log takes its keyframe
    marked_ns: int = 0  # its time; that of the first event while there is no mark yet

    def find(self, key: Key) -> Known | None:
        return self.objects.get(key.kind, {}).get(key.namespace, {}).get(key.name)

    def keys(self, kind: str, namespace: str | None = None) -> list[Key]:
        """Keys of a kind, of one namespace or of all, in order."""
        spaces = self.objects.get(kind, {})
        chosen = sorted(spaces) if namespace is None else [namespace]
        return [Key(kind, space, name) for space in chosen for name in sorted(spaces.get(space, {}))]
