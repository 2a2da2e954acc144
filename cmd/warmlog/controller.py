"""Watches Kubernetes into the log and writes what the log wants: CR status, workloads, Events.

Example:
  warmlog controller --nats nats://nats:4222

Run two; a Lease says who leads. Only the leader watches and writes, the other one folds the log and is ready to take
over. Exit codes: 0 after SIGTERM, 2 wrong flags, 3 refused (no cluster, a drifted stream).
"""

import argparse
import asyncio
import contextlib
import os
import socket
import time
from datetime import UTC, datetime
from typing import Final

import structlog
import uvloop

from eventstore import envelope, events, store, subjects
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from handlers.effects.lease import Lease
from handlers.effects.worker import Worker
from handlers.outcome import Key
from handlers.reconcile import Loop, Timer
from handlers.world.state import World
from subscribers import metrics
from subscribers.following import Follower
from subscribers.kubernetes.appending import Recorder
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from subscribers.kubernetes.watcher import Watcher
from warmlog import VERSION, certificates, cli, cluster, flags, health, keeping, link, logs, server, signals, systems

log = structlog.get_logger()

FLAGS: Final = (
    *link.FLAGS,
    *cluster.FLAGS,
    flags.Flag("namespace", "where the Lease lives", "inference-cache-system"),
    flags.Flag("webhook-secret", "Secret that the webhook's certificate is kept in", "warmlog-webhook-tls"),
    flags.Flag("webhook-names", "names of the webhook's Service, with commas; its usual ones when empty"),
    flags.Flag("health-bind-address", "healthz, readyz, metrics", "127.0.0.1:8082", flags.address),
    flags.Flag("log-max-bytes", "size of WARMLOG when it is made", "1Gi", flags.room),
    flags.Flag("kv-max-bytes", "size of WARMLOG_KV when it is made", "1Gi", flags.room),
    flags.Flag("stream-replicas", "copies of both streams when they are made", "1", flags.at_least(1)),
    flags.Flag("instance", "this controller's name in the log; host name and process when empty"),
    *logs.FLAGS,
)
LEASE: Final = "inference-cache-controller-leader-lock"


