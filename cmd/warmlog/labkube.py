"""Kubernetes on the laptop: an API server, the CRDs and webhook configurations in it, a controller and a webhook.

`devkube` is our in-memory server with simulated nodes; `assets` is a real kube-apiserver where KUBEBUILDER_ASSETS names
one (no nodes there, so Pods stay Pending). The roles are processes of their own and reach it as they reach any cluster.
"""

import contextlib
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import aiohttp
import msgspec
import yaml

from crds import definitions, render
from handlers.effects.cluster import ClusterError
from handlers.outcome import Key, Object
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.objects import Objects
from subscribers.kubernetes.routes import ROUTES
from warmlog import certificates, flags, kubeassets, kubectl, lab
from warmlog.children import PATIENCE, LabError, Process, free_port

Choice = Literal["devkube", "assets", "none"]
NAMESPACE: Final = "inference-cache-system"
SERVICE: Final = "warmlog-webhook"
FLAG: Final = flags.Flag(
    "kubernetes",
    "devkube, assets (the kube-apiserver of $KUBEBUILDER_ASSETS) or none; assets where that is set, else devkube",
    "",
    flags.one_of("", "devkube", "assets", "none"),
)


class Server(Protocol):
    """One of the two API servers."""

    kubeconfig: Path
    url: str

    async def start(self) -> None: ...
    async def away(self) -> None: ...
    async def back(self) -> None: ...


