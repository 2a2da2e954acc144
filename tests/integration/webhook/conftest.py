import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import houseapi, natsserver
from tests.support.webhookhouse import WebhookHouse


@pytest.fixture(params=houseapi.names())
async def bare_house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[WebhookHouse]:
    """Before anything of ours is installed."""
    natsserver.require()
    made = WebhookHouse(tmp_path, request.param)
    try:
        await made.start(crds=False)
        yield made
    finally:
        with contextlib.suppress(OSError):
            await made.close()
        await made.front.down()
        await made.reads.down()


@pytest.fixture
async def house(bare_house: WebhookHouse) -> WebhookHouse:
    await bare_house.install()
    await bare_house.manifests()
    return bare_house
