"""Who leads, among processes: killed, stopped, asleep, robbed of the Lease. Nothing is doubled, nothing is lost."""

import asyncio
import time

from crds import core
from eventstore import events
from tests.support.controllerhouse import DURATION, LEASE, House, matched, underway, until


async def both(house: House) -> None:
    await house.controller("one")
    await house.controller("two")
    await house.leader()


async def test_a_killed_leader_is_followed_by_the_other(house: House) -> None:
    await both(house)
    leader = await house.leader()
    await house.cache("a")
    await house.status("a", underway)
    await leader.kill()
    await house.pod("p", serve="a")
    await house.cache("b")
    took = await house.status("b", underway)
    assert took < DURATION + 5
    await house.status("a", matched(1), within=6)
    await house.audit()


async def test_one_killed_in_the_middle_of_many_writes_leaves_none_doubled_or_lost(house: House) -> None:
    await both(house)
    leader = await house.leader()
    for number in range(12):
        await house.cache(f"c{number}")
        if number == 8:
            await leader.kill()
    for number in range(12):
        await house.status(f"c{number}", underway)
    await house.audit()
    assert len(await house.all_of(core.DEPLOYMENTS)) == 12


async def test_a_leader_that_is_told_to_end_gives_the_lease_up_at_once(house: House) -> None:
    await both(house)
    leader = await house.leader()
    began = time.monotonic()
    assert await leader.stop() == 0
    await house.leader(other_than=leader.name)
    assert time.monotonic() - began < DURATION
    await house.cache("a")
    await house.status("a", underway)
    await house.audit()


async def test_a_leader_that_slept_writes_nothing_when_it_wakes(house: House) -> None:
    await both(house)
    leader = await house.leader()
    await house.cache("a", managed=False)
    await house.status("a", matched(0))
    leader.suspend()
    try:
        await house.pod("p1", serve="a")
        other = await house.leader(other_than=leader.name)
        await house.status("a", matched(1), within=8)
        await house.pod("p2", serve="a")
    finally:
        leader.resume()
    await house.pod("p3", serve="a")
    await house.status("a", matched(3), within=8)

    async def noticed() -> bool:
        return "not leading any more" in leader.said()

    await until(noticed)
    await house.audit()
    assert (await house.api.request("GET", LEASE))["spec"]["holderIdentity"] == other.name


async def test_a_stolen_lease_deposes_and_comes_back(house: House) -> None:
    await both(house)
    await house.leader()
    lease = await house.api.request("GET", LEASE)
    epoch = lease["spec"]["leaseTransitions"]
    lease["spec"].update(holderIdentity="thief", leaseTransitions=epoch + 1, leaseDurationSeconds=2)
    lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    await house.api.request("PUT", LEASE, lease)
    began = time.monotonic()
    await house.leader()
    assert time.monotonic() - began < 2 + 5
    await house.cache("a")
    await house.status("a", underway)
    await house.audit()
    elected = [one.data.epoch for one in await house.told() if isinstance(one.data, events.LeaderElected)]
    assert elected == [epoch, epoch + 2]


async def test_a_deleted_lease_gives_a_higher_epoch(house: House) -> None:
    await house.controller()
    await house.leader()
    for _ in range(2):
        await house.api.request("DELETE", LEASE)
        await asyncio.sleep(1)
    await house.cache("a")
    await house.status("a", underway)
    await house.audit()
    elected = [one.data.epoch for one in await house.told() if isinstance(one.data, events.LeaderElected)]
    assert elected == [1, 2, 3]
