"""Beside an engine: its KV events become keys in WARMLOG_KV. Token ids never leave this process.

Example, with vLLM publishing on 5557 and replaying on 5657:
  warmlog subscriber --replica-id pod-a --tenant-id team-a --model-id MODEL --server nats://nats:4222 \\
    --replay-endpoint tcp://127.0.0.1:5657 --journal-dir /var/run/warmlog

--server takes nats://… (a credential that may publish) or http(s)://… (a server's intake). Exit codes: 0 after SIGTERM
and the last flush, 2 wrong flags, 3 refused (a forbidden identity, a wrong address), 4 a newer process speaks for the
same replica.
"""

import argparse
import asyncio
import contextlib
import time
import uuid
from pathlib import Path
from typing import Final

import structlog
import uvloop

from eventstore import store, subjects
from subscribers import metrics as telemetry
from subscribers.http import admin, hotpath, status
from subscribers.kvevents import consumer, endpoints, journal, metrics, replica, session, source, table
from warmlog import VERSION, cli, flags, link, logs, signals, sinks, subscribermetrics

log = structlog.get_logger()

LAST_FLUSH: Final = 3.0  # seconds at SIGTERM
TICK_SECONDS: Final = 1.0
_HIGHEST_RANK: Final = 65535


def adapter_names(text: str) -> dict[int, str]:
    """`7=sql,9=chat` as numbers and names. Raises ValueError."""
    names: dict[int, str] = {}
    for part in filter(None, text.split(",")):
        number, equals, name = part.partition("=")
        if not equals or not number.strip().isascii() or not number.strip().isdigit() or not name.strip():
            raise ValueError(f"{part!r} is not ID=NAME")
        if int(number) in names:
            raise ValueError(f"adapter id {int(number)} is named twice")
        names[int(number)] = name.strip()
    return names


