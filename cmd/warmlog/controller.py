"""Watches Kubernetes into the log and writes what the log wants: CR status, workloads, Events.

Example:
  warmlog controller --nats nats://nats:4222

Run two; a Lease says who leads. Only the leader watches and writes, the other one folds the log and is ready to take
over. Exit codes: 0 after SIGTERM, 2 wrong flags, 3 refused (no cluster, a drifted stream).
"""

import argparse
import asyncio
import contextlib
import functools
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

import structlog
import uvloop

from eventstore import envelope, events, store, subjects
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from handlers.effects.cluster import ClusterError
from handlers.effects.lease import PERIOD, Lease
from handlers.outcome import Key
from handlers.world.state import World
from subscribers import metrics
from subscribers.following import Follower
from subscribers.kubernetes.appending import Deposed
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from warmlog import (
    VERSION,
    certificates,
    cluster,
    controllermetrics,
    flags,
    health,
    keeping,
    leading,
    link,
    logs,
    provisioning,
    serving,
    systems,
)

log = structlog.get_logger()

FLAGS: Final = (
    *link.FLAGS,
    *cluster.FLAGS,
    flags.Flag("namespace", "where the Lease lives", "inference-cache-system"),
    flags.Flag("lease-duration", "how long nobody leads after a leader was killed", "15s", flags.interval),
    flags.Flag("webhook-secret", "Secret that the webhook's certificate is kept in", "warmlog-webhook-tls"),
    flags.Flag("webhook-names", "names of the webhook's Service, with commas; its usual ones when empty"),
    flags.Flag("health-bind-address", "healthz, readyz, metrics", "127.0.0.1:8082", flags.address),
    *provisioning.FLAGS,
    flags.Flag("instance", "this controller's name in the log; host name and process when empty"),
    *logs.FLAGS,
)
LEASE: Final = "inference-cache-controller-leader-lock"
RELEASE: Final = 2.0  # seconds that giving the Lease up may take


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
            floor=lambda: self.follower.world.epoch,
            duration=values["lease-duration"],
            margin=values["lease-duration"] / 3,
            period=min(values["lease-duration"] / 7.5, PERIOD),
        )
        self.term: leading.Term | None = None  # while it leads
        self.registry = metrics.Registry()
        self.tally = leading.Tally(self.registry)
        controllermetrics.register(self)
        self.keeping.register(self.registry)
        self._deposed = asyncio.Event()

    # What follows from the log ------------------------------------------------------------------------------------

    def _folded(self, event: events.Decoded) -> None:
        if isinstance(event.data, events.LeaderElected) and 0 < self.lease.epoch < event.data.epoch:
            log.warning("deposed", by=event.data.instance, epoch=event.data.epoch)
            self._deposed.set()
        if self.term is not None:
            self.term.folded(event)

    def _slice(self) -> None:
        if self.term is not None:
            self.term.wake()

    def _renewed(self, world: World) -> None:
        self._deposed.set()  # what was decided came from a world that is gone: begin again

    # Leading ------------------------------------------------------------------------------------------------------

    def leads(self) -> bool:
        return self.lease.leads and not self._deposed.is_set()

    def may(self) -> bool:
        """Whether to write: what cannot be recorded is not done."""
        return self.leads() and self.connection.connected

    async def lead(self) -> None:
        """Take the Lease and work until it is lost, or another epoch is seen. Raises what made going on useless."""
        await self.follower.caught_up.wait()
        await self.connection.wait_connected()
        epoch = await self.lease.hold()
        try:
            self._deposed.clear()
            log.info("leading", epoch=epoch)
            elected = events.LeaderElected(epoch=epoch, instance=self.instance)
            appended = await self.append(elected, f"{epoch}:{self.instance}:{time.time_ns()}", subjects.LEADER)
            await self.follower.folded(appended.sequence)
            await self._work(epoch)
        finally:
            if self.term is not None:
                self.term.count()
            self.term = None
            log.info("not leading any more", epoch=epoch)
            with contextlib.suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(RELEASE):
                    await self.lease.release()

    async def _work(self, epoch: int) -> None:
        self.term = leading.Term(
            epoch=epoch,
            instance=self.instance,
            systems=self.systems,
            client=self.client,
            follower=self.follower,
            lease=self.lease,
            leads=self.leads,
            may=self.may,
            append=self.append,
            certificates=lambda: self._certificates().keep(),
            tally=self.tally,
        )
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(self.term.run())
            ends = [tasks.create_task(self.lease.keep()), tasks.create_task(self._deposed.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (working, *ends):
                task.cancel()

    def _certificates(self) -> certificates.Keeper:
        namespace = self.values["namespace"]
        usual = [f"warmlog-webhook.{namespace}.svc", f"warmlog-webhook.{namespace}.svc.cluster.local"]
        names = [name for name in self.values["webhook-names"].split(",") if name] or usual
        return certificates.Keeper(self.objects, Key("secrets", namespace, self.values["webhook-secret"]), names)

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
        notes = [f"leading with epoch {self.lease.epoch}" if self.leads() else "standby"]
        if self.lease.trouble:
            notes.append(f"lease: {self.lease.trouble}")
        for one in self.term.watchers if self.term is not None else ():
            if one.state == "absent":
                notes.append(f"{one.kind}: the API server does not know this kind")
            elif one.trouble:
                notes.append(f"{one.kind}: {one.trouble}")
        return health.Readiness(not reasons, reasons, notes)

    async def serve(self, stop: asyncio.Event) -> None:
        where = self.values["health-bind-address"]
        async with health.serving(where, self.readiness, metrics=self.registry.render) as port:
            log.info("listening", health=port, version=VERSION, cluster=self.client.host)
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self._life()),
                    tasks.create_task(self.follower.run()),
                    tasks.create_task(self.keeping.run()),
                    tasks.create_task(serving.settle(self.follower.caught_up)),
                    tasks.create_task(link.ended(self.connection)),
                ]
                await stop.wait()
                running[0].cancel()  # it gives the Lease up, while the log is still followed
                await asyncio.wait(running[:1])
                for task in running[1:]:
                    task.cancel()
            await self.keeping.close()
            await self.log.close()
        log.info("stopped")

    async def _life(self) -> None:
        """Lead whenever it can. Ends with what an operator has to put right."""
        await self._persistently(self.tell_settings)
        while True:
            await self._persistently(self.lead)

    async def _persistently(self, work: Callable[[], Awaitable[None]]) -> None:
        """Until it succeeds once. What a log cannot do now is tried again, and so is a defect of ours, more slowly."""
        pause = 0.5
        while True:
            try:
                await work()
            except Exception as error:
                causes = leaves(error)
                if any(isinstance(one, store.Misconfigured) for one in causes):
                    raise
                passing = all(isinstance(one, (store.StoreError, Deposed)) for one in causes)
                if passing:
                    log.warning("leading-interrupted", reason=str(causes[0]) or type(causes[0]).__name__)
                else:
                    log.exception("leading-defect")
                pause = min(2 * pause, 30.0) if not passing else 1.0
                await asyncio.sleep(pause * (0.5 + random.random()))
            else:
                return


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions of a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]


async def prepared(values: flags.Values, closing: contextlib.AsyncExitStack) -> Controller:
    client = await closing.enter_async_context(await cluster.open_cluster(values))
    connection = await closing.enter_async_context(await link.open_link(values, "controller", wait=None))
    await provisioning.logs(values, connection)
    await provisioning.beside(values, connection)
    return Controller(values, connection, client)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    logs.configure(role="controller", form=values["log-format"], level=values["log-level"])
    return uvloop.run(serving.until_told(functools.partial(prepared, values)))
