"""The past: both logs folded up to a moment. Used by `lookup --at` and `replay`.

The control log, from its nearest keyframe on, gives policies; what was told of replicas is folded from the first event
that is kept; `WARMLOG_KV` gives the index. A `moment` event pairs their positions. What retention has dropped cannot
be folded: replicas whose last keyframe is no longer there are missing, and the answer says from where reading began.

Rules: design.md section 2 (`moment`), section 4 (`lookup --at`, `replay`).
"""

import contextlib
from typing import NamedTuple

import msgspec

from eventstore import envelope, events, replay, store, subjects
from handlers.prefixindex import index, policies
from handlers.world import state
from warmlog import output, rewound, when

_TELL_EVERY = 100_000  # messages between two lines of progress


class World(msgspec.Struct):
    """What the control log says at a position."""

    governed: policies.Policies = policies.UNKNOWN
    settings: dict[str, events.SettingsSeen] = {}  # role/instance
    replicas: dict[str, events.ReplicaObserved] = {}  # tenant/replica: its last edge but statistics
    summaries: dict[str, events.IndexSummarised] = {}  # shard
    moment: events.Moment | None = None
    count: int = 0  # of events
    skipped: list[str] = []  # the first few that could not be read


class Moment(NamedTuple):
    """The moment that was used, for people."""

    sequence: int
    time_ns: int
    kv: store.Position

    def __str__(self) -> str:
        return f"moment #{self.sequence} of {envelope.rfc3339(self.time_ns)}, WARMLOG_KV {self.kv.sequence}"


def fold(world: World, stored: store.Stored) -> World:
    world.count += 1
    decoded = events.decode(stored)
    if isinstance(decoded, events.Undecodable):
        if len(world.skipped) < 10:
            world.skipped.append(f"#{stored.sequence} {decoded.reason}")
        return world
    match decoded.data:
        case events.SettingsSeen() as seen:
            world.settings[f"{seen.role}/{seen.instance}"] = seen
        case events.ReplicaObserved(edge="statistics"):
            pass  # engine statistics are no state
        case events.ReplicaObserved() as seen:
            world.replicas[f"{seen.tenant}/{seen.replica}"] = seen
        case events.IndexSummarised() as seen:
            world.summaries[seen.shard] = seen
        case events.Moment() as seen:
            world.moment = seen
        case data:
            world.governed = policies.fold(world.governed, stored.subject, data)
    return world


async def world_at(log: store.EventStore, at: when.When | None) -> tuple[World, replay.Replayed]:
    """The control log folded up to `at` (None = its end). Raises ReplayError."""
    limit: replay.Until = (await log.extent()).last if at is None else rewound.until_of(at)
    await rewound.same_incarnation(log, at)
    return await replay.replay(log, fold, World(), until=limit)


async def index_at(
    log: store.EventStore, kv: store.KVLog, at: when.When, *, snaps: store.EventStore
) -> tuple[index.Index, policies.Policies, Moment]:
    """The index and the policies of the newest moment at or before `at`. Raises ReplayError."""
    await rewound.same_incarnation(log, at)
    if isinstance(at, when.Sequence) and at.number > (end := (await log.extent()).last):
        raise replay.ReplayError(f"position {at.number} lies in the future: the log ends at {end}")
    paired = await replay.moment(log, rewound.until_of(at))
    used = Moment(paired.control.sequence, paired.time_ns, paired.kv)
    extent = await kv.extent()
    if extent.incarnation != paired.kv.incarnation:
        raise replay.ReplayError(
            f"{used} is of another incarnation of WARMLOG_KV: its end was lost since, that index cannot be folded again"
        )
    if paired.kv.sequence < extent.first:
        raise replay.ReplayError(f"{used} lies before what WARMLOG_KV still keeps (from {extent.first})")
    back = await rewound.world_at(rewound.Logs(log, snaps), when.Sequence(paired.control.sequence))
    known, governed = await fold_kv(kv, extent, paired.kv.sequence), governed_by(back.world)
    known.govern(governed)
    return known, governed, used


def governed_by(world: state.World) -> policies.Policies:
    """The policies of a world, as the fold of their events would have them."""
    known = policies.UNKNOWN
    for kind in policies.KINDS:
        for key in world.keys(kind):
            one = world.find(key)
            if one is not None and one.value is not None:
                document = msgspec.to_builtins(one.value)
                seen = events.ObjectSeen(uid=one.uid, resource_version="", shape=one.shape, object=document)
                known = policies.fold(known, subjects.object_subject(*key), seen)
        if (listed := world.listed.get(kind)) is not None:
            data = events.KindListed(list_version="", shape=listed.shape, count=listed.count)
            known = policies.fold(known, subjects.kind_subject(kind), data)
    return known


async def fold_kv(kv: store.KVLog, extent: store.Extent, last: int) -> index.Index:
    known = index.Index()
    if extent.first > 1:
        output.progress(f"WARMLOG_KV is kept from {extent.first} on: replicas without a keyframe since are missing")
    async with contextlib.aclosing(kv.read(after=extent.first - 1)) as batches:
        async for batch in batches:
            for message in batch:
                if message.sequence > last:
                    return known
                known.apply(message.sequence, message.time_ns, message.subject, message.payload)
                if message.sequence % _TELL_EVERY == 0:
                    output.progress(f"folded {message.sequence} of {last} messages")
    return known
