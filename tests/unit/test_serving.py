"""What a role holds for good is out of the garbage collector's sight, but not before it is there."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from warmlog import serving


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


async def test_the_world_is_frozen_once_the_log_was_read() -> None:
    before, caught_up = gc.get_freeze_count(), asyncio.Event()
    settling = asyncio.ensure_future(serving.settle(caught_up))
    await asyncio.sleep(0)
    assert gc.get_freeze_count() == before
    world = [[number] for number in range(1000)]
    caught_up.set()
    await settling
    assert gc.get_freeze_count() > before
    assert id(world) not in {id(one) for one in gc.get_objects()}
