"""Answers admission reviews: wires engine Pods, defaults and validates custom resources.

Example:
  warmlog webhook --nats nats://nats:4222 --bind-address 0.0.0.0:9443

Run two or more; there is no leader among them. The certificate is read from the Secret that the controller makes, or
from files, and read again when it changes. Exit codes: 0 after SIGTERM and a drain, 2 wrong flags, 3 refused.
"""

import argparse
import asyncio
import base64
import contextlib
import hashlib
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvloop
from aiohttp import web

from crds.cachebackend import CACHE_BACKENDS
from eventstore import events, store, subjects
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from handlers.admission import review
from handlers.cachebackend.inject import Options
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from handlers.world import kinds
from handlers.world.state import Known
from subscribers.following import Follower
from subscribers.http.admission import Desk
from subscribers.kubernetes import narrow
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from warmlog import VERSION, cli, cluster, flags, health, link, logs, signals, systems

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
    flags.Flag("policy-server-grpc-address", "server that injected subscribers report to", Options().server),
    flags.Flag("instance", "this webhook's name in the log; host name and process when empty"),
    *logs.FLAGS,
)
SYSTEM_NAMESPACES: Final = frozenset(("kube-system", "kube-public", "kube-node-lease"))
LARGEST: Final = 16 * 1024 * 1024
LOOK: Final = 2.0
#: Changes when the same world and question may get another answer.
LOGIC: Final = "1"


class Webhook:
    def __init__(self, values: flags.Values, connection: connect.Connection, client: Client) -> None:
        self.values, self.connection = values, connection
        self.instance = values["instance"] or f"{socket.gethostname()}-{os.getpid()}"
        self.log = jetstream.JetStreamStore(connection)
        self.objects = Objects(client)
        self.follower = Follower(self.log)
        self.options = Options(
            subscriber_image=values["kvevent-subscriber-image"], server=values["policy-server-grpc-address"]
        )
        told = values.told(FLAGS)
        self.desk = Desk(
            systems.admitters(self.options),
            world=lambda: self.follower.world,
            live=self.live,
            values=self.real,
            append=self.log.append,
            instance=self.instance,
            logic=LOGIC,
            settings="sha256:" + hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest(),
            excluded=SYSTEM_NAMESPACES | {values["namespace"]},
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.certified = ""
        self._known_values: dict[str, str] = {}

    # What is read live --------------------------------------------------------------------------------------------

    async def live(self, kind: str, namespace: str) -> Mapping[Key, Known]:
        found: dict[Key, Known] = {}
        for document in await self.objects.list(kind, namespace, deadline=0.3):
            one = narrow.narrow(kind, msgspec.json.encode(document))
            shape = kinds.KINDS[kind].shape
            key = Key(kind, one.namespace, one.name)
            found[key] = Known(one.uid, one.resource_version, shape, 0, 0, one.value, one.problem)
        return found

    async def real(self, namespace: str, wanted: frozenset[str]) -> Mapping[str, str]:
        """A token is a hash of its value, so what was learned once stays true."""
        if not wanted <= self._known_values.keys():
            for document in await self.objects.list(CACHE_BACKENDS, namespace, deadline=0.3):
                self._known_values.update(narrow.values(document))
        return {token: self._known_values[token] for token in wanted if token in self._known_values}

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

    async def handle(self, request: web.Request) -> web.Response:
        try:
            answer = await self.desk.answer(request.path, await request.read())
        except KeyError:
            return web.json_response({"error": f"there is no webhook at {request.path}"}, status=404)
        except review.Malformed as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.Response(body=answer, content_type="application/json")

    def readiness(self) -> health.Readiness:
        reasons = []
        if not self.follower.caught_up.is_set():
            reasons.append("the control log is still being read")
        if not self.certified:
            reasons.append("there is no certificate yet")
        notes = [f"{self.desk.dropped} decisions were not recorded"] if self.desk.dropped else []
        return health.Readiness(not reasons, reasons, notes)

    async def tell_settings(self) -> None:
        told = self.values.told(FLAGS)
        seen = events.SettingsSeen(role="webhook", instance=self.instance, version=VERSION, settings=told)
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
                await self.log.append(event)
                return
            except store.Unavailable:
                await asyncio.sleep(1.0)

    async def serve(self, stop: asyncio.Event) -> None:
        app = web.Application(client_max_size=LARGEST)
        app.router.add_post("/{path:.*}", self.handle)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5.0)
        await runner.setup()
        async with health.serving(self.values["health-bind-address"], self.readiness) as port:
            async with asyncio.TaskGroup() as tasks:
                running: list[asyncio.Task[Any]] = [
                    tasks.create_task(self.certify()),
                    tasks.create_task(self.follower.run()),
                    tasks.create_task(link.ended(self.connection)),
                    tasks.create_task(self.tell_settings()),
                ]
                await signals.unless(stop, self._certified())
                if not stop.is_set():
                    bound = await self._listen(runner)
                    log.info("listening", reviews=bound, health=port, version=VERSION)
                await stop.wait()
                await runner.cleanup()
                await self.desk.drain(2.0)
                for task in running:
                    task.cancel()
            await self.log.close()
        log.info("drained and stopped")

    async def _certified(self) -> None:
        while not self.certified:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def _listen(self, runner: web.AppRunner) -> int:
        host, port = self.values["bind-address"]
        site = web.TCPSite(runner, host, port, ssl_context=self.context, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise cli.Failure(f"cannot listen on {host}:{port}: {error.strerror}", cli.REFUSED) from error
        server: Any = site._server
        return int(server.sockets[0].getsockname()[1])


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
        except* cli.Failure as failed:
            raise failed.exceptions[0] from failed
        except* store.Unavailable as away:
            raise cli.Failure(str(away.exceptions[0])) from away
    return 0


async def prepared(values: flags.Values, closing: contextlib.AsyncExitStack) -> Webhook:
    client = await closing.enter_async_context(await cluster.open_cluster(values))
    connection = await closing.enter_async_context(await link.open_link(values, "webhook", wait=None))
    return Webhook(values, connection, client)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    if bool(values["tls-cert-file"]) != bool(values["tls-key-file"]):
        raise flags.UsageError("--tls-cert-file and --tls-key-file belong together")
    logs.configure(role="webhook", form=values["log-format"], level=values["log-level"])
    return uvloop.run(start(values))
