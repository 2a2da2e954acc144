"""The API away, restored, forgetful, hanging, refusing our token; the log away. Afterwards the status is right within
5 s, and the audit finds nothing doubled and nothing lost."""

import asyncio

import pytest

from crds import core
from eventstore import events
from handlers.world.state import World
from tests.support import houseapi
from tests.support.controllerhouse import DURATION, House, matched, underway, until

SOON = 5.0
#: A Lease that could not be renewed is taken again after its duration, by whoever looks first.
AGAIN = DURATION + SOON


async def begun(house: House) -> None:
    await house.controller()
    await house.cache("a", managed=False)
    await house.pod("p0", serve="a")
    await house.status("a", matched(1), within=10)


async def changed(house: House) -> None:
    """What happens while nobody hears."""
    await house.delete(core.PODS, "p0")
    for number in range(1, 4):
        await house.pod(f"p{number}", serve="a")
    await house.cache("b")


async def right(house: House, within: float) -> None:
    await house.status("b", underway, within=within)
    await house.status("a", matched(3), within=6)
    world = await house.audit()
    assert engines(world) == ["p1", "p2", "p3"]


def engines(world: World) -> list[str]:
    """Not the Pods that a real API's controllers make of our Deployments."""
    return [key.name for key in world.keys(core.PODS) if "-" not in key.name]


@pytest.mark.parametrize("history", ["kept", "forgotten"])
async def test_connections_that_break_lose_nothing(house: House, history: str) -> None:
    await begun(house)
    await house.proxy.down()
    await changed(house)
    if history == "forgotten":
        await house.api.forget()
    await house.proxy.up()
    await right(house, SOON)
    listed = [one.stored.subject for one in await house.told() if isinstance(one.data, events.KindListed)]
    assert listed.count("wl.kind.pods") == (2 if history == "forgotten" else 1)


async def test_an_api_that_is_away_for_longer_than_the_lease(house: House) -> None:
    await begun(house)
    await house.proxy.down()
    await changed(house)
    await asyncio.sleep(DURATION + 1)
    await house.proxy.up()
    await right(house, SOON)


async def test_an_api_that_hangs(house: House) -> None:
    await begun(house)
    house.proxy.freeze()
    await changed(house)
    await asyncio.sleep(DURATION + 2)
    house.proxy.thaw()
    await right(house, AGAIN)


async def test_an_api_that_is_slow_and_refuses_now_and_then(house: House) -> None:
    if not isinstance(house.api, houseapi.Dev):
        pytest.skip("no real server can be told to fail")
    await begun(house)
    house.api.faults.delay(0.2)
    for verb in ("get", "patch", "update", "create"):
        house.api.faults.fail(503, verb=verb, count=2)
        house.api.faults.fail(429, verb=verb, count=1, retry_after=1)
    await changed(house)
    await house.status("b", underway, within=20)
    house.api.faults.clear()
    await right(house, SOON)


async def test_an_api_that_lost_everything(house: House) -> None:
    """Another server at the same address, with the same authority and token: no namespace, no object, low versions."""
    await begun(house)
    await house.proxy.down()
    await house.api.stop()
    token = house.api.admin_token
    house.api = houseapi.made(house.api.name, house.directory / "another-kube", token)
    await house.api.start()
    house.proxy.target = int(house.api.url.rsplit(":", 1)[1])
    house.write_kubeconfig(token)
    await house.install()
    await house.cache("b")
    await house.proxy.up()
    await house.status("b", underway, within=AGAIN + 5)
    world = await house.audit()
    assert engines(world) == []


async def test_an_expired_token_is_read_again(house: House) -> None:
    await begun(house)
    await house.api.revoke("another")
    house.proxy.cut()
    await changed(house)
    await asyncio.sleep(1)
    house.write_kubeconfig("another")
    await right(house, AGAIN)


async def test_a_token_that_stays_bad_is_said_and_not_hammered(house: House) -> None:
    await begun(house)
    await house.api.revoke("another")
    house.proxy.cut()

    async def said() -> bool:
        return "401" in house.controllers["one"].said()

    await until(said)
    assert "Traceback" not in house.controllers["one"].said()
    house.write_kubeconfig("another")
    await changed(house)
    await right(house, AGAIN + 5)


async def test_a_log_that_is_away_stops_every_write(house: House) -> None:
    await begun(house)
    await house.nats.kill()
    await asyncio.sleep(0.5)
    await changed(house)
    await asyncio.sleep(2)
    assert await house.get(core.DEPLOYMENTS, "b") is None, "what cannot be recorded is not done"
    await house.nats.start()
    await right(house, AGAIN)


async def test_a_log_that_restarts_at_once(house: House) -> None:
    await begun(house)
    writing = asyncio.create_task(changed(house))
    await house.nats.kill()
    await house.nats.start()
    await writing
    await right(house, AGAIN)


async def test_a_log_that_hangs(house: House) -> None:
    await begun(house)
    house.nats.suspend()
    await changed(house)
    await asyncio.sleep(3)
    house.nats.resume()
    await right(house, AGAIN)


async def test_everything_at_once(house: House) -> None:
    await begun(house)
    await house.controller("two")
    writing = asyncio.create_task(changed(house))
    await house.controllers["one"].kill()
    await house.nats.kill()
    await house.proxy.down()
    await house.nats.start()
    await house.proxy.up()
    await writing
    await right(house, AGAIN + 5)
