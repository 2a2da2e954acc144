"""The prefix index and LookupRoute: reads WARMLOG_KV, answers which replica holds a prompt.

Example:
  warmlog server --nats nats://nats:4222 --insecure-disable-auth
  warmlog server --nats nats://nats:4222 --allowed-controller-sa system:serviceaccount:cache:controller

Listens on two addresses: lookup, healthz, readyz and metrics on --http-bind-address; snapshot, probe and the intake of
subscribers without NATS credentials on --snapshot-bind-address, which asks for a token of the one allowed account. Both
are loopback unless told otherwise. Exit codes: 0 after SIGTERM and a drain, 2 wrong flags, 3 refused (an old
nats-server, a drifted stream, a port in use).
"""

import argparse
import asyncio
import contextlib
import functools
import socket
import time
from pathlib import Path
from typing import Final

import msgspec
import structlog
import uvloop

from eventstore import events, kvwire, store, subjects
from eventstore.jetstream import bus, connect, kvlog
from eventstore.jetstream import store as jetstream
from handlers.prefixindex import answers, index, limits, lookup, outcomes, policies, request, views
from subscribers import indexing, metrics
from subscribers.http import admin, health, hotpath, intake, lookups, meters, orders, routes
from subscribers.kubernetes.client import Client
from warmlog import (
    VERSION,
    authentication,
    chronicle,
    cli,
    flags,
    link,
    logs,
    manifests,
    provisioning,
    selftest,
    servermetrics,
    serving,
    signals,
)

log = structlog.get_logger()

BODY_LIMIT: Final = 8 * 1024 * 1024
#: After this long a server is ready although replicas are unknown: their subscribers may be dead.
PATIENCE_SECONDS: Final = 10.0

FLAGS: Final = (
    *link.FLAGS,
    flags.Flag("http-bind-address", "lookup, healthz, readyz, metrics", "127.0.0.1:8080", flags.address),
    flags.Flag("snapshot-bind-address", "snapshot, probe, intake", "127.0.0.1:8081", flags.address),
    *authentication.FLAGS,
    flags.Flag("policies", "directory of CachePolicy and CacheTenant manifests (YAML), appended at start"),
    flags.Flag("max-holds", "holds (key times replica) that may match at most", str(limits.CAP), flags.at_least(1)),
    flags.Flag("moment-interval", "how often the two logs' positions are paired", "10s", flags.interval),
    flags.Flag("summary-interval", "how often a changed index is summarised", "30s", flags.interval),
    *provisioning.FLAGS,
    flags.Flag("instance", "this server's name in the log; the host's name when empty"),
    *logs.FLAGS,
)