class Controller:
    """One controller: standby until the Lease is its own, then everything."""

    def __init__(self, values: flags.Values, connection: connect.Connection, client: Client) -> None:
        self.values, self.connection, self.client = values, connection, client
        self.instance = values["instance"] or f"{socket.gethostname()}-{os.getpid()}"
        self.log = jetstream.JetStreamStore(connection)
        self.objects = Objects(client)
        self.systems = systems.systems()
        self.keeping = keeping.Keeping(
            connection, self.log, instance=self.instance, leads=self.leads, world=lambda: self.follower.world
        )
        self.follower = Follower(
            self.log, folded=self._folded, renewed=self._renewed, slice_done=self._slice,
            snaps=self.keeping.snaps, marked=self.keeping.marked,
        )  # fmt: skip
        self.lease = Lease(
            self.objects,
            Key("leases.coordination.k8s.io", values["namespace"], LEASE),
            instance=self.instance,
            now=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        )
        self.loop: Loop | None = None  # while it leads
        self.worker: Worker | None = None
        self.watchers: list[Watcher] = []
        self._deposed = asyncio.Event()

    # What follows from the log ------------------------------------------------------------------------------------

    def _folded(self, event: events.Decoded) -> None:
        if self.loop is None:
            return
        if isinstance(event.data, events.LeaderElected) and event.data.epoch > self.lease.epoch:
            log.warning("deposed", by=event.data.instance, epoch=event.data.epoch)
            self._deposed.set()
        self.loop.folded(event)

    def _slice(self) -> None:
        if self.worker is not None:
            self.worker.wake()

    def _renewed(self, world: World) -> None:
        self._deposed.set()  # what was decided came from a world that is gone: begin again

    # Leading ------------------------------------------------------------------------------------------------------

    def leads(self) -> bool:
        return self.lease.leads and not self._deposed.is_set()

    async def lead(self) -> None:
        """Take the Lease and work until it is lost, or another epoch is seen."""
        await self.follower.caught_up.wait()
        epoch = await self.lease.hold()
        self._deposed.clear()
        log.info("leading", epoch=epoch)
        elected = events.LeaderElected(epoch=epoch, instance=self.instance)
        appended = await self.append(elected, f"{epoch}:{self.instance}", subjects.LEADER)
        await self.follower.folded(appended.sequence)
        world = self.follower.world
        self.loop = Loop(self.systems, world)
        recorder = Recorder(self.log, world, instance=self.instance, epoch=epoch, folded=self.follower.folded)
        self.watchers = [Watcher(self.client, kind, recorder) for kind in sorted(self.loop.kinds)]
        self.worker = Worker(self.loop, self.objects, self.log, epoch=epoch, instance=self.instance, leads=self.leads)
        try:
            async with asyncio.TaskGroup() as tasks:
                working = [tasks.create_task(one.run()) for one in self.watchers]
                working.append(tasks.create_task(self.worker.run()))
                working.append(tasks.create_task(self._timers(self.loop, epoch)))
                working.append(tasks.create_task(self._begin(self.loop)))
                working.append(tasks.create_task(self._certificates().keep()))
                ends = [asyncio.create_task(self.lease.keep()), asyncio.create_task(self._deposed.wait())]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in (*working, *ends):
                    task.cancel()
        finally:
            self.loop, self.worker, self.watchers = None, None, []
            self.lease.epoch = 0
            log.info("not leading any more", epoch=epoch)

    def _certificates(self) -> certificates.Keeper:
        namespace = self.values["namespace"]
        usual = [f"warmlog-webhook.{namespace}.svc", f"warmlog-webhook.{namespace}.svc.cluster.local"]
        names = [name for name in self.values["webhook-names"].split(",") if name] or usual
        return certificates.Keeper(self.objects, Key("secrets", namespace, self.values["webhook-secret"]), names)

    async def _begin(self, loop: Loop) -> None:
        """When every kind was listed in this epoch, look at everything once."""
        while not all(watcher.machine.lists for watcher in self.watchers) or not loop.ready:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        loop.begin()
        self._slice()

    async def _timers(self, loop: Loop, epoch: int) -> None:
        """Deadlines that the world asked for: the leader's clock says when, the event says that it was so."""
        while True:
            due = loop.due(time.time_ns())
            for timer in due:
                await self._fire(timer, epoch)
            await asyncio.sleep(0.1)

    async def _fire(self, timer: Timer, epoch: int) -> None:
        data = events.TimerFired(handler=timer.handler, key=str(timer.key), due_ns=timer.due_ns, epoch=epoch)
        said = f"{timer.handler}:{timer.key}:{timer.due_ns}"
        with contextlib.suppress(store.Unavailable):
            await self.append(data, said, subjects.timer_subject(timer.handler))

    async def append(self, data: events.Event, said: str, subject: str) -> store.Appended:
        name = events.name_of(data).removeprefix(envelope.PREFIX).removesuffix(".v1")
        event = events.event(
            data,
            id=f"{name}:{said}",
            source="warmlog/controller",
            subject=subject,
            time_ns=time.time_ns(),
            actor=f"controller/{self.instance}",
        )
        return await self.log.append(event)

    async def tell_settings(self) -> None:
        told = self.values.told(FLAGS)
        seen = events.SettingsSeen(role="controller", instance=self.instance, version=VERSION, settings=told)
        await self.append(seen, f"controller:{self.instance}:{time.time_ns()}", subjects.settings_subject("controller"))

    # Life ---------------------------------------------------------------------------------------------------------

    def readiness(self) -> health.Readiness:
        reasons = []
        if not self.follower.caught_up.is_set():
            reasons.append("the control log is still being read")
        notes = [f"{one.kind}: {one.trouble}" for one in self.watchers if one.trouble]
        notes.append(f"leading with epoch {self.lease.epoch}" if self.leads() else "standby")
        return health.Readiness(not reasons, reasons, notes)

    async def serve(self, stop: asyncio.Event) -> None:
        registry = metrics.Registry()
        self.keeping.register(registry)
        where = self.values["health-bind-address"]
        async with health.serving(where, self.readiness, metrics=registry.render) as port:
            log.info("listening", health=port, version=VERSION, cluster=self.client.host)
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(self.follower.run())
                kept = tasks.create_task(self.keeping.run())
                ended = tasks.create_task(link.ended(self.connection))
                leading = tasks.create_task(self._life())
                await stop.wait()
                for task in (leading, following, kept, ended):
                    task.cancel()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2):
                    await self.lease.release()
            await self.keeping.close()
            await self.log.close()
        log.info("stopped")

    async def _life(self) -> None:
        await self.follower.caught_up.wait()
        await self.tell_settings()
        while True:
            try:
                await self.lead()
            except* store.Unavailable as away:
                log.warning("the log takes nothing now", reason=str(away.exceptions[0]))
                await asyncio.sleep(1.0)


async def start(values: flags.Values) -> int:
    stop = signals.told()
    async with contextlib.AsyncExitStack() as closing:
        made = await signals.unless(stop, prepared(values, closing))
        if made is None:
            return 0
        try:
            await made.serve(stop)
        except* store.Refused as refused:
            raise cli.Failure(str(refused.exceptions[0]), cli.REFUSED) from refused
        except* store.Unavailable as away:
            raise cli.Failure(str(away.exceptions[0])) from away
    return 0


async def prepared(values: flags.Values, closing: contextlib.AsyncExitStack) -> Controller:
    client = await closing.enter_async_context(await cluster.open_cluster(values))
    connection = await closing.enter_async_context(await link.open_link(values, "controller", wait=None))
    await server.make_streams(values, connection)
    await keeping.make_streams(values, connection)
    return Controller(values, connection, client)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    logs.configure(role="controller", form=values["log-format"], level=values["log-level"])
    return uvloop.run(start(values))
