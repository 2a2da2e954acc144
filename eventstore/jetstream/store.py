"""The control log on JetStream: `store.EventStore` over one connection.

Appends go through the appender, reads through the reader; here is what ties them: after every reconnect the first
append checks that the stream still holds what was acknowledged to this process. If not, the incarnation is raised. An
event that stands for itself is appended all the same; the next append with an expectation raises Regressed, for the
expectation comes from a world that is gone.

Rules: design.md section 2; JS-01.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Self

from eventstore import envelope, shedding, store, streams
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
        self.deadline = deadline
        self.publisher = publisher.Publisher(connection)
        self.appender = appender.Appender(connection, self.publisher, name, deadline=deadline)
        self.reader = reader.Reader(connection, name, store.Stored)
        self._incarnation = ""
        self._highest = 0  # acknowledged to this process in that incarnation
        self._lost: store.Regressed | None = None  # until somebody who relied on it was told
        self._life = 0  # of the connection, when that was last looked for in the stream
        self._checking = asyncio.Lock()
        self.gate = shedding.Gate(name)

    @classmethod
    async def open(
        cls, connection: connect.Connection, *, name: str = streams.CONTROL_LOG, deadline: float = appender.DEADLINE
    ) -> Self:
        """Raises Misconfigured when the stream is missing."""
        self = cls(connection, name=name, deadline=deadline)
        await self.extent()
        return self

    async def append(self, event: envelope.Envelope, *, expected: int | None = None) -> store.Appended:
        if self._life != self.connection.life:
            await self._check()
        if self._lost is not None and expected is not None:
            lost, self._lost = self._lost, None
            raise lost
        await self._shed(event)
        appended = await self.appender.append(event, expected=expected)
        if appended.sequence > self._highest:
            self._highest = appended.sequence
        elif not appended.duplicate:
            self._life = 0  # numbers count up within an incarnation: look before the next append
        return appended

    async def _shed(self, event: envelope.Envelope) -> None:
        """Raises Shed. What the reserve is kept for never waits for a look."""
        if shedding.worth(event) is shedding.Worth.RESERVE:
            return
        if self.gate.stale():
            with contextlib.suppress(store.Unavailable, store.Misconfigured):  # the append says so itself
                self.gate.learn(*await stream.room(self.connection, self.name))
        self.gate.admit(event)
        self.gate.appended(len(event.data))

    async def _check(self) -> None:
        """After a connect: what was acknowledged is still there, or its loss is known."""
        async with self._checking:
            if self._life == self.connection.life:
                return
            if not self.connection.connected:
                if self._highest:
                    return  # the append itself waits for the connection, within its deadline
                await self.connection.wait_connected(self.deadline)
            life = self.connection.life
            known = store.Position(self._incarnation, self._highest)
            try:
                found = await (self.verify(known) if known.sequence else self.extent())
                self._incarnation = found.incarnation
            except store.Regressed as lost:
                self._incarnation, self._highest, self._lost = lost.found.incarnation, 0, lost
            self._life = life

    async def get(self, sequence: int) -> store.Stored | None:
        return _stored(await api.message(self.connection, self.name, {"seq": sequence})) if sequence > 0 else None

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
