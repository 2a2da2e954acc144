import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import natsserver
from tests.support.webhookhouse import WebhookHouse


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[WebhookHouse]:
    natsserver.require()
    made = WebhookHouse(tmp_path)
    try:
        await made.start()
        yield made
    finally:
        with contextlib.suppress(OSError):
            await made.close()
        await made.front.down()
        await made.reads.down()
