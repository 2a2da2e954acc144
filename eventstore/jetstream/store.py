"""The control log on JetStream: `store.EventStore` over one connection.

Appends go through the appender, reads through the reader; here is what ties them: after every reconnect the first
append checks that the stream still holds what was acknowledged to this process. If not, the incarnation is raised. An
event that stands for itself is appended all the same; the next append with an expectation raises Regressed, for the
expectation comes from a world that is gone.

Rules: design.md section 2; JS-01.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable
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
        self._twice = False  # a number was given again in that incarnation: some of it is lost, however long it is now
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
        before = self._known
        appended = await self.appender.append(event, expected=expected)
        if not appended.duplicate or appended.sequence > before.sequence:
            self._acknowledged(before, appended.sequence)
        return appended

    def offer(self, event: envelope.Envelope, told: Callable[[bool], None]) -> bool:
        """Append without a task and without waiting, where that can be done at once; False where it cannot: nothing was
        sent. `told` is called within the turn of the loop in which JetStream's answer is read: True, it is stored;
        False, nobody knows, and whoever cares appends the same event."""
        if self._life != self.connection.life or shedding.worth(event) is not shedding.Worth.RESERVE:
            return False
        try:
            return self.appender.offer(event, _Offered(functools.partial(self._acknowledged, self._known), told))
        except store.StoreError:
            return False  # `append` says why

    @property
    def _known(self) -> store.Position:
        return store.Position(self._incarnation, self._highest)

    def _acknowledged(self, before: store.Position, sequence: int) -> None:
        """`before` is what had been acknowledged when this one was sent."""
        if before.incarnation != self._incarnation:
            return  # what became of that one is known
        if sequence <= before.sequence:
            self._twice, self._life = True, 0  # `_check` before the next append
        elif sequence > self._highest:
            self._highest = sequence

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
            life, known = self.connection.life, self._known
            try:
                if known.sequence:
                    found = await stream.verify(self.connection, self.name, known, lost=self._twice)
                else:
                    found = await self.extent()
                self._incarnation = found.incarnation
            except store.Regressed as lost:
                self._incarnation, self._highest, self._lost = lost.found.incarnation, 0, lost
                self._twice = False
            self._life = 0 if self._twice else life  # told while we looked

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


class _Offered:
    """Waits for the answer to an event that was offered."""

    __slots__ = ("_acknowledged", "_told")

    def __init__(self, acknowledged: Callable[[int], None], told: Callable[[bool], None]) -> None:
        self._acknowledged, self._told = acknowledged, told

    def done(self) -> bool:
        return False

    def set_result(self, ack: publisher.Ack) -> None:
        new = ack.error is None and not ack.duplicate
        if new:
            self._acknowledged(ack.seq)
        self._told(new)

    def set_exception(self, error: store.StoreError) -> None:
        self._told(False)


def _stored(found: api.Message | None) -> store.Stored | None:
    return None if found is None else store.Stored(found.sequence, found.time_ns, found.subject, found.payload)
