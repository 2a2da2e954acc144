"""How a subscriber's replicas get their sinks, and how it sees that its connection is over. Excluded: real processes
(tests/integration/test_roles)."""

import asyncio
import contextlib

import pytest

from eventstore import store
from eventstore.jetstream import bus, kvlog
from subscribers.kvevents import session, sink
from warmlog import flags, link, sinks


class Closed:
    """A connection that nats-py gave up for good."""

    why_closed = "nats-py gave up"

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.closed.set()

    async def close(self) -> None:
        return


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
                await sinks.Sinks(values, asyncio.TaskGroup(), closing).connect()


class Sent:
    """A sink that says whose it is."""

    def __init__(self, _: str, *, replica: str, **__: object) -> None:
        self.replica = replica

    async def send(self, payload: bytes) -> int:
        return len(self.replica) + len(payload)

    async def close(self) -> None:
        return


async def test_replicas_are_joined_whether_they_come_before_the_connection_or_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sink, "IntakeSink", Sent)
    values = flags.Values({"server": "http://127.0.0.1:1", "token-file": "", "ca-file": ""})
    who = session.Identity(uid="u", tenant="t", replica="r", model="m", scheme="vllm")
    async with contextlib.AsyncExitStack() as closing, asyncio.TaskGroup() as tasks:
        opened = sinks.Sinks(values, tasks, closing)
        first = opened.open(who)
        with pytest.raises(store.Unavailable, match="not connected yet"):
            await first.send(b"")
        connecting = tasks.create_task(opened.connect())
        await asyncio.sleep(0)
        assert await first.send(b"1") == 2
        later = opened.open(who)
        await asyncio.gather(*opened.joining)
        assert await later.send(b"22") == 3
        connecting.cancel()
