"""Answers admission reviews: wires engine Pods, defaults and validates custom resources.

Example:
  warmlog webhook --nats nats://nats:4222 --bind-address 0.0.0.0:9443

Run two or more; there is no leader among them. While the log is away reviews are answered by live reads. The
certificate is read from the Secret that the controller makes, or from files, and read again when it changes. Exit
codes: 0 after SIGTERM and a drain, 2 wrong flags, 3 refused.
"""

import argparse
import asyncio
import base64
import contextlib
import functools
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvloop

from eventstore import envelope, events, store, streams, subjects
from eventstore.jetstream import store as jetstream
from handlers import canonical, tokens
from handlers.cachebackend import admit
from handlers.cachebackend.inject import Options, takes_native_sidecars
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from handlers.world.state import World
from subscribers import metrics
from subscribers.following import Follower
from subscribers.http import admission, hotpath, recording, reviewing, reviewmeters, sharedreads
from subscribers.kubernetes import livereads
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from warmlog import VERSION, cli, cluster, flags, health, link, logs, serving, signals, systems

log = structlog.get_logger()

FLAGS: Final = (
    *link.FLAGS,
    *cluster.FLAGS,
    flags.Flag("bind-address", "where API servers call", "127.0.0.1:9443", flags.address),
    flags.Flag("health-bind-address", "healthz, readyz, metrics", "127.0.0.1:8083", flags.address),
    flags.Flag(
        "namespace", "where the certificate's Secret lives; its Pods are never touched", "inference-cache-system"
    ),
    flags.Flag("tls-secret", "Secret with tls.crt and tls.key", "warmlog-webhook-tls"),
    flags.Flag("tls-cert-file", "certificate (PEM) instead of the Secret"),
    flags.Flag("tls-key-file", "its key"),
    flags.Flag("kvevent-subscriber-image", "image of the KV-event subscriber; none is injected when empty"),
    flags.Flag("policy-server-grpc-address", "--server of injected subscribers; ours take nats://…", Options().server),
    *systems.CACHE_FLAGS,
    *systems.POOL_FLAGS,
    flags.Flag("instance", "this webhook's name in the log; host name and process when empty"),
    *logs.FLAGS,
)
#: Settings that stand in patches, and so in the log: what is before their @ does not.
ADDRESSES: Final = (
    "kvevent-subscriber-image", "policy-server-grpc-address", "kernel-cache-linker-image", "kv-cache-backend-image",
)  # fmt: skip
SYSTEM_NAMESPACES: Final = frozenset(("kube-system", "kube-public", "kube-node-lease"))
LOOK: Final = 2.0
#: How often the API server is asked which version it is.
VERSIONS: Final = 60.0
AGAIN: Final = 0.5
#: How long a webhook that has just started waits for the log before it says that it is ready without.
PATIENCE: Final = 10.0
#: Changes when the same world and question may get another answer.
LOGIC: Final = "1"


