"""Where a subscriber's replicas send: to NATS or to a server's intake, connected while events are read already.

Until then sending says Unavailable, as it does while a log is away: changes wait in the table. Replicas that come
later, with the first batch of their rank, are joined as they come.

Not here: what is sent (subscribers/kvevents/session), what a sink does (subscribers/kvevents/sink).
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable

from eventstore import addresses, store
from eventstore.jetstream import bus, kvlog
from subscribers.kvevents import session, sink
from warmlog import flags, link

Make = Callable[[session.Identity], sink.Sink]


class LateSink:
    """A sink that is still being connected."""

    def __init__(self) -> None:
        self._real: sink.Sink | None = None
        self._on_order: sink.OnOrder | None = None

    async def use(self, real: sink.Sink) -> None:
        if self._on_order is not None:
            await real.listen(self._on_order)
        self._real = real

    async def send(self, payload: bytes) -> int:
        if self._real is None:
            raise store.Unavailable("not connected yet")
        return await self._real.send(payload)

    async def listen(self, on_order: sink.OnOrder) -> None:
        self._on_order = on_order
        if self._real is not None:
            await self._real.listen(on_order)

    async def close(self) -> None:
        if self._real is not None:
            await self._real.close()


class Sinks:
    """The sinks of one process; what they open is closed by `closing`."""

    def __init__(self, values: flags.Values, tasks: asyncio.TaskGroup, closing: contextlib.AsyncExitStack) -> None:
        self.joining: list[asyncio.Task[None]] = []  # of replicas that came after the connection
        self._values, self._tasks, self._closing = values, tasks, closing
        self._opened: list[tuple[session.Identity, LateSink]] = []
        self._make: Make | None = None  # once all that were opened before are joined

    def open(self, who: session.Identity) -> LateSink:
        late = LateSink()
        self._opened.append((who, late))
        if self._make is not None:
            self.joining.append(self._tasks.create_task(self._join(self._make, who, late)))
        return late

    async def connect(self) -> None:
        """Join all, then wait for the end of the connection. Raises UsageError for an address of no known scheme, and
        what connecting or its end raises."""
        make, ended = await self._connected()
        for who, late in self._opened:
            await self._join(make, who, late)
        self._make = make
        await ended()  # sinks that come later are children of this task's group

    async def _join(self, make: Make, who: session.Identity, late: LateSink) -> None:
        real = make(who)
        self._closing.push_async_callback(real.close)
        await late.use(real)

    async def _connected(self) -> tuple[Make, Callable[[], Awaitable[object]]]:
        """What makes a replica's sink, and what waits for the end of the connection."""
        values = self._values
        target = values["server"]
        if target.startswith(("http://", "https://")):

            def over_http(who: session.Identity) -> sink.Sink:
                return sink.IntakeSink(
                    target,
                    tenant=who.tenant,
                    model=who.model,
                    replica=who.replica,
                    token_file=values["token-file"] or None,
                    ca_file=values["ca-file"] or None,
                )

            return over_http, asyncio.Event().wait  # never: a message that fails is sent again
        if target.startswith(("nats://", "tls://")):
            connection = await link.open_link(flags.Values(values, nats=target), "subscriber", wait=None)
            self._closing.push_async_callback(connection.close)
            kv, lines = kvlog.JetStreamKV(connection), bus.JetStreamBus(connection)

            def over_nats(who: session.Identity) -> sink.Sink:
                return sink.NatsSink(kv, lines, tenant=who.tenant, model=who.model, replica=who.replica)

            return over_nats, functools.partial(link.ended, connection)
        raise flags.UsageError(
            f"--server: {addresses.shown(target)!r} has no scheme that is known; "
            "give nats://host:port or http(s)://host:port"
        )
