"""The control log on JetStream: `store.EventStore` over one connection.

Appends go through the appender, reads through the reader; here is what ties them: after every reconnect the first
append checks that the stream still holds what was acknowledged to this process or read by it. If not, the incarnation
is raised and that append raises Regressed: the caller's expectations come from a world that is gone.

Rules: design.md section 2; JS-01.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Self

from eventstore import envelope, store, streams
from eventstore.jetstream import api, appender, connect, publisher, reader, stream


class JetStreamStore:
    """`deadline` is how many seconds an append may take. `open` also checks that the stream is there.

    Closing it leaves the connection open.
    """

    def __init__(
        self,
        connection: connect.Connection,
        *,
        name: str = streams.CONTROL_LOG,
        deadline: float = appender.DEADLINE,
    ) -> None:
        self.connection = connection
        self.name = name
        self.publisher = publisher.Publisher(connection)
        self.appender = appender.Appender(connection, self.publisher, name, deadline=deadline)
        self.reader = reader.Reader(connection, name, store.Stored)
        self._known: store.Position | None = None  # the highest acknowledged to this process
        self._life = connection.life
        self._checking = asyncio.Lock()

    @classmethod
    async def open(
        cls, connection: connect.Connection, *, name: str = streams.CONTROL_LOG, deadline: float = appender.DEADLINE
    ) -> Self:
        """Raises Misconfigured when the stream is missing."""
        self = cls(connection, name=name, deadline=deadline)
        await self.extent()
        return self

    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended:
        if self._life != self.connection.life and self._known is not None:
            await self._check()
        appended = await self.appender.append(event, expected=expected)
        known = self._known
        if known is None:
            self._known = store.Position((await self.extent()).incarnation, appended.sequence)
        elif appended.sequence > known.sequence:
            self._known = store.Position(known.incarnation, appended.sequence)
        elif not appended.duplicate:
            self._life = 0  # numbers count up within an incarnation: look before the next append
        return appended

    async def _check(self) -> None:
        async with self._checking:
            if self._life == self.connection.life or self._known is None:
                return
            if not self.connection.connected:
                return  # the append itself waits for the connection, within its deadline
            life = self.connection.life
            try:
                await self.verify(self._known)
            except store.Regressed:
                self._known, self._life = None, life
                raise
            self._life = life

    async def last(self, subject: str) -> store.Stored | None:
        return _stored(await api.message(self.connection, self.name, {"last_by_subj": subject}))

    async def last_before(
        self, subject: str, *, sequence: int | None = None, time_ns: int | None = None
    ) -> store.Stored | None:
        found = await api.last_before(self.connection, self.name, subject, sequence=sequence, time_ns=time_ns)
        return _stored(found)

    async def extent(self) -> store.Extent:
        return await stream.extent(self.connection, self.name)

    async def verify(self, known: store.Position) -> store.Extent:
        return await stream.verify(self.connection, self.name, known)

    def read(
        self, *, after: int = 0, subject: str | None = None, follow: bool = False
    ) -> AsyncGenerator[list[store.Stored], None]:
        return self.reader.read(after=after, subject=subject, follow=follow)

    async def close(self) -> None:
        await self.publisher.stop()


def _stored(found: api.Message | None) -> store.Stored | None:
    return None if found is None else store.Stored(found.sequence, found.time_ns, found.subject, found.payload)
