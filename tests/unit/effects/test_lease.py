"""Who leads, in virtual time. Two holders of one Lease never lead at once; an end is seen in time."""

import asyncio
import random
from typing import Any

import pytest

from handlers.effects.cluster import ClusterError
from handlers.effects.lease import Lease
from handlers.outcome import Key
from tests.support.fakecluster import FakeCluster

pytestmark = pytest.mark.looptime
KEY = Key("leases.coordination.k8s.io", "system", "lock")
AWAY = ClusterError(0, "NoAnswer", "nobody there")


def now() -> float:
    return asyncio.get_running_loop().time()


def lease(cluster: FakeCluster, instance: str = "a", **how: Any) -> Lease:
    return Lease(cluster, KEY, instance=instance, now=lambda: f"{now():.6f}", **how)


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_first_one_takes_it_at_once() -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    assert await mine.hold() == 1
    assert now() == 0
    assert mine.leads
    spec = cluster.objects[KEY]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 1)


async def test_it_is_renewed_every_two_seconds() -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    await mine.hold()
    keeping = asyncio.create_task(mine.keep())
    await asyncio.sleep(61)
    assert mine.leads
    assert 29 <= len(cluster.writes("replace")) <= 31
    assert cluster.objects[KEY]["spec"]["leaseTransitions"] == 1
    assert cluster.objects[KEY]["spec"]["acquireTime"] == "0.000000"
    await cancelled(keeping)


async def test_another_waits_until_it_was_unchanged_for_its_whole_duration() -> None:
    cluster = FakeCluster()
    first, second = lease(cluster, "a"), lease(cluster, "b")
    await first.hold()
    keeping = asyncio.create_task(first.keep())
    taking = asyncio.create_task(second.hold())
    await asyncio.sleep(60)
    assert not taking.done()
    await cancelled(keeping)  # killed
    died = now()
    assert await taking == 2
    assert 13 < now() - died < 15 + 2 * 2.5
    assert not first.leads


async def test_one_that_is_given_up_is_taken_at_the_next_look() -> None:
    cluster = FakeCluster()
    first, second = lease(cluster, "a"), lease(cluster, "b")
    await first.hold()
    taking = asyncio.create_task(second.hold())
    await asyncio.sleep(5)
    await first.release()
    assert not first.leads
    began = now()
    assert await taking == 2
    assert now() - began < 2.5


async def test_who_gives_up_what_is_not_his_any_more_changes_nothing() -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    await mine.hold()
    stolen = cluster.put(KEY, {"spec": {"holderIdentity": "thief", "leaseTransitions": 9, "renewTime": "x"}})
    await mine.release()
    assert cluster.objects[KEY] == stolen


async def test_a_stolen_one_is_lost_at_the_next_renewal() -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    await mine.hold()
    keeping = asyncio.create_task(mine.keep())
    await asyncio.sleep(5)
    cluster.put(KEY, {"spec": {"holderIdentity": "thief", "leaseTransitions": 9, "renewTime": "x"}})
    await keeping
    assert now() <= 7.5
    assert not mine.leads
    assert cluster.objects[KEY]["spec"]["holderIdentity"] == "thief"


async def test_a_deleted_one_is_lost_and_its_successor_has_a_higher_epoch() -> None:
    cluster = FakeCluster()
    mine = lease(cluster, floor=lambda: 41)
    assert await mine.hold() == 42
    keeping = asyncio.create_task(mine.keep())
    await asyncio.sleep(3)
    del cluster.objects[KEY]
    await keeping
    assert not mine.leads
    mine.floor = lambda: 42
    assert await mine.hold() == 43


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_what_cannot_be_renewed_ends_before_another_could_take_it(how: str) -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    await mine.hold()
    keeping = asyncio.create_task(mine.keep())
    await asyncio.sleep(4.5)
    renewed = 4.0
    cluster.failing, cluster.faults = cluster.failing | {"get"}, [AWAY] * 100
    if how == "hangs":
        cluster.faults, cluster.hold = [], asyncio.Event()
    await keeping
    assert renewed + 10 - 0.1 <= now() <= renewed + 10 + 0.1
    assert not mine.leads


async def test_one_missed_renewal_loses_nothing() -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    await mine.hold()
    keeping = asyncio.create_task(mine.keep())
    await asyncio.sleep(3)
    cluster.faults = [AWAY, AWAY]
    await asyncio.sleep(3)
    assert mine.trouble == "nobody there"
    await asyncio.sleep(3)
    assert mine.leads
    assert mine.trouble == ""
    await cancelled(keeping)


async def test_after_an_outage_the_old_leader_need_not_wait_again() -> None:
    cluster = FakeCluster()
    mine = lease(cluster)
    await mine.hold()
    keeping = asyncio.create_task(mine.keep())
    await asyncio.sleep(4.5)
    cluster.failing, cluster.faults = cluster.failing | {"get"}, [AWAY] * 10_000
    await keeping
    taking = asyncio.create_task(mine.hold())
    await asyncio.sleep(20)
    assert not taking.done()
    cluster.faults = []
    began = now()
    assert await taking == 2
    assert now() - began < 2.5


async def test_two_in_a_race_get_one_lease() -> None:
    cluster = FakeCluster()
    both = [lease(cluster, "a"), lease(cluster, "b")]
    tasks = [asyncio.create_task(one.hold()) for one in both]
    await asyncio.sleep(2.9)
    assert sorted(one.leads for one in both) == [False, True]
    await cancelled(*tasks)


async def test_never_two_at_once_whatever_fails() -> None:
    rolls = random.Random(4)
    cluster = FakeCluster()
    cluster.failing |= {"get"}
    both = [lease(cluster, "a"), lease(cluster, "b")]
    epochs: list[int] = []

    async def live(one: Lease) -> None:
        while True:
            epochs.append(await one.hold())
            await one.keep()

    tasks = [asyncio.create_task(live(one)) for one in both]
    for _ in range(4000):
        await asyncio.sleep(0.1)
        if not cluster.faults and rolls.random() < 0.01:
            cluster.faults = [AWAY] * rolls.choice((1, 3, 10, 40))
        assert sum(one.leads for one in both) <= 1
    assert len(epochs) > 3
    assert epochs == sorted(set(epochs))
    await cancelled(*tasks)
