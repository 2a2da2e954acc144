"""Time as tests drive it."""

import asyncio

import pytest

from devkube.clock import Clock


async def sleep(clock: Clock, seconds: float) -> None:
    over = asyncio.Event()
    clock.call_later(seconds, over.set)
    await over.wait()


def test_the_forms_of_now() -> None:
    clock = Clock()
    clock.freeze()
    now = clock.now()
    assert clock.timestamp() == now.strftime("%Y-%m-%dT%H:%M:%SZ")
    before = clock.timestamp()
    clock.advance(3600)
    assert clock.after(-3600) == before
    assert clock.timestamp() > before
    assert clock.after(1e12) == clock.after(2**63) == "9999-12-31T23:59:59Z"


def test_a_frozen_clock_stands_still_and_goes_on_from_there() -> None:
    clock = Clock()
    clock.freeze()
    stood = clock.monotonic()
    assert clock.monotonic() == stood
    clock.advance(100)
    assert clock.monotonic() == stood + 100
    clock.thaw()
    assert stood + 100 <= clock.monotonic() < stood + 110


def test_it_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        Clock().advance(-1)


async def test_sleepers_wake_in_order_of_their_time() -> None:
    clock, woken = Clock(), []
    clock.freeze()

    async def sleeper(seconds: float) -> None:
        await sleep(clock, seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (30, 10, 20)]
    await asyncio.sleep(0)
    clock.advance(9)
    await asyncio.sleep(0)
    assert woken == []
    clock.advance(12)
    await asyncio.gather(*tasks[1:])
    assert woken == [10, 20]
    clock.advance(10)
    await tasks[0]
    assert woken == [10, 20, 30]


async def test_a_running_clock_wakes_by_itself() -> None:
    clock = Clock()
    async with asyncio.timeout(1):
        await sleep(clock, 0.01)
        await sleep(clock, -1)


async def test_thawing_goes_on_with_what_was_slept_for() -> None:
    clock = Clock()
    clock.freeze()
    task = asyncio.create_task(sleep(clock, 0.01))
    await asyncio.sleep(0)
    clock.thaw()
    async with asyncio.timeout(1):
        await task


async def test_an_alarm_that_is_cancelled_does_not_ring() -> None:
    clock, rung = Clock(), []
    clock.freeze()
    one = clock.call_later(5, lambda: rung.append("one"))
    clock.call_later(5, lambda: rung.append("two"))
    one.cancel()
    clock.advance(5)
    assert rung == ["two"]
