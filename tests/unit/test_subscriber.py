"""How a subscriber sees that its connection is over. Excluded: real processes (tests/integration/test_roles)."""

import asyncio
import contextlib
from typing import Any

import pytest

from eventstore import store
from eventstore.jetstream import bus, kvlog
from warmlog import flags, link, subscriber


class Closed:
    """A connection that nats-py gave up for good."""

    why_closed = "nats-py gave up"

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.closed.set()

    async def close(self) -> None:
        return


class NoSinks:
    sinks: tuple[()] = ()
    connect_sink: Any = None


async def test_a_connection_that_is_over_for_good_ends_the_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_link(*_: object, **__: object) -> Closed:
        return Closed()

    monkeypatch.setattr(link, "open_link", open_link)
    monkeypatch.setattr(kvlog, "JetStreamKV", lambda connection: connection)
    monkeypatch.setattr(bus, "JetStreamBus", lambda connection: connection)
    values = flags.Values({"server": "nats://127.0.0.1:1"})
    async with contextlib.AsyncExitStack() as closing:
        with pytest.raises(store.Unavailable, match="the connection to NATS ended: nats-py gave up"):
            async with asyncio.timeout(1):
                await subscriber.connect(values, NoSinks(), closing)  # type: ignore[arg-type]
