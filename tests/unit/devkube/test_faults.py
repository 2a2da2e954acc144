"""Which requests a fault meets, and how often."""

import asyncio

import pytest

from devkube.errors import StatusError
from devkube.faults import Faults
from devkube.routes import Route

LIST = Route("list", "/api/v1/namespaces/ns/pods", version="v1", plural="pods", namespace="ns")
GET = Route("get", "/apis/apps/v1/…", "apps", "v1", "deployments", "ns", "d")


async def test_a_failure_has_a_reason_and_an_end() -> None:
    faults = Faults()
    fault = faults.fail(503, verb="list", count=2, retry_after=3)
    for _ in range(2):
        with pytest.raises(StatusError) as caught:
            await faults.meet(LIST)
        assert (caught.value.code, caught.value.reason, caught.value.retry_after) == (503, "ServiceUnavailable", 3)
    await faults.meet(LIST)
    assert fault.hits == 2


@pytest.mark.parametrize(
    ("which", "meets"),
    [
        ({}, True),
        ({"verb": "get", "resource": "deployments", "group": "apps", "namespace": "ns", "name": "d"}, True),
        ({"verb": "list"}, False),
        ({"resource": "pods"}, False),
        ({"group": ""}, False),
        ({"namespace": "x"}, False),
        ({"name": "x"}, False),
        ({"subresource": ""}, True),
        ({"subresource": "status"}, False),
    ],
)
async def test_which(which: dict[str, str], meets: bool) -> None:
    faults = Faults()
    fault = faults.cut(**which)
    if meets:
        with pytest.raises(ConnectionAbortedError):
            await faults.meet(GET)
    else:
        await faults.meet(GET)
    assert fault.hits == meets


async def test_delays_add_up_and_others_go_on() -> None:
    faults = Faults()
    faults.delay(0.02)
    faults.delay(0.02, verb="list")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(faults.meet(LIST), faults.meet(GET))
    assert 0.04 <= loop.time() - began < 1


async def test_clearing_forgets_all() -> None:
    faults = Faults()
    faults.fail(500)
    faults.clear()
    await faults.meet(LIST)


def test_a_word_that_is_none_of_a_fault_s_is_refused() -> None:
    with pytest.raises(TypeError):
        Faults().fail(500, resources="pods")
