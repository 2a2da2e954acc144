"""A house for tests of admission: an API server (devkube in the test's process, or a real one) calls webhooks that are
processes, over real TLS and as a Service.

The roles run as the accounts of deploy/kubernetes, with exactly the rights that are written there: what was refused to
them is in `house.refused`. Webhooks stand behind `house.front`, which is their Service: one of them at a time.
`house.reads` is the API as webhooks see it, `house.proxy` as the controller does.
"""

import asyncio
import contextlib
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from devkube.errors import StatusError
from eventstore import events
from eventstore.jetstream import connect
from eventstore.jetstream import store as jetstream
from tests.support import kubernetes
from tests.support.controllerhouse import PATIENCE, SPACE, SYSTEM, Controller, House
from tests.support.ports import free_port
from tests.support.tcpproxy import Proxy

Object = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
PODS, BACKENDS = (
    f"/api/v1/namespaces/{SPACE}/pods",
    f"/apis/inferencecache.io/v1alpha1/namespaces/{SPACE}/cachebackends",
)
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/warmlog-webhook-tls"
ACCOUNTS = {
    "controller": "inference-cache-controller",
    "webhook": "warmlog-webhook",
    "server": "inference-cache-server",
}
PLURALS = {"NetworkPolicy": "networkpolicies"}


class WebhookHouse(House):
    def __init__(self, directory: Path, api: str = "devkube") -> None:
        super().__init__(directory, api)
        self.front, self.reads = Proxy("127.0.0.1", 0), Proxy("127.0.0.1", 0)
        self.webhooks: dict[str, tuple[Controller, int]] = {}

    @property
    def refused(self) -> list[str]:
        return self.api.refusals()

    async def start(self, *, crds: bool = True) -> None:
        await self.front.up()
        await super().start(crds=crds)
        self.reads.target = self.proxy.target
        await self.reads.up()

    async def manifests(self) -> None:
        """What deploy/kubernetes has, but for its workloads: the processes of a test stand for them."""
        await self.apply("namespace.yaml", "rbac.yaml", "webhook.yaml")
        await self.connect()
        await self.configure()

    async def connect(self) -> None:
        """The roles become the accounts of the manifests, and the Service leads to `front`."""
        for role, account in ACCOUNTS.items():
            await self._account(role, account)
        await self.api.route(f"{SYSTEM}/warmlog-webhook", self.front.port)

    async def configure(self) -> None:
        await self.apply("webhooks.yaml", "webhooks-kernelcache.yaml", "webhooks-kvcache.yaml")
        await self.api.route(f"{SYSTEM}/warmlog-webhook", self.front.port)

    async def apply(self, *names: str) -> None:
        for name in names:
            for one in yaml.safe_load_all((DEPLOY / name).read_text()):
                if one["kind"] in ("Deployment", "PodDisruptionBudget"):
                    continue  # the processes of this test stand for them
                with contextlib.suppress(StatusError):  # the namespace is there already
                    await self.api.request("POST", _path(one), one)

    async def _account(self, role: str, account: str) -> None:
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = (await self.api.request("POST", path, body))["status"]["token"]
        content = yaml.safe_load(self.api.kubeconfig.read_text())
        port = self.reads.port if role == "webhook" else self.proxy.port
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        content["users"][0]["user"] = {"token": token}
        (self.directory / f"{role}.kubeconfig").write_text(yaml.safe_dump(content))
        if role == "controller":
            self.kubeconfig = self.directory / "controller.kubeconfig"

    # Roles ------------------------------------------------------------------------------------------------------------

    async def webhook(self, name: str = "one", *more: str, wait: bool = True) -> Controller:
        """A replica; the Service's only one from now on."""
        output, port = self.directory / f"webhook-{name}.log", free_port()
        words = (
            f"--nats={self.nats.url}", f"--kubeconfig={self.directory / 'webhook.kubeconfig'}", f"--instance={name}",
            f"--bind-address=127.0.0.1:{port}", "--health-bind-address=127.0.0.1:0", "--log-format=text",
            "--kvevent-subscriber-image=subscriber:1", *more,
        )  # fmt: skip
        with output.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "warmlog", "webhook", *words, stdout=out, stderr=out
            )
        made = Controller(f"webhook-{name}", process, output)
        self.webhooks[name] = made, port
        self.controllers[made.name] = made  # ended with the house
        await self.serve(name)
        if wait:
            await self.until(lambda: self._listens(port), f"{name} listens: {made.said}")
        return made

    async def serve(self, name: str) -> None:
        """The replica that the Service leads to from now on, also those who are connected already."""
        self.front.target = self.webhooks[name][1]
        await self.front.hang_up()

    async def _listens(self, port: int) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    async def ready(self) -> None:
        """Controller and webhook run, and a review is answered."""
        await self.controller()
        await self.webhook()

        async def answered() -> bool:
            try:
                await self.api.request("POST", BACKENDS, backend("probe"), query={"dryRun": "All"})
            except StatusError:
                return False
            return True

        await self.until(answered, "a review is answered")

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str) -> Any:
        """What it gives once that is true."""
        deadline = time.monotonic() + PATIENCE
        while not (found := await holds()):
            assert time.monotonic() < deadline, f"never: {what}"
            await asyncio.sleep(0.05)
        return found

    # What became of it ------------------------------------------------------------------------------------------------

    async def decided(self, count: int = 0) -> list[events.AdmissionDecided]:
        """Decisions in the log, once there are so many."""

        async def enough() -> list[events.AdmissionDecided] | None:
            found = [one for one in await self._events() if isinstance(one, events.AdmissionDecided)]
            return found if len(found) >= count else None

        if not count:
            return await enough() or []
        return await self.until(enough, f"{count} decisions in the log")  # type: ignore[no-any-return]

    async def _events(self) -> list[events.Event]:
        found = []
        for stored in await self.stored():
            decoded = events.decode(stored)
            if isinstance(decoded, events.Decoded):
                found.append(decoded.data)
        return found

    async def stored(self) -> list[Any]:
        async with await connect.connect(self.nats.url, connect.Options(name="test"), wait=5) as connection:
            log = jetstream.JetStreamStore(connection)
            return [one async for batch in log.read() for one in batch]


@contextlib.asynccontextmanager
async def client(house: WebhookHouse) -> AsyncIterator[kubernetes.Client]:
    """As an administrator, over HTTPS: warnings are seen."""
    trust = ssl.create_default_context(cafile=str(house.api.ca_file))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield kubernetes.Client(session, house.api.url, token=house.api.admin_token)


def backend(name: str, **spec: Any) -> Object:
    """A CacheBackend that selects Pods labelled serve=<name>."""
    return {
        "apiVersion": "inferencecache.io/v1alpha1",
        "kind": "CacheBackend",
        "metadata": {"name": name},
        "spec": {
            "runtime": "VLLM",
            "engineSelector": {"matchLabels": {"serve": name}},
            "observation": {"modelID": "qwen"},
            **spec,
        },
    }


def engine(serve: str, **container: Any) -> Object:
    """A Pod without a name or a namespace of its own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{serve}-", "labels": {"serve": serve}},
        "spec": {"containers": [{"name": "engine", "image": "engine:1", **container}]},
    }


def _path(one: Object) -> str:
    version, kind = one["apiVersion"], one["kind"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    namespace = one["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


__all__ = ["SPACE", "SYSTEM", "WebhookHouse", "backend", "client", "engine"]
