"""Messages that are not stored: `store.Bus` over core NATS. nats-py subscribes again after every reconnect.

An answer that raises is logged and the asker gets no reply: he times out and asks again, as after any loss. Answers
run at once in tasks of their own, at most 256; what comes beyond waits in the subscription.

Rules: design.md section 3 ("Return channel"), section 4 (`wlq.lookup`).
"""

import asyncio
from typing import Final

import structlog
from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from eventstore import store
from eventstore.jetstream import connect

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 256


class JetStreamBus:
    """Closing it leaves the connection open."""

    def __init__(self, connection: connect.Connection) -> None:
        self._connection = connection
        self._subscriptions: list[Subscription] = []
        self._answers: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def send(self, subject: str, payload: bytes) -> None:
        try:
            await self._connection.client.publish(subject, payload)
        except (errors.Error, OSError) as error:
            self._connection.check()
            raise store.Unavailable(f"cannot send to {subject}: {error}") from error

    async def hear(self, subject: str, on_message: store.Hear) -> None:
        async def take(message: Msg) -> None:
            try:
                on_message(message.data)
            except Exception:
                log.exception("a message was not understood", subject=message.subject)

        await self._subscribe(subject, "", take)

    async def serve(self, subject: str, answer: store.Answer, *, queue: str = "") -> None:
        async def one(message: Msg) -> None:
            try:
                await message.respond(await answer(message.data))
            except Exception:
                log.exception("a request was not answered", subject=message.subject)
            finally:
                self._room.release()

        async def take(message: Msg) -> None:
            if not message.reply:
                return
            await self._room.acquire()
            task = asyncio.get_running_loop().create_task(one(message))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

        await self._subscribe(subject, queue, take)

    async def _subscribe(self, subject: str, queue: str, take: object) -> None:
        self._connection.check()
        client = self._connection.client
        self._subscriptions.append(await client.subscribe(subject, queue=queue, cb=take))  # type: ignore[arg-type]
        if self._connection.connected:
            try:
                await client.flush(5)
            except (errors.Error, OSError) as error:
                log.debug("flush of a subscription failed", subject=subject, error=str(error))

    async def request(self, subject: str, payload: bytes, *, timeout: float) -> bytes:
        reply = await self._connection.request(subject, payload, timeout=timeout)
        if reply.status == 503:
            raise store.Unavailable(f"nobody listens on {subject}; is a `warmlog server` connected to this NATS?")
        return reply.payload

    async def close(self) -> None:
        """Stop listening; answers that are under way are finished."""
        for subscription in self._subscriptions:
            if not self._connection.client.is_closed:
                await subscription.unsubscribe()
        self._subscriptions.clear()
        if self._answers:
            await asyncio.wait(self._answers, timeout=2.0)