class Webhook:
    """It answers from the first moment that it has a certificate: without the log by live reads alone."""

    def __init__(self, values: flags.Values, client: Client) -> None:
        self.values = values
        self.instance = values["instance"] or f"{socket.gethostname()}-{os.getpid()}"
        self.objects = Objects(client)
        self.reads = livereads.LiveReads(client, deadline=sharedreads.READ)
        self.log: jetstream.JetStreamStore | None = None  # until NATS was reached
        self.follower: Follower | None = None
        self.recorder = recording.Recorder(self.append, self.offer)
        self._own = tokens.Hider("webhook")  # of settings, in every replica the same
        shown = flags.Values(
            {**values, **{name: tokens.hidden(values[name], self._own.once, address=True) for name in ADDRESSES}}
        )
        self.told = shown.told(FLAGS)
        self.desk = admission.Desk(
            systems.admitters(*systems.options(shown)),
            world=self.world,
            live=self.reads.objects,
            values=self.real,
            recorder=self.recorder,
            identity=admission.Identity(self.instance, LOGIC, canonical.digest(self.told)),
            excluded=SYSTEM_NAMESPACES | {values["namespace"]},
        )
        self.registry = metrics.Registry()
        timed = reviewmeters.register(self.registry, self.desk, self.recorder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.listener = reviewing.Listener(reviewing.Routes(self.desk, timed=timed), self.context)
        self.certified = ""
        self.asked_version = False
        self._nothing = World()
        self._began = time.monotonic()

    # The log ------------------------------------------------------------------------------------------------------

    def world(self) -> World:
        return self._nothing if self.follower is None else self.follower.world

    async def append(self, event: envelope.Envelope) -> None:
        if self.log is None:
            raise store.Unavailable("NATS was not reached yet")
        await self.log.append(event)

    def offer(self, event: envelope.Envelope, told: Callable[[bool], None]) -> bool:
        return self.log is not None and self.log.offer(event, told)

    async def follow(self) -> None:
        """Reach NATS, however long it takes, and fold the log. A stream that is not there is waited for: the controller
        makes it."""
        async with await link.open_link(self.values, "webhook", wait=None) as connection:
            self.log = jetstream.JetStreamStore(connection)
            snaps = jetstream.JetStreamStore(connection, name=streams.SNAPSHOTS)
            self.follower = Follower(self.log, snaps=snaps)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(link.ended(connection))
                tasks.create_task(self._fold(self.follower))
                tasks.create_task(serving.settle(self.follower.caught_up))
                tasks.create_task(self.tell_settings())

    async def _fold(self, follower: Follower) -> None:
        trouble = ""
        while True:
            try:
                await follower.run()
            except store.Misconfigured as error:
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("log-missing", reason=trouble)
                await asyncio.sleep(AGAIN)

    async def tell_settings(self) -> None:
        seen = events.SettingsSeen(role="webhook", instance=self.instance, version=VERSION, settings=self.told)
        event = events.event(
            seen,
            id=f"settings.seen:webhook:{self.instance}:{time.time_ns()}",
            source="warmlog/webhook",
            subject=subjects.settings_subject("webhook"),
            time_ns=time.time_ns(),
            actor=f"webhook/{self.instance}",
        )
        while True:
            try:
                await self.append(event)
                return
            except (store.Unavailable, store.Misconfigured, store.StreamFull):
                await asyncio.sleep(AGAIN)

    async def watch_version(self) -> None:
        """A cluster below 1.29 takes no native sidecars. That it was upgraded is noticed; the log says under which
        settings each decision was made."""
        native, pause = True, LOOK
        while True:
            try:
                answer = await self.objects.client.request("GET", "/version", deadline=LOOK)
                found, pause = takes_native_sidecars(msgspec.json.decode(answer.body, type=dict[str, Any])), VERSIONS
            except (ClusterError, msgspec.MsgspecError) as error:
                log.info("version-unknown", error=str(error))
                found = native
            self.asked_version = True
            if found != native:
                native = found
                log.info("native-sidecars", taken=native)
                self.told["native-sidecars"] = str(native).lower()
                for one in self.desk.admitters.values():
                    if isinstance(one, admit.Pods):
                        one.settle(one.options._replace(native_sidecars=native))
                self.desk.identity = admission.Identity(self.instance, LOGIC, canonical.digest(self.told))
                await self.tell_settings()
            await asyncio.sleep(pause)

    async def real(self, kind: str, namespace: str, wanted: frozenset[str]) -> Mapping[str, str]:
        """What tokens stand for: of settings, or of objects of a kind in that namespace."""
        own = {token: self._own.values[token] for token in wanted & self._own.values.keys()}
        rest = wanted - own.keys()
        return {**own, **(await self.reads.values(kind, namespace, rest) if rest else {})}

    # The certificate ----------------------------------------------------------------------------------------------

    async def certify(self) -> None:
        """Read the certificate until there is one, then whenever it changes."""
        trouble = ""
        while True:
            try:
                certificate, key = await self._pair()
                if certificate and certificate + key != self.certified:
                    self._load(certificate, key)
                    self.certified = certificate + key
                    log.info("certificate-loaded")
                trouble = ""
            except (ClusterError, OSError, ssl.SSLError, ValueError) as error:
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("certificate-troubled", error=trouble)
            await asyncio.sleep(LOOK if self.certified else 0.2)

    async def _pair(self) -> tuple[str, str]:
        if self.values["tls-cert-file"]:
            names = (self.values["tls-cert-file"], self.values["tls-key-file"])
            return Path(names[0]).read_text(), Path(names[1]).read_text()  # noqa: ASYNC240 - two small local files
        secret = await self.objects.get(Key("secrets", self.values["namespace"], self.values["tls-secret"]))
        data = (secret or {}).get("data") or {}
        return tuple(base64.b64decode(data.get(name, "")).decode() for name in ("tls.crt", "tls.key"))  # type: ignore[return-value]

    def _load(self, certificate: str, key: str) -> None:
        """OpenSSL reads files only; they are gone before this returns."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "pair.pem"
            path.touch(mode=0o600)
            path.write_text(key + certificate)
            self.context.load_cert_chain(path)

    # Life ---------------------------------------------------------------------------------------------------------

    def readiness(self) -> health.Readiness:
        reasons: list[str] = []
        notes: list[str] = []
        if not self.certified:
            reasons.append("there is no certificate yet")
        if self.follower is None or not self.follower.caught_up.is_set():
            waited = time.monotonic() - self._began
            told = "the control log is still being read"
            (reasons if waited < PATIENCE else notes).append(told)
        if self.recorder.dropped:
            notes.append(f"{self.recorder.dropped} decisions were not recorded")
        if self.recorder.queued:
            notes.append(f"{self.recorder.queued} decisions wait for the log")
        return health.Readiness(not reasons, reasons, notes)

    async def serve(self, stop: asyncio.Event) -> None:
        address = self.values["health-bind-address"]
        async with (
            health.serving(address, self.readiness, metrics=self.registry.render) as port,
            asyncio.TaskGroup() as tasks,
        ):
            running: list[asyncio.Task[Any]] = [
                tasks.create_task(one) for one in (self.certify(), self.follow(), self.watch_version())
            ]
            await signals.unless(stop, self._certified())
            if not stop.is_set():
                bound = await self._listen()
                serving.freeze()
                log.info("listening", reviews=bound, health=port, version=VERSION)
            await stop.wait()
            await self.listener.drain(grace=5.0)
            if left := await self.recorder.drain(2.0):
                log.warning("decisions-not-recorded", count=left)
            if self.log is not None:
                await self.log.close()
            for task in running:
                task.cancel()
        log.info("drained and stopped")

    async def _certified(self) -> None:
        while not self.certified or not self.asked_version:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def _listen(self) -> int:
        host, port = self.values["bind-address"]
        try:
            return await self.listener.start(host, port)
        except hotpath.ListenError as error:
            raise cli.Failure(str(error), cli.REFUSED) from error


async def prepared(values: flags.Values, closing: contextlib.AsyncExitStack) -> Webhook:
    link.options(values, "webhook")  # what is wrong with the flags is said now
    client = await closing.enter_async_context(await cluster.open_cluster(values))
    return Webhook(values, client)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    if bool(values["tls-cert-file"]) != bool(values["tls-key-file"]):
        raise flags.UsageError("--tls-cert-file and --tls-key-file belong together")
    logs.configure(role="webhook", form=values["log-format"], level=values["log-level"])
    return uvloop.run(serving.until_told(functools.partial(prepared, values)))