class DevKube:
    """`away` kills it; what it knew lies in its directory and is there again afterwards."""

    def __init__(self, laboratory: lab.Lab, directory: Path, webhook: str) -> None:
        self.lab, self.directory = laboratory, directory
        self.kubeconfig, self.url = directory / "kubeconfig", ""
        self.words = [
            f"--directory={directory}",
            "--simulate",
            "--pull-seconds=0",
            f"--webhook-service={NAMESPACE}/{SERVICE}={webhook}",
        ]

    async def start(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        words = lab.python("warmlog.kubehost", f"--port={port}", *self.words)
        process = await self.lab.spawn("devkube", words, read_stdout=True)
        line = await process.first_line(PATIENCE)
        try:
            self.url = msgspec.json.decode(line)["url"]
        except (msgspec.MsgspecError, KeyError, TypeError):
            why = f"devkube did not start: {process.last_words()}"
            raise LabError(f"{why}; it needs `pip install 'warmlog[dev]'`, --kubernetes none does without") from None

    async def away(self) -> None:
        await self.lab.processes["devkube"].kill()

    async def back(self) -> None:
        await self.start()


class Kube:
    """The cluster of one lab. `objects` reads and writes it as the administrator."""

    def __init__(self, laboratory: lab.Lab, choice: Choice) -> None:
        self.lab, self.choice = laboratory, choice
        self.reviews = f"127.0.0.1:{free_port()}"
        directory = laboratory.directory / "kubernetes"
        self.server: Server = (
            DevKube(laboratory, directory, self.reviews)
            if choice == "devkube"
            else kubeassets.Assets(laboratory, directory)
        )
        self.health = {"controller": f"127.0.0.1:{free_port()}", "webhook": f"127.0.0.1:{free_port()}"}
        self._client: Client | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    @property
    def objects(self) -> Objects:
        assert self._client is not None, "start it first"
        return Objects(self._client)

    @property
    def kubectl(self) -> kubectl.Tool:
        assert self._client is not None, "start it first"
        return kubectl.tool(self.kubeconfig, self.lab.directory, self._client)

    async def start(self) -> None:
        await self.server.start()
        self._client = await Client.open(kubeconfig=str(self.kubeconfig))

    async def answers(self) -> bool:
        with contextlib.suppress(ClusterError):
            return bool(await self.objects.list("namespaces"))
        return False

    async def install(self) -> list[str]:
        """CRDs, namespaces, webhook configurations; a line per object."""
        spaces = [namespace(name) for name in (NAMESPACE, lab.TENANT)]
        return await self.kubectl.apply(*spaces, *map(render.definition, definitions.DEFINITIONS), *self._hooks())

    def _hooks(self) -> list[Object]:
        """A real server on this machine knows no Services: it is told the address instead."""
        texts = [path.read_text() for path in sorted(manifests().glob("webhooks*.yaml"))]
        found = [one for text in texts for one in yaml.safe_load_all(text) if one]
        if self.choice == "assets":
            for hook in (hook for one in found for hook in one["webhooks"]):
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://{self.reviews}{path}"
        return found

    async def start_roles(self) -> None:
        """A controller and a webhook, which `roles_ready` waits for."""
        shared = [
            f"--kubeconfig={self.kubeconfig}",
            f"--nats={self.lab.nats_url}",
            f"--nats-token-file={self.lab.directory / 'token'}",
        ]
        names = f"{SERVICE}.{NAMESPACE}.svc,127.0.0.1"
        health = [f"--health-bind-address={self.health[name]}" for name in ("controller", "webhook")]
        controller = ["controller", *shared, health[0], f"--webhook-names={names}", *lab.ROOM]
        webhook = ["webhook", *shared, health[1], f"--bind-address={self.reviews}"]
        for words in (controller, webhook):
            await self.lab.spawn(words[0], lab.python("warmlog", *words, f"--instance={words[0]}"))

    async def roles_ready(self) -> None:
        """The controller leads, the webhook answers, the API server trusts its certificate. Raises LabError."""
        for name in ("controller", "webhook"):
            process: Process = self.lab.processes[name]

            async def answers(name: str = name) -> bool:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with self.lab.http.get(f"http://{self.health[name]}/readyz") as answer:
                        return answer.status == 200
                return False

            await self.lab.until(answers, what=f"{name} to be ready", process=process)
        await self.lab.until(self._trusted, what="the webhook's certificate to be trusted")

    async def _trusted(self) -> bool:
        found = [
            hook for kind in certificates.CONFIGURATIONS for one in await self.find(kind) for hook in one["webhooks"]
        ]
        return bool(found) and all(hook["clientConfig"].get("caBundle") for hook in found)

    async def find(self, kind: str, namespace: str = "", labels: str = "") -> list[Object]:
        """Those with the labels (a selector). Raises LabError."""
        try:
            return await self.objects.list(kind, namespace, labelSelector=labels)
        except ClusterError as error:
            raise LabError(f"{kind} cannot be listed: {error}") from error

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Raises LabError, also where there is no such object."""
        try:
            found = await self.objects.get(Key(kind, namespace, name))
        except ClusterError as error:
            raise LabError(f"{kind} {name} cannot be read: {error}") from error
        if found is None:
            raise LabError(f"there is no {kind} {namespace}/{name}")
        return found

    async def rehearse(self, kind: str, document: Object) -> Object:
        """What the API and its webhooks would make of a new object; a dry run, it leaves nothing. Raises LabError."""
        path = ROUTES[kind].path(document["metadata"]["namespace"])
        try:
            answer = await self.objects.client.request("POST", path, query={"dryRun": "All"}, body=document)
        except ClusterError as error:
            raise LabError(f"{document['metadata']['name']} would not be taken: {error}") from error
        found: Object = msgspec.json.decode(answer.body)
        return found

    async def judged(self, kind: str, namespace: str, name: str) -> None:
        """Until the controller has written a status: the object is in the log, and Pods made from now on meet it."""

        async def so() -> bool:
            return bool((await self.get(kind, namespace, name)).get("status"))

        await self.lab.until(so, what=f"a status of {name}")


def chosen(given: str) -> Choice:
    """What an empty --kubernetes means. The flag was read by FLAG. Raises LabError where the choice has no binaries."""
    found: Choice = given or ("assets" if kubeassets.folder() else "devkube")  # type: ignore[assignment]
    if found == "assets":
        kubeassets.binaries()
    return found


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def manifests() -> Path:
    """deploy/kubernetes of the checkout, or its copy in the installed package."""
    installed = Path(__file__).parent / "deploy"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "deploy" / "kubernetes"
