"""What the contract suite needs of an event store beside its protocol: the faults, one way for each implementation.

`Memory` and `JetStream` offer the same names; a test says what happens, not how it is brought about.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

from eventstore import envelope, events, memory, store, streams
from eventstore.jetstream import connect, provision
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver

SHORT = 0.4  # seconds of a duplicate window that a test waits for; JetStream takes no less than 0.1


def moment(number: int, *, id: str | None = None, subject: str = "wl.moment", text: str = "x") -> envelope.Envelope:
    """An event whose data says `number` and `text`."""
    return events.event(
        events.Moment(kv_sequence=number, kv_incarnation=text),
        id=id or f"moment:{number}",
        source="/test",
        subject=subject,
        time_ns=time.time_ns(),
        actor="test",
    )


class Bench(Protocol):
    """One store under test and what can be done to it."""

    name: str

    async def store(self, **options: Any) -> store.EventStore: ...

    async def lose_next_ack(self, log: Any) -> None: ...

    @contextlib.asynccontextmanager
    def outage(self, log: Any) -> AsyncGenerator[None, None]: ...

    async def mark(self, log: Any) -> None: ...

    async def return_to_mark(self, log: Any) -> None: ...


class Memory:
    name = "memory"

    async def store(self, *, window: float = 60.0, max_bytes: int | None = None) -> memory.MemoryStore:
        return memory.MemoryStore(window=window, max_bytes=max_bytes)

    async def lose_next_ack(self, log: memory.MemoryStore) -> None:
        log.faults.lose_acks = 1

    @contextlib.asynccontextmanager
    async def outage(self, log: memory.MemoryStore) -> AsyncGenerator[None, None]:
        log.faults.outage = True
        yield
        log.faults.outage = False
        await log.log.wake()

    async def mark(self, log: memory.MemoryStore) -> None:
        self._last = (await log.extent()).last

    async def return_to_mark(self, log: memory.MemoryStore) -> None:
        log.lose_end(self._last)
        await log.log.wake()

    async def close(self) -> None:
        pass


class JetStream:
    name = "jetstream"

    def __init__(self, directory: Path) -> None:
        self.server = natsserver.Server(directory / "nats")
        self.backup = directory / "backup"
        self._open: list[Any] = []

    async def connection(self, name: str = "test", **options: Any) -> connect.Connection:
        made = await connect.connect(self.server.url, connect.Options(name=name, **options), wait=5)
        self._open.append(made)
        return made

    async def store(self, *, window: float = 60.0, max_bytes: int = 1 << 30, deadline: float = 3.0) -> JetStreamStore:
        connection = await self.connection()
        await provision.provision(connection, streams.control_log(duplicate_window=window, max_bytes=max_bytes))
        log = await JetStreamStore.open(connection, deadline=deadline)
        self._open.append(log)
        return log

    async def lose_next_ack(self, log: JetStreamStore) -> None:
        await log.publisher.start()
        cut_next(log.connection, log.publisher._answers)

    @contextlib.asynccontextmanager
    async def outage(self, log: JetStreamStore) -> AsyncGenerator[None, None]:
        await self.server.kill()
        await asyncio.sleep(0.1)
        yield
        await self.server.start()

    async def mark(self, log: JetStreamStore) -> None:
        await self.server.stop()
        self.server.back_up(self.backup)
        await self.server.start()
        await log.connection.wait_connected(5)

    async def return_to_mark(self, log: JetStreamStore) -> None:
        await self.server.stop()
        self.server.restore(self.backup)
        again = asyncio.Event()
        log.connection.on_connect.append(again.set)
        await self.server.start()
        await again.wait()

    async def close(self) -> None:
        for one in reversed(self._open):
            await one.close()
        await self.server.stop()


@contextlib.asynccontextmanager
async def jetstream(directory: Path) -> AsyncGenerator[JetStream, None]:
    """One over a server of its own; the test is skipped, or fails, where there is none."""
    natsserver.require()
    made = JetStream(directory)
    await made.server.start()
    try:
        yield made
    finally:
        await made.close()


def cut_next(connection: connect.Connection, take: Any, *, skip: int = 0, count: int = 1) -> None:
    """Drop `count` frames on their way to a tap, after letting `skip` pass: what a full buffer in a client does."""
    taps = connection.client.splitter.taps
    (sid,) = [sid for sid, found in taps.items() if found == take]
    seen = 0

    def cut(taken: list[Any]) -> None:
        nonlocal seen
        kept = []
        for frame in taken:
            if not skip <= seen < skip + count:
                kept.append(frame)
            seen += 1
        take(kept)

    taps[sid] = cut


async def everything(log: store.EventStore, **options: Any) -> list[store.Stored]:
    return [one async for chunk in log.read(**options) for one in chunk]


async def follow(
    log: store.EventStore, count: int, *, after: int = 0, into: list[store.Stored] | None = None
) -> list[store.Stored]:
    """Read until `count` events came."""
    found = [] if into is None else into
    async with contextlib.aclosing(log.read(after=after, follow=True)) as chunks:
        async for chunk in chunks:
            found += chunk
            if len(found) >= count:
                break
    return found


async def insist(log: store.EventStore, event: envelope.Envelope, **options: Any) -> store.Appended:
    """As a role does: the same event again while the log is unavailable."""
    while True:
        try:
            return await log.append(event, **options)
        except store.Unavailable:
            await asyncio.sleep(0.02)
