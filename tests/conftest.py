"""Fixtures that every kind of test may ask for, and the header that says which real parts are used."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support import natsserver


def pytest_sessionstart() -> None:
    # looptime asks for the current loop before every test; unless one was set, even to None, asyncio makes one for
    # it, which nobody closes: a warning, thus an error, in whichever test happens to run when it is collected.
    asyncio.set_event_loop(None)


def pytest_report_header() -> str:
    return f"nats-server: {natsserver.choice()}"


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncGenerator[natsserver.Server, None]:
    """A nats-server of this test's own, on a free loopback port."""
    natsserver.require()
    server = natsserver.Server(tmp_path / "nats")
    try:
        yield await server.start()
    finally:
        await server.stop()
