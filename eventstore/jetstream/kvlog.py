"""What engines hold, on JetStream: `store.KVLog` over one connection.

A message is sent once and carries no id: a state that arrives twice is harmless, and a session's n shows what is
missing. So `publish` says whether an answer came in time and leaves the rest to the session.

Rules: design.md section 3.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final, Self

from eventstore import store, streams
from eventstore.jetstream import api, connect, publisher, reader, stream

#: Seconds between two pulls of who follows: messages then come several at a time. docs/design/0002-window.md
PAUSE: Final = 0.01


class JetStreamKV:
    """`open` also checks that the stream is there, which a credential that may only publish cannot.

    Closing it leaves the connection open.
    """

    def __init__(self, connection: connect.Connection, *, name: str = streams.KV_LOG) -> None:
        self.connection = connection
        self.name = name
        self.publisher = publisher.Publisher(connection)
        self.reader = reader.Reader(connection, name, store.KVMessage, reader.Settings(pause=PAUSE))

    @classmethod
    async def open(cls, connection: connect.Connection, *, name: str = streams.KV_LOG) -> Self:
        """Raises Misconfigured when the stream is missing."""
        self = cls(connection, name=name)
        await self.extent()
        return self

    async def publish(self, subject: str, payload: bytes, *, deadline: float = 2.0) -> int:
        until = asyncio.get_running_loop().time() + deadline
        ack = await self.publisher.publish(subject, payload, deadline=until, resend=False)
        if ack.error is not None:
            error = publisher.as_api_error(ack.error)
            raise api.as_store_error(error, self.name) from error
        return ack.seq

    async def extent(self) -> store.Extent:
        return await stream.extent(self.connection, self.name)

    async def verify(self, known: store.Position) -> store.Extent:
        return await stream.verify(self.connection, self.name, known)

    def read(self, *, after: int = 0, follow: bool = False) -> AsyncGenerator[list[store.KVMessage], None]:
        return self.reader.read(after=after, follow=follow)

    async def close(self) -> None:
        await self.publisher.stop()
