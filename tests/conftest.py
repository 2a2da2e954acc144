"""Fixtures that every kind of test may ask for, and the header that says which real parts are used."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.support import kubernetes, natsserver

#: Where every test must run (CI) the machine may be shared: there the cap only catches what runs away.
SLACK = 5 if os.environ.get("WARMLOG_REQUIRE_REAL") == "1" else 1
UNIT_SECONDS = 2.0 * SLACK
PROPERTY_SECONDS = 20.0 * SLACK  # hypothesis runs a test a hundred times
UNITS = Path(__file__).parent / "unit"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A unit test gets two seconds. Of CPU: on a busy machine the clock on the wall says nothing about a test."""
    function = getattr(item, "function", None)
    limit = PROPERTY_SECONDS if getattr(function, "is_hypothesis_test", False) else UNIT_SECONDS
    started = time.process_time()
    yield
    used = time.process_time() - started
    if item.path.is_relative_to(UNITS) and used > limit and item.get_closest_marker("slow") is None:
        pytest.fail(f"took {used:.1f} s of CPU, this test has {limit:g}: make it smaller, or mark it slow(why)")


def pytest_sessionstart() -> None:
    # looptime asks for the current loop before every test; unless one was set, even to None, asyncio makes one for
    # it, which nobody closes: a warning, thus an error, in whichever test happens to run when it is collected.
    asyncio.set_event_loop(None)


def pytest_report_header() -> list[str]:
    return [f"nats-server: {natsserver.choice()}", f"kubernetes: {kubernetes.choice()}"]


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncGenerator[natsserver.Server, None]:
    """A nats-server of this test's own, on a free loopback port."""
    natsserver.require()
    server = natsserver.Server(tmp_path / "nats")
    try:
        yield await server.start()
    finally:
        await server.stop()