def named(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


FLAGS: Final = (
    flags.Flag("engine-endpoint", "the engine's PUB socket (rank 0)", "tcp://127.0.0.1:5557", flags.url),
    flags.Flag(
        "replay-endpoint", "its replay socket (rank 0); without one a restart leaves the replica partial", "", flags.url
    ),
    flags.Flag("data-parallel-size", "ranks of the engine, each at port + rank", "1", flags.at_least(1)),
    flags.Flag("topic", "subscribe to topics with this prefix; empty is everything"),
    flags.Flag("server", "nats://host:port, or http(s)://host:port of a server's intake", None, flags.url),
    flags.Flag("token-file", "bearer token for an http(s) server, read again when it changes"),
    flags.Flag("ca-file", "PEM file of the authority of an https server"),
    flags.Flag("replica-id", "how a router names this engine, usually the Pod's name", None, named),
    flags.Flag("tenant-id", "the tenant that routers ask for, usually the Pod's namespace", "default", named),
    flags.Flag("model-id", "the model that routers ask for", None, named),
    flags.Flag("hash-scheme", "the namespace of keys that routers ask in", "vllm", named),
    flags.Flag("pod-uid", "uid of the Pod; a random one when empty"),
    flags.Flag(
        "window",
        "how long a change waits for others to share its message",
        f"{session.WINDOW * 1000:g}ms",
        flags.duration,
    ),
    flags.Flag(
        "journal-dir", "where to keep what is known across a restart, on a volume of the Pod; empty keeps nothing"
    ),
    flags.Flag(
        "lora-adapter-names", "names of adapters that the engine only numbers, as 7=sql,9=chat", "", adapter_names
    ),
    flags.Flag("ignore-block-removed", "an evicted block is assumed to be on a slower tier", "false", flags.boolean),
    flags.Flag("assumed-ttl", "for how long that is assumed", "30m", flags.duration),
    flags.Flag(
        "clear-scope", "what AllBlocksCleared empties: auto, gpu or all", "auto", flags.one_of("auto", "gpu", "all")
    ),
    flags.Flag("silent-after", "warn when nothing was ever received for this long", "30s", flags.duration),
    flags.Flag(
        "engine-metrics-url",
        "the engine's Prometheus page; empty scrapes nothing",
        "http://127.0.0.1:8000/metrics",
        flags.url,
    ),
    flags.Flag("stats-interval", "how often it is read", "10s", flags.interval),
    flags.Flag("engine-cache-size-bytes", "size of the engine's KV cache, to report bytes", "0", flags.size),
    flags.Flag("max-concurrency-ceiling", "requests at which pressure is 1", "256", flags.at_least(1)),
    flags.Flag("cache-tier", "which usage gauge counts", "auto", flags.one_of("auto", "kv", "gpu", "cpu")),
    flags.Flag("engine-model-name", "value of the label model_name; empty is any"),
    flags.Flag(
        "metrics-bind-address", "healthz and metrics, as 127.0.0.1:9101; empty serves neither", "", flags.maybe_address
    ),
    *(flag for flag in link.FLAGS if flag.name != "nats"),
    *logs.FLAGS,
)


class Wiring:
    """Builds the parts of one process. Everything that runs is started in `tasks`."""

    def __init__(self, values: flags.Values, tasks: asyncio.TaskGroup, opened: sinks.Sinks) -> None:
        self.values, self.tasks, self.sinks = values, tasks, opened
        self.boot = uuid.uuid4().hex[:12]
        self.uid: str = values["pod-uid"] or f"boot-{self.boot}"
        self.replicas: list[replica.Replica] = []
        self.speaking: list[asyncio.Task[None]] = []
        self.options = table.Settings(
            lora_adapter_names=values["lora-adapter-names"],
            clear=values["clear-scope"],
            ignore_block_removed=values["ignore-block-removed"],
            assumed_seconds=values["assumed-ttl"],
        )

    def identity(self, rank: int) -> session.Identity:
        values = self.values
        plain = values["data-parallel-size"] == 1 and rank == 0
        return session.Identity(
            uid=self.uid,
            tenant=values["tenant-id"],
            replica=values["replica-id"] if plain else f"{values['replica-id']}@{rank}",
            model=values["model-id"],
            scheme=values["hash-scheme"],
            settings={**values.told(FLAGS), "version": VERSION},
        )

    def open_rank(self, number: int, kept: table.Table | None = None) -> consumer.Rank:
        who = self.identity(number)
        held = table.Table(self.options) if kept is None else kept
        spoken = replica.Replica(
            who,
            held,
            self.sinks.open(who),
            boot=f"{self.boot}-{number}",
            clock=time.monotonic,
            window=self.values["window"],
        )
        self.replicas.append(spoken)
        self.speaking.append(self.tasks.create_task(spoken.run(), name=f"speak {who.replica}"))
        return consumer.Rank(spoken, held)

    def consume(self, where: endpoints.RankEndpoints) -> consumer.Consumer:
        """One socket: its journal, its source, the rank that its port implies."""
        values = self.values
        book, loaded = self.open_journal(where)
        own = self.open_rank(where.rank, loaded.table if loaded else None)
        return consumer.Consumer(
            source.Source(
                where,
                topic=values["topic"],
                resume=loaded.position if loaded else None,
                silent_after=values["silent-after"],
                pause=values["window"] / 2,  # what comes sooner would wait for its window anyway
            ),
            own,
            open_rank=self.open_rank,
            replay=where.replay is not None,
            journal=book,
            restored=consumer.Restored(loaded.coverage, loaded.epoch) if loaded else None,
            quarantine=Path(values["journal-dir"]) / "quarantine" if values["journal-dir"] else None,
        )

    def open_journal(self, where: endpoints.RankEndpoints) -> tuple[journal.Journal | None, journal.Loaded | None]:
        directory = self.values["journal-dir"]
        if not directory:
            return None, None
        who = self.identity(where.rank)
        config = journal.digest(self.options, who.tenant, who.model, who.scheme)
        belongs = journal.Identity(where.events, who.replica, config)
        book, loaded = journal.open_journal(Path(directory), belongs, self.options)
        if loaded.reason:
            log.info("nothing is known from before", replica=who.replica, reason=loaded.reason)
        else:
            log.info("the journal was read", replica=who.replica, blocks=loaded.table.count, cut_bytes=loaded.cut)
        return book, loaded

    async def scrape(self, consumed: consumer.Consumer) -> None:
        values = self.values
        scraper = metrics.Scraper(
            values["engine-metrics-url"],
            metrics.Options(
                model=values["engine-model-name"],
                rank=consumed.source.where.rank if values["data-parallel-size"] > 1 else None,
                tier=values["cache-tier"],
                cache_bytes=values["engine-cache-size-bytes"],
                ceiling=values["max-concurrency-ceiling"],
            ),
            interval=values["stats-interval"],
        )
        async with contextlib.aclosing(scraper.loads()) as loads:
            async for load in loads:
                if load is None:
                    continue
                if load.sleeping:
                    consumed.asleep()
                for rank in consumed.ranks.values():
                    rank.replica.measured(load.stats)


async def keep_time(consumed: consumer.Consumer) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        consumed.tick(time.time())


def check_names(values: flags.Values) -> None:
    """Every rank of this engine must fit into a subject. Raises UsageError."""
    try:
        for place in (subjects.kv_subject, lambda tenant, _, replica: subjects.kv_control_subject(tenant, replica)):
            place(values["tenant-id"], values["model-id"], f"{values['replica-id']}@{_HIGHEST_RANK}")
    except subjects.SubjectError as error:
        raise flags.UsageError(f"--replica-id, --tenant-id: {error}") from error


async def listen_and_tell(values: flags.Values) -> int:
    stop = signals.told()
    plan = endpoints.plan(values["engine-endpoint"], values["replay-endpoint"] or None, values["data-parallel-size"])
    for hint in plan.hints:
        log.warning("an endpoint was changed", hint=hint)
    who = {name: values[f"{name}-id"] for name in ("tenant", "model", "replica")}
    log.info("started", engine=[one.events for one in plan.ranks], **who, version=VERSION)
    if not values["tenant-id"]:
        log.warning("no tenant: lookups must name one, so none will find this replica; give --tenant-id")
    async with contextlib.AsyncExitStack() as closing:
        try:
            async with asyncio.TaskGroup() as tasks:
                opened = sinks.Sinks(values, tasks, closing)
                wiring = Wiring(values, tasks, opened)
                connecting = tasks.create_task(opened.connect(), name="connect")
                consumers = [wiring.consume(where) for where in plan.ranks]
                working = [tasks.create_task(one.run(), name=f"read {one.source.where.events}") for one in consumers]
                working += [tasks.create_task(keep_time(one)) for one in consumers]
                await serve_status(values, consumers, closing)
                if values["engine-metrics-url"]:
                    working += [tasks.create_task(wiring.scrape(one)) for one in consumers]
                await stop.wait()
                for task in (*working, *wiring.speaking, *opened.joining, connecting):
                    task.cancel()
                await asyncio.gather(*working, *wiring.speaking, *opened.joining, return_exceptions=True)
                await flush(wiring.replicas)
        except* session.Fenced as fenced:
            raise cli.Failure(f"fenced: {fenced.exceptions[0]}; this process stops", cli.FENCED) from fenced
        except* store.Refused as refused:
            raise cli.Failure(str(refused.exceptions[0]), cli.REFUSED) from refused
        except* store.Unavailable as away:
            raise cli.Failure(str(away.exceptions[0])) from away
        except* flags.UsageError as wrong:
            raise cli.Failure(str(wrong.exceptions[0]), cli.USAGE) from wrong
    return 0


async def serve_status(
    values: flags.Values, consumers: list[consumer.Consumer], closing: contextlib.AsyncExitStack
) -> None:
    if not values["metrics-bind-address"]:
        return
    registry = telemetry.Registry()
    subscribermetrics.register(registry, consumers)
    server = admin.AdminServer(status.create_app(registry.render))
    try:
        bound = await server.start(*values["metrics-bind-address"])
    except hotpath.ListenError as error:
        raise store.Misconfigured(str(error)) from error
    closing.push_async_callback(server.stop)
    log.info("listening", metrics=bound)


async def flush(spoken: list[replica.Replica]) -> None:
    """The last flush, as far as the log takes it in time."""
    try:
        async with asyncio.timeout(LAST_FLUSH):
            await asyncio.gather(*(one.finish() for one in spoken))
        log.info("flushed and stopped")
    except TimeoutError:
        log.warning("the log did not take the last flush in time; a later keyframe will tell", seconds=LAST_FLUSH)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    logs.configure(role="subscriber", form=values["log-format"], level=values["log-level"])
    check_names(values)
    try:
        return uvloop.run(listen_and_tell(values))
    except endpoints.EndpointError as error:
        raise flags.UsageError(str(error)) from error