class Server:
    """One server: what it follows, what it answers, what it appends."""

    def __init__(self, values: flags.Values, connection: connect.Connection, client: Client | None) -> None:
        """`client` reviews tokens; None with --insecure-disable-auth."""
        self.values, self.connection = values, connection
        self.instance = values["instance"] or socket.gethostname()
        self.log = jetstream.JetStreamStore(connection)
        self.kv = kvlog.JetStreamKV(connection)
        self.bus = bus.JetStreamBus(connection)
        self.chronicle = chronicle.Chronicle(self.log, instance=self.instance)
        self.policies = policies.UNKNOWN
        self.log_read = asyncio.Event()  # the control log was read to its end once
        self.box = orders.OrderBox()
        self.indexer = indexing.Indexer(self.kv, self._make_index, self._outcome)
        self.ready_since: float | None = None
        self.caught_up_at: float | None = None
        self.draining = False
        self.skipped = 0
        self.registry = metrics.Registry()
        self._orders: asyncio.Queue[outcomes.Order] = asyncio.Queue(maxsize=10_000)
        self._edge = lookups.LookupEdge(
            self.decide,
            credit=lambda credit: self.indexer.index.credit(credit),
            meter=meters.LookupMeter(self.registry),
        )
        self._listener = hotpath.Listener(
            routes.Routes(
                lookup=self._edge,
                ready=lambda: health.reply(self.readiness()),
                metrics=self.registry.render,
                body_limit=BODY_LIMIT,
            ),
            meter=meters.HttpMeter(self.registry),
        )
        self._admin = admin.AdminServer(
            admin.create_app(
                snapshot=self.snapshot,
                probe_index=selftest.SelfTest(),
                kv_intake=intake.Intake(self.kv.publish, self.box),
                authenticate=authentication.authenticator(values, client, self.registry),
            )
        )
        servermetrics.register(self)

    def _make_index(self) -> index.Index:
        made = index.Index(cap=self.values["max-holds"])
        made.govern(self.policies)
        return made

    # Answers -----------------------------------------------------------------------------------------------------

    def decide(self, question: request.LookupRequest, *, started_ns: int, clock: lookup.Clock) -> lookup.Decision:
        known = self.indexer.index
        if not self.indexer.caught_up:
            return lookup.Decision(
                answers.LookupResponse(
                    replica_scores=[],
                    reason_code="NO_HINT",
                    detail=answers.Detail("starting", "the index is still being read; see /readyz"),
                )
            )
        decision = lookup.decide(
            known, known.policies, question, self.indexer.now(), started_ns=started_ns, clock=clock
        )
        return self._positioned(decision) if question.explain else decision

    def _positioned(self, decision: lookup.Decision) -> lookup.Decision:
        """With the position that it was taken at: two servers' answers can be compared where that is the same."""
        position = store.Position(self.indexer.incarnation, self.indexer.index.position)
        response = msgspec.structs.replace(decision.response, position=str(position))
        return lookup.Decision(response, decision.credit)

    def snapshot(self) -> bytes:
        return msgspec.json.encode(views.snapshot(self.indexer.index))

    def readiness(self) -> health.Readiness:
        caught_up = self.indexer.caught_up and self.log_read.is_set()
        if caught_up and self.caught_up_at is None:
            self.caught_up_at = time.monotonic()
        waited = self.caught_up_at is not None and time.monotonic() - self.caught_up_at > PATIENCE_SECONDS
        unknown = [f"{one.tenant}/{one.name}" for one in self.indexer.index.incomplete() if one.state == "unknown"]
        unknown += [f"{tenant}/{name}" for tenant, name, _ in self.indexer.index.strangers.speaking(self.indexer.now())]
        judged = health.judge(
            health.Facts(
                caught_up=caught_up,
                behind=self.indexer.behind,
                incomplete=unknown,
                was_ready=self.ready_since is not None or waited,
                policies_listed=not self.policies.unlisted,
                log_answers=self.connection.connected,
                draining=self.draining,
            )
        )
        if judged.ready and self.ready_since is None:
            self.ready_since = time.monotonic()
            log.info("ready", blocks=self.indexer.index.blocks(), replicas=len(self.indexer.index.fleet))
        return judged

    # What follows from messages ----------------------------------------------------------------------------------

    def _outcome(self, outcome: outcomes.Outcome) -> None:
        match outcome:
            case outcomes.Edge():
                self.chronicle.edge(outcome, incarnation=self.indexer.incarnation, position=self.indexer.index.position)
            case outcomes.Order():
                if self.indexer.caught_up and not self._orders.full():
                    self._orders.put_nowait(outcome)
            case outcomes.Skipped():
                self.skipped += 1
                if self.skipped.bit_count() == 1:  # 1, 2, 4, 8 …: a flood of bad messages is no flood of lines
                    log.warning(
                        "a message of WARMLOG_KV was skipped",
                        sequence=outcome.sequence,
                        subject=outcome.subject,
                        reason=outcome.reason,
                        skipped=self.skipped,
                    )

    async def give_orders(self) -> None:
        while True:
            order = await self._orders.get()
            control = kvwire.Control(order.order, order.session, order.reason)
            with contextlib.suppress(store.Unavailable):  # an order that is lost is given again
                await self.bus.send(
                    subjects.kv_control_subject(order.tenant, order.replica), msgspec.json.encode(control)
                )

    async def share_questions(self) -> None:
        """Take part in `wlq.lookup` once this server is ready: until then others answer better."""
        while not self.readiness().ready:  # noqa: ASYNC110 - partly a matter of time
            await asyncio.sleep(0.02)
        await lookups.serve_nats(self.bus, self._edge)

    async def follow_log(self) -> None:
        """Policies and what is told already. Read whole at the start: keyframes come with a later issue."""
        after = 0
        while True:
            try:
                async for batch in self.log.read(after=after, follow=True):
                    for stored in batch:
                        after = stored.sequence
                        self._fold(stored)
                    if not batch:
                        self.log_read.set()
            except store.Regressed as error:
                log.warning("the control log lost its end and is folded again", reason=str(error))
                after, self.policies = 0, policies.UNKNOWN
                self.chronicle.forget()
            except store.Unavailable as error:
                log.warning("WARMLOG cannot be read now", reason=str(error))
                await asyncio.sleep(0.5)

    def _fold(self, stored: store.Stored) -> None:
        decoded = events.decode(stored)
        if isinstance(decoded, events.Undecodable):
            log.warning("an event is left out", sequence=stored.sequence, reason=decoded.reason)
            self.chronicle.fold(stored, None)
            return
        self.chronicle.fold(stored, decoded.data, live=self.log_read.is_set())
        folded = policies.fold(self.policies, stored.subject, decoded.data)
        if folded is not self.policies:
            self.policies = folded
            self.indexer.index.govern(folded)

    # What is appended at intervals -------------------------------------------------------------------------------

    async def tell_moments(self) -> None:
        interval = self.values["moment-interval"]
        while True:
            if self.indexer.caught_up:
                position = self.indexer.index.position
                moment = events.Moment(kv_sequence=position, kv_incarnation=self.indexer.incarnation)
                self.chronicle.moment(moment, interval=interval)
            await asyncio.sleep(interval)

    async def tell_summaries(self) -> None:
        interval = self.values["summary-interval"]
        while True:
            await asyncio.sleep(interval)
            if self.indexer.caught_up:
                summary = views.summary(self.indexer.index, shard="0", incarnation=self.indexer.incarnation)
                self.chronicle.summary(summary, interval=interval)

    def tell_settings(self) -> None:
        told = self.values.told(FLAGS)
        seen = events.SettingsSeen(role="server", instance=self.instance, version=VERSION, settings=told)
        start = time.time_ns()
        self.chronicle.put(
            seen, id=f"settings.seen:server:{self.instance}:{start}", subject=subjects.settings_subject("server")
        )

    # Life --------------------------------------------------------------------------------------------------------

    async def serve(self, stop: asyncio.Event) -> None:
        values = self.values
        lookup_port = await self._listener.start(*values["http-bind-address"])
        admin_port = await self._admin.start(*values["snapshot-bind-address"])
        log.info("listening", lookup=lookup_port, admin=admin_port, version=VERSION)
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self.follow_log())]
                ended = tasks.create_task(link.ended(self.connection))
                await signals.unless(stop, self.log_read.wait())
                self.tell_settings()
                await self.bus.hear(orders.ALL_ORDERS, self.box.hear)
                running += [
                    tasks.create_task(work)
                    for work in (
                        self.indexer.run(),
                        self.indexer.keep_time(),
                        self.chronicle.run(),
                        self.give_orders(),
                        self.tell_moments(),
                        self.tell_summaries(),
                        self.share_questions(),
                    )
                ]
                await stop.wait()
                self.draining = True
                await self.bus.close()
                await self._listener.drain()
                for task in (*running, ended):
                    task.cancel()
        finally:
            await self._admin.stop()
            await self.kv.close()
            await self.log.close()
        log.info("drained and stopped")


async def prepared(values: flags.Values, closing: contextlib.AsyncExitStack) -> Server:
    """Connected, both streams there, the manifests in the log. Waits for NATS as long as that takes."""
    given = manifests.read(Path(values["policies"])) if values["policies"] else None  # what is wrong is said now
    client = await authentication.open_cluster(values, closing)
    connection = await closing.enter_async_context(await link.open_link(values, "server", wait=None))
    await provisioning.logs(values, connection)
    server = Server(values, connection, client)
    if given is not None:
        appended = await manifests.append(server.log, given)
        log.info("manifests are in the log", manifests=len(given), appended=appended)
    return server


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    authentication.check(values)
    logs.configure(role="server", form=values["log-format"], level=values["log-level"])
    try:
        return uvloop.run(serving.until_told(functools.partial(prepared, values), unserved="stopped before it served"))
    except manifests.ManifestError as error:
        raise flags.UsageError(str(error)) from error
    except hotpath.ListenError as error:
        raise cli.Failure(str(error), cli.REFUSED) from error
