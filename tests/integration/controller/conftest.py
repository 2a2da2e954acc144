from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import houseapi, natsserver
from tests.support.controllerhouse import House


@pytest.fixture(params=houseapi.names())
async def empty_house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    """Before any CRD is installed."""
    natsserver.require()
    made = House(tmp_path, request.param)
    try:
        await made.start(crds=False)
        yield made
    finally:
        await made.close()


@pytest.fixture
async def house(empty_house: House) -> House:
    await empty_house.install()
    return empty_house
