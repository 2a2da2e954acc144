"""The world of a past moment: from the beginning, from the nearest keyframe, and where neither reaches."""

import msgspec
import pytest

from crds import core
from eventstore import events, keyframes, memory, replay, subjects
from handlers.outcome import Key
from handlers.world import difference, keyframe
from handlers.world.fold import fold
from handlers.world.state import World
from subscribers import keyframing
from warmlog import rewound, when

SECOND = 1_000_000_000
POD = Key(core.PODS, "n", "p")


async def told(log: memory.MemoryStore, data: events.Event, subject: str) -> None:
    number = (await log.extent()).last + 1
    log.log.clock = lambda: number * SECOND
    await log.append(
        events.event(data, id=str(number), source="t", subject=subject, time_ns=number * SECOND, actor="t")
    )


async def grown(count: int) -> rewound.Logs:
    """At sequence n the Pod has label n."""
    log = memory.MemoryStore()
    for number in range(1, count + 1):
        document = {"metadata": {"name": "p", "namespace": "n", "labels": {"n": str(number)}}}
        data = events.ObjectSeen(uid="u", resource_version=str(number), shape=1, object=document)
        await told(log, data, subjects.object_subject(*POD))
    return rewound.Logs(log, memory.MemoryStore(name="snaps"))


async def keyframe_at(logs: rewound.Logs, sequence: int) -> None:
    world, control = World(), logs.control
    async for batch in control.read():
        for one in batch:
            if one.sequence <= sequence:
                fold(world, one, incarnation="i")
    maker = keyframing.Keyframer(control, logs.snaps, instance="t", leads=lambda: True, world=lambda: world)
    stored = await control.get(sequence)
    assert stored is not None
    maker.marked(world, stored)
    world.marked = sequence
    maker._known = True
    await maker._look()
    assert maker.written == 1


def label(back: rewound.Rewound) -> str:
    known = back.world.find(POD)
    assert known is not None
    return str(known.value.metadata.labels["n"])


async def test_a_position_and_a_time_are_found_from_the_nearest_keyframe_on() -> None:
    logs = await grown(9)
    plain = await rewound.world_at(logs, when.Sequence(7))
    await keyframe_at(logs, 5)
    for at in (when.Sequence(7), when.Time(7 * SECOND + 1)):
        back = await rewound.world_at(logs, at)
        assert (label(back), back.since, back.whole) == ("7", 6, True)
        assert keyframe.digest(back.world) == keyframe.digest(plain.world)
    back = await rewound.world_at(logs, when.Sequence(4))
    assert (label(back), back.since) == ("4", 1)
    assert label(await rewound.world_at(logs, None)) == "9"
    assert label(await rewound.world_at(logs, when.Sequence(5))) == "5"


async def test_before_what_is_kept_whole_the_earliest_moment_is_named() -> None:
    logs = await grown(9)
    await keyframe_at(logs, 5)
    assert isinstance(logs.control, memory.MemoryStore)
    logs.control.retain(3)
    for at in (when.Sequence(1), when.Sequence(4), when.Time(4 * SECOND)):
        with pytest.raises(replay.ReplayError, match=r"the earliest is that of 1970-01-01T00:00:05.*\(sequence 5\)"):
            await rewound.world_at(logs, at)
    assert label(await rewound.world_at(logs, when.Sequence(6))) == "6"


async def test_without_a_keyframe_a_log_that_lost_its_beginning_says_so() -> None:
    logs = await grown(9)
    assert isinstance(logs.control, memory.MemoryStore)
    logs.control.retain(3)
    back = await rewound.world_at(logs, when.Sequence(6))
    assert (label(back), back.whole, back.since) == ("6", False, 3)


async def test_a_future_position_is_refused_with_keyframes_too() -> None:
    logs = await grown(6)
    await keyframe_at(logs, 5)
    with pytest.raises(replay.ReplayError, match="lies in the future"):
        await rewound.world_at(logs, when.Sequence(7))
    assert [head.sequence for head in await keyframes.heads(logs.snaps)] == [5]


async def test_what_differs_between_two_moments() -> None:
    logs = await grown(3)
    older = await rewound.world_at(logs, when.Sequence(2))
    newer = await rewound.world_at(logs, when.Sequence(3))
    assert difference.differences(older.world, older.world) == []
    changes = difference.differences(older.world, newer.world)
    assert changes == [difference.Change("object", "pods/n/p", "changed", 3, {"value.metadata.labels.n": ["2", "3"]})]
    assert difference.differences(older.world, newer.world, POD) == changes
    assert difference.differences(older.world, newer.world, POD._replace(name="q")) == []
    (gone,) = difference.differences(newer.world, World(epoch=0))
    assert (gone.how, gone.name) == ("gone", "pods/n/p")
    assert msgspec.to_builtins(gone) == {"what": "object", "name": "pods/n/p", "how": "gone"}
