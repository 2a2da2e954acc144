"""A controller's queue: each key once, races at once, other failures a second later by the clock."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from devkube.clock import Clock
from devkube.errors import About, StatusError, conflict, internal, not_found
from devkube.kinds import Object
from devkube.simulation.simulation import Loop

ABOUT = About("", "pods", "p")


class Running:
    """A loop whose work is whatever a test says, on a frozen clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.freeze()
        self.calls: list[str] = []
        self.work: Callable[[], float | None] = lambda: None
        self.loop = Loop(self, "ConfigMap", self._reconcile)  # type: ignore[arg-type]

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        return {"kind": kind, "metadata": {"namespace": namespace, "name": name}}

    async def _reconcile(self, found: Object) -> float | None:
        self.calls.append(found["metadata"]["name"])
        await asyncio.sleep(0)
        return self.work()

    async def add(self, *names: str) -> None:
        for name in names:
            self.loop.add(("ns", name))
        await self.loop.idle.wait()

    async def later(self, seconds: float) -> int:
        before = len(self.calls)
        self.clock.advance(seconds)
        await self.loop.idle.wait()
        return len(self.calls) - before

    def fails(self, *errors: Exception) -> None:
        left = list(errors)

        def work() -> None:
            if left:
                raise left.pop(0)

        self.work = work


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    running = Running()
    yield running
    await running.loop.stop()


async def test_each_key_once_in_order(running: Running) -> None:
    await running.add("a", "b", "a")
    assert running.calls == ["a", "b"]


async def test_it_looks_again_when_it_said_so(running: Running) -> None:
    running.work = lambda: 5.0
    await running.add("a")
    assert [await running.later(4), await running.later(1.1), await running.later(5)] == [0, 1, 1]
    await running.add("a")  # looked at in between: the old appointment is off
    assert await running.later(4.9) == 0


async def test_a_lost_race_is_run_again_at_once(running: Running) -> None:
    running.fails(conflict(ABOUT, "x"), conflict(ABOUT, "x"))
    await running.add("a")
    assert len(running.calls) == 3


@pytest.mark.parametrize("error", [internal("x"), StatusError(409, "AlreadyExists", "x"), ZeroDivisionError("a bug")])
async def test_what_fails_is_tried_later(running: Running, error: Exception) -> None:
    running.fails(error, error)
    await running.add("a")
    assert [await running.later(0.9), await running.later(0.2)] == [0, 1]
    assert [await running.later(0.9), await running.later(0.2), await running.later(100)] == [0, 1, 0]


async def test_what_is_gone_is_left_alone(running: Running) -> None:
    running.fails(not_found(ABOUT))
    await running.add("a")
    assert await running.later(100) == 0
